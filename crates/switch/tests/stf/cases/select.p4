// Transitions by values, masks, ranges, several values at once, and none that fits.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; }
header out_t { bit<8> branch; }
struct headers_t { h_t h; out_t o; }
struct metadata_t { bit<8> branch; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.a, hdr.h.b) {
            (0, 0): reject;
            (1, _): one;
            (0x10 &&& 0xF0, 5..9): two;
            (0x10 &&& 0xF0, 0x80 &&& 0x80): three;
            (2, default): four;
        }
    }
    state one {
        meta.branch = 1;
        transition accept;
    }
    state two {
        meta.branch = 2;
        transition accept;
    }
    state three {
        meta.branch = 3;
        transition one_more;
    }
    state one_more {
        meta.branch = meta.branch | 0x40;
        transition accept;
    }
    state four {
        meta.branch = 4;
        transition select(hdr.h.b) {
            7: two;
            default: accept;
        }
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        hdr.o.branch = meta.branch;
    }
}

#include "lib/rest.p4"
