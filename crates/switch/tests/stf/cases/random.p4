// random: within bounds that are both included.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> low; bit<8> high; bit<8> ok; }
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
        bit<8> drawn;
        random(drawn, hdr.h.low, hdr.h.high);
        hdr.h.ok = drawn >= hdr.h.low && drawn <= hdr.h.high ? 8w1 : 0;
    }
}

#include "lib/rest.p4"
