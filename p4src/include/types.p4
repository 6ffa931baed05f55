// Types and codes that all programs share. The numbers are those of docs/concepts and crates/wire.
#ifndef TYPES_P4
#define TYPES_P4

#include "sizes.p4"

typedef bit<48> mac_t;
typedef bit<32> ipv4_address_t;
typedef bit<9>  port_t;
typedef bit<16> group_t;
typedef bit<16> job_t;
typedef bit<32> epoch_t;    // the run of a job: no other run of any job has the same
typedef bit<32> sequence_t;
typedef bit<32> bitmap_t;   // bit w: the contribution of position, or of a rack's worker, w
typedef bit<8>  rack_t;     // a position that several workers share: its number plus one
typedef bit<32> index_t;    // of an aggregator
typedef bit<8>  priority_t; // of an ESA task; 0: below all. P4INC, SwitchML: the service
typedef bit<8>  audience_t; // 0: all; 1 + w: worker w only; ALL_BUT + 1 + w: all but worker w
typedef bit<8>  job_slot_t; // of the outcome counters
typedef bit<8>  color_t;    // of a meter

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_ARP = 0x0806;
const bit<16> ETHERTYPE_IPV6 = 0x86dd;
const bit<8>  IP_PROTOCOL_UDP = 17;
const bit<16> AGGREGATION_PORT = 29810;

// What carries another packet: IP in IP, IPv6 in IP, GRE, EtherIP, MPLS in IP; and over UDP VXLAN (its
// own port, and the one that Linux takes without being told) and Geneve.
const bit<8>  IP_PROTOCOL_IPIP = 4;
const bit<8>  IP_PROTOCOL_IPV6 = 41;
const bit<8>  IP_PROTOCOL_GRE = 47;
const bit<8>  IP_PROTOCOL_ETHERIP = 97;
const bit<8>  IP_PROTOCOL_MPLS = 137;
const bit<16> VXLAN_PORT = 4789;
const bit<16> VXLAN_PORT_LINUX = 8472;
const bit<16> GENEVE_PORT = 6081;

const bit<16> IPV4_BYTES = 20;
const bit<16> UDP_BYTES = 8;
const bit<16> AGGREGATION_BYTES = 28;
const bit<16> UDP_LENGTH_BARE = UDP_BYTES + AGGREGATION_BYTES;
const bit<16> UDP_LENGTH_FULL = UDP_LENGTH_BARE + 4 * VALUES;

// Explicit congestion notification in IPv4 (RFC 3168).
const bit<2> ECN_NOT_CAPABLE = 0;
const bit<2> ECN_CONGESTION_EXPERIENCED = 3;

// The priority of packets that must not evict: repeated ones, and those above the rate of preemption.
const priority_t LOWEST = 1;

// How much lower the logarithmic code of half a priority's value is: crates/protocol/src/priority.rs.
const priority_t LEVELS_PER_DOUBLING = 6;

// Of an audience. The replica of a result that goes to worker w has the number 1 + w.
const audience_t ALL_BUT = 0x80;

// The multicast group of all ports.
const group_t FLOOD_GROUP = 1;

enum bit<8> protocol_t {
    ATP      = 1,
    ESA      = 2,
    P4INC    = 3,
    SWITCHML = 4
}

// What a packet is for.
enum bit<8> kind_t {
    GRADIENT     = 1, // worker to parameter server: values to add
    PARAMETER    = 2, // parameter server or switch to all workers: a result
    REPLY        = 3, // the same to one worker: a result once more
    QUERY        = 4, // parameter server to one worker: send this fragment again
    SWEEP        = 5, // controller to switch: free all aggregators of a job
    REMINDER     = 6, // ESA: reminder agent to switch: give up what you hold of this task
    ABSENT       = 7, // ESA: switch to reminder agent: nothing
    ASYNCHRONOUS = 8  // P4INC: switch to worker: your packet, which came too early
}

// What became of a packet. Each packet is counted under one of these.
enum bit<5> outcome_t {
    FORWARDED   = 0,  // plain traffic
    ABSORBED    = 1,  // first of its task: took an empty aggregator
    ADDED       = 2,  // added to its task's aggregator
    COMPLETED   = 3,  // added as the last one; left with the sum
    COLLIDED    = 4,  // found another task's aggregator; left alone, marked (ESA: downgraded it)
    BYPASSED    = 5,  // needs no aggregator here: marked before, overflowed, whole already, elsewhere
    RESENT      = 6,  // a resend that found no aggregator (P4INC: that is the server's to answer)
    FLUSHED     = 7,  // took its task's partial sum along to the parameter server and freed it
    DUPLICATE   = 8,  // contribution was in the aggregator already
    SEIZED      = 9,  // took over an aggregator that was idle for long
    DISTRIBUTED = 10, // a result, multicast to the workers
    REPLIED     = 11, // a result for one worker
    QUERIED     = 12, // a query for one worker
    SWEPT       = 13, // one step of a sweep
    REJECTED    = 14, // not a packet that this port may send for this job
    MALFORMED   = 15, // wrong length, count, flags, bitmap, priority or index
    PREEMPTED   = 16, // took another task's aggregator and left as that task's partial sum
    REMINDED    = 17, // a reminder that fetched a partial sum and freed the aggregator
    ABSENT      = 18, // a reminder that found nothing
    ANSWERED    = 19, // what another switch said to a reminder, on its way through

    OUTSIDE      = 20, // named an aggregator outside its job's segment
    REPEATED     = 21, // sent again, and answered by the switch with the result
    ASYNCHRONOUS = 22, // came before the aggregator had finished an earlier round
    STALE        = 23, // of a round that the aggregator has left behind

    BARRED       = 24, // plain traffic in which a host could find a packet of ours
    EXCEEDED     = 25  // more than its port may send
}

// What a block of values does with its registers.
enum bit<3> value_access_t {
    NONE  = 0,
    STORE = 1, // the packet's values replace the sums
    ADD   = 2, // the packet's values are added; the packet gets the sums
    FETCH = 3, // the packet gets the sums
    SWAP  = 4  // the packet's values replace the sums; the packet gets the sums
}

// What it does with its copy of the result before.
enum bit<2> copy_access_t {
    NONE   = 0,
    KEEP   = 1, // the copy is what the packet holds
    RECALL = 2  // the packet gets the copy
}

#endif
