// Named arguments: evaluated, and written back, in the order of the call, not of the parameters.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { h_t h; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

bit<8> next(inout bit<8> n) {
    n = n + 1;
    return n;
}

bit<8> minus(in bit<8> x, in bit<8> y) {
    return x - y;
}

void both(out bit<8> first, out bit<8> second) {
    first = 0xF1;
    second = 0x52;
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        bit<8> n = hdr.h.a;
        hdr.h.a = minus(y = next(n), x = next(n));
        hdr.h.b = minus(x = next(n), y = next(n));
        both(second = hdr.h.c, first = hdr.h.c);
        both(first = hdr.h.d, second = hdr.h.d);
    }
}

#include "lib/rest.p4"
