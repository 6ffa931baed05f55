// Arithmetic that wraps and saturates, shifts, slices, concatenation, signed numbers, division of
// constants, casts between bit, int and bool, and an operand wider than a machine word.

#include <core.p4>
#include <v1model.p4>

header in_t { bit<8> a; bit<8> b; int<8> s; bit<128> wide; }
header out_t {
    bit<8> sum; bit<8> difference; bit<8> product; bit<8> up; bit<8> down;
    int<8> negated; int<8> shifted; bit<8> left; bit<8> right; bit<8> slice; bit<16> joined;
    bit<8> flags; bit<16> extended; bit<8> logic; int<8> clamped;
}
struct headers_t { in_t i; out_t o; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        bit<8> a = hdr.i.a;
        bit<8> b = hdr.i.b;
        hdr.o.sum = a + b;
        hdr.o.difference = a - b;
        hdr.o.product = a * b;
        hdr.o.up = a |+| b;
        hdr.o.down = a |-| b;
        hdr.o.negated = -hdr.i.s;
        hdr.o.shifted = hdr.i.s >> 1;
        hdr.o.left = a << b;
        hdr.o.right = a >> 3;
        hdr.o.slice = (bit<8>)a[6:2];
        hdr.o.joined = b ++ a;
        bool less = hdr.i.s < 0;
        hdr.o.flags = (bit<8>)((bit<1>)less ++ (bit<1>)(a == b) ++ (bit<1>)(a >= b) ++ (bit<1>)!less);
        hdr.o.extended = (bit<16>)(int<16>)hdr.i.s;
        hdr.o.logic = (a & b) | (a ^ ~b);
        hdr.o.clamped = hdr.i.s |+| 8s100;
        hdr.i.a[3:0] = 4w9;
        hdr.i.wide = (hdr.i.wide << 60) + 1;
    }
}

#include "lib/rest.p4"
