// `for` loops over a condition and over a range, with break and continue.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> n; bit<8> sum; bit<8> odd; }
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
        for (bit<8> i = 0; i < hdr.h.n; i = i + 1) {
            if (i == 10) {
                break;
            }
            hdr.h.sum = hdr.h.sum + i;
        }
        for (bit<8> j in 1..6) {
            if (j[0:0] == 0) {
                continue;
            }
            hdr.h.odd = hdr.h.odd + j;
        }
    }
}

#include "lib/rest.p4"
