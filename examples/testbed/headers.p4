// What both programs have in common: a tag between the Ethernet header and the packet.

#include <core.p4>
#include <v1model.p4>

const bit<16> TAGGED = 0x88B5;

// The side of the hosts, and the side of the other switch.
const bit<9> HOST_PORT = 1;
const bit<9> SWITCH_PORT = 2;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header tag_t {
    bit<16> class;
    // EtherType of the packet behind the tag.
    bit<16> type;
}

struct headers_t {
    ethernet_t ethernet;
    tag_t tag;
}

struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TAGGED: tag;
            default: accept;
        }
    }
    state tag {
        packet.extract(hdr.tag);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Leave(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply {} }
control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Emit(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}
