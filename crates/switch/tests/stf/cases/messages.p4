// log_msg, assert and assume: that hold, they change nothing.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; }
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
        log_msg("a packet came in");
        log_msg("a is {} and b is {}", { hdr.h.a, hdr.h.b });
        assume(hdr.h.a <= 255);
        assert(hdr.h.isValid());
        sm.egress_spec = 1;
        hdr.h.b = hdr.h.a + hdr.h.b;
    }
}

#include "lib/rest.p4"
