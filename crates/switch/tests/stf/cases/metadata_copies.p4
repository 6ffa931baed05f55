// Copies of the standard metadata: an extern that is given one changes that one.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> kind; bit<16> port; bit<16> group; }
struct headers_t { h_t h; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control Refuse(inout standard_metadata_t of) {
    apply {
        mark_to_drop(of);
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    Refuse() refuse;
    apply {
        sm.egress_spec = 1;
        standard_metadata_t copy = sm;
        copy.mcast_grp = 7;
        if (hdr.h.kind == 0) {
            // The packet itself is not dropped.
            mark_to_drop(copy);
        } else if (hdr.h.kind == 1) {
            mark_to_drop(copy);
            sm = copy;
        } else if (hdr.h.kind == 2) {
            refuse.apply(copy);
        } else {
            refuse.apply(sm);
        }
        hdr.h.port = (bit<16>)copy.egress_spec;
        hdr.h.group = copy.mcast_grp;
    }
}

#include "lib/rest.p4"
