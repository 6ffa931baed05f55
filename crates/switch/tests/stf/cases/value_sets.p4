// A value set: what a parser branches on is filled in by the control plane.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> kind; bit<8> branch; }
struct headers_t { h_t h; }
struct metadata_t { bit<8> branch; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    value_set<bit<8>>(4) known;
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.kind) {
            1: one;
            known: found;
            default: accept;
        }
    }
    state one {
        meta.branch = 1;
        transition accept;
    }
    state found {
        meta.branch = 2;
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.h.branch = meta.branch;
    }
}

#include "lib/rest.p4"
