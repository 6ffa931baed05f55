// Multicast: a copy for each port of each node of the group, with the node's number.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> group; bit<8> rid; bit<8> port; bit<8> kind; }
struct headers_t { h_t h; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        // A group goes before a port.
        sm.egress_spec = 9;
        sm.mcast_grp = (bit<16>)hdr.h.group;
    }
}

#define OWN_EGRESS
control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        hdr.h.rid = (bit<8>)sm.egress_rid;
        hdr.h.port = (bit<8>)sm.egress_port;
        hdr.h.kind = (bit<8>)sm.instance_type;
        if (sm.egress_port == sm.ingress_port) {
            mark_to_drop(sm);
        }
    }
}

#include "lib/rest.p4"
