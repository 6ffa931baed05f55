// mark_to_drop in ingress and egress, a port set after it, and the port that means "drop".

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> op; }
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
        sm.egress_spec = 1;
        if (hdr.h.op == 1) {
            mark_to_drop(sm);
        } else if (hdr.h.op == 2) {
            mark_to_drop(sm);
            sm.egress_spec = 2;
        } else if (hdr.h.op == 3) {
            sm.egress_spec = 511;
        }
    }
}

#define OWN_EGRESS
control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        if (hdr.h.op == 4) {
            mark_to_drop(sm);
        } else if (hdr.h.op == 5) {
            // The port is decided when egress begins.
            sm.egress_spec = 3;
        }
    }
}

#include "lib/rest.p4"
