// Sums, differences, products, shifts, comparisons, casts and slices, over signed and unsigned numbers
// of many widths.
#include "common.p4"

header in_t {
    bit<8> a; bit<8> b; bit<32> c; bit<32> d; bit<64> e; bit<64> f; bit<13> g; bit<3> h;
}
header out_t {
    bit<8> sum; bit<8> difference; bit<8> up; bit<8> down; bit<8> product;
    int<8> signed_sum; int<8> signed_up; int<8> signed_down;
    bit<32> left; bit<32> right; int<32> signed_right; bit<32> bits;
    bit<64> wide; bit<64> wide_difference; bit<16> concatenated; bit<32> extended; bit<16> cut;
    bit<8> compared; bit<16> sliced;
}
struct headers_t { ethernet_t ethernet; in_t x; out_t y; }
struct meta_t { }

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: x; default: accept; }
    }
    state x { p.extract(hdr.x); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.x.isValid()) {
            sm.egress_spec = 3;
            hdr.y.setValid();
            hdr.y.sum = hdr.x.a + hdr.x.b;
            hdr.y.difference = hdr.x.a - hdr.x.b;
            hdr.y.up = hdr.x.a |+| hdr.x.b;
            hdr.y.down = hdr.x.a |-| hdr.x.b;
            hdr.y.product = hdr.x.a * hdr.x.b;
            int<8> a = (int<8>) hdr.x.a;
            int<8> b = (int<8>) hdr.x.b;
            hdr.y.signed_sum = a + b;
            hdr.y.signed_up = a |+| b;
            hdr.y.signed_down = a |-| b;
            hdr.y.left = hdr.x.c << hdr.x.h;
            hdr.y.right = hdr.x.c >> hdr.x.a[5:0];
            hdr.y.signed_right = (int<32>) hdr.x.c >> hdr.x.h;
            hdr.y.bits = (hdr.x.c & hdr.x.d) ^ (hdr.x.c | ~hdr.x.d);
            hdr.y.wide = hdr.x.e + hdr.x.f * 3;
            hdr.y.wide_difference = hdr.x.e - hdr.x.f;
            hdr.y.concatenated = hdr.x.h ++ hdr.x.g;
            hdr.y.extended = (bit<32>) (int<32>) (int<8>) hdr.x.a;
            hdr.y.cut = (bit<16>) hdr.x.e;
            hdr.y.compared = 0;
            if (hdr.x.a < hdr.x.b) { hdr.y.compared = hdr.y.compared | 1; }
            if (a < b) { hdr.y.compared = hdr.y.compared | 2; }
            if (hdr.x.c >= hdr.x.d) { hdr.y.compared = hdr.y.compared | 4; }
            if ((int<32>) hdr.x.c <= (int<32>) hdr.x.d) { hdr.y.compared = hdr.y.compared | 8; }
            if (hdr.x.e == hdr.x.f || hdr.x.g == 0) { hdr.y.compared = hdr.y.compared | 16; }
            if (hdr.x.h != 0 && !(hdr.x.b > 100)) { hdr.y.compared = hdr.y.compared | 32; }
            hdr.y.sliced = hdr.x.e[40:25];
            hdr.y.sliced[3:0] = hdr.x.c[31:28];
            hdr.y.sliced[15:12] = hdr.x.a > 7 ? hdr.x.b[3:0] : 4w9;
        } else { mark_to_drop(sm); }
    }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.x); p.emit(hdr.y); } }
MAIN
