// Functions: overloaded by arity and parameter names, generic with inferred types, with early returns.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; bit<16> c; }
struct headers_t { h_t h; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

bit<8> add(in bit<8> x) {
    return x + 1;
}

bit<8> add(in bit<8> x, in bit<8> y) {
    return x + y;
}

T pick<T>(in bool first, in T x, in T y) {
    if (first) {
        return x;
    }
    return y;
}

void order(inout bit<8> x, inout bit<8> y) {
    if (x <= y) {
        return;
    }
    bit<8> kept = x;
    x = y;
    y = kept;
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        order(hdr.h.a, hdr.h.b);
        hdr.h.c = pick(hdr.h.a == hdr.h.b, 16w0xABCD, hdr.h.c + 1);
        hdr.h.b = add(hdr.h.a, add(hdr.h.b));
        hdr.h.a = add(y = hdr.h.a, x = 0x10);
    }
}

#include "lib/rest.p4"
