// What Tofino has that others have otherwise.
#ifndef TARGET_P4
#define TARGET_P4

#include "../types.p4"

#if (POOL & (POOL - 1)) != 0
#error "on Tofino POOL must be a power of two: the bound of an index is a mask"
#endif

// The controller's port (PCIe: on a chip of two pipes a port of the second), and the one that leads back
// into the first pipe, where the workers are.
const port_t CPU_PORT = 192;
const port_t RECIRCULATION_PORT = 68;

// How the controls that both architectures share send packets.
#define SENDING inout ingress_intrinsic_metadata_for_deparser_t for_deparser, \
                inout ingress_intrinsic_metadata_for_tm_t for_tm
#define SEND(port) for_tm.ucast_egress_port = port;
#define SEND_TO_GROUP(group) for_tm.mcast_grp_a = group;
#define FLOOD for_tm.mcast_grp_a = FLOOD_GROUP; hdr.bridge.flooded = 1;
#define DROP for_deparser.drop_ctl = 1;

// Tables of constant entries say how many these are.
#define RULES_SIZE size = 64;
#define OWNERS_SIZE size = 32;

// What the counters of a table count.
#define DIRECT_COUNTER(name) DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) name;
#define COUNT(name) name.count();

// Direct meters, and what they say of packets above the rate.
#define DIRECT_METER(name) DirectMeter(MeterType_t.BYTES) name;
#define METER(name, color) color = name.execute();
const color_t YELLOW = 1;
const color_t RED = 3;

// The lower of two numbers replaces the first.
#define LOWER(field, bound) field = min(field, bound);

// What a resubmitted packet brings along from its pass before, in the place of the port's metadata;
// what the egress is told; and IPv4 with options, of which the checksum is not known.
#define TARGET_HEADERS passed_t passed; bridge_t bridge; ipv4_t ipv4_with_options;

const bitmap_t NOBODY_BELOW = 0;

// How the packet's bitmap stands to the workers of its port and of this switch, each zero where two
// are the same: a comparison of two fields that waits for a table takes a stage of its own.
#define COMPARE(unit, members) \
    meta.difference = hdr.aggregation.bitmap ^ unit; \
    meta.foreign = hdr.aggregation.bitmap & ~unit; \
    meta.others = hdr.aggregation.bitmap ^ members;

// Where in its segment an aggregator is, and how the packet's bitmap stands to a result's. Action data
// can be subtracted from, but not be subtracted.
#define PLACE_VARIABLES
#define PLACE(offset, size, total) \
    meta.before = offset - hdr.aggregation.index; \
    meta.places = size; \
    meta.strangers = hdr.aggregation.bitmap ^ total;
#define CHECK_PLACE

#endif
