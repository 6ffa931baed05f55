// Loops with known numbers of turns. They are in actions: p4c leaves out the head of a loop that is in a
// control's `apply` and keeps its body, once, without a word.
#include "common.p4"

header data_t { bit<8> a; bit<8> b; bit<32> sum; bit<16> bits; }
header item_t { bit<8> v; }
struct headers_t { ethernet_t ethernet; data_t data; item_t[3] items; }
struct meta_t { bit<8> n; }

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: data; default: accept; }
    }
    state data {
        p.extract(hdr.data);
        p.extract(hdr.items.next);
        p.extract(hdr.items.next);
        transition accept;
    }
}
VERIFY { apply { } }
INGRESS {
    action steps() {
        for (bit<8> i = 0; i < 7; i = i + 2) {
            if (hdr.data.a == i) { continue; }
            if (hdr.data.b == i) { break; }
            hdr.data.sum = hdr.data.sum + (bit<32>) i;
        }
    }
    action nested() {
        for (bit<8> k = 1; k <= 3; k = k + 1) {
            for (bit<8> j = 1; j <= 2; j = j + 1) {
                if (k == j) { continue; }
                hdr.data.sum = hdr.data.sum + ((bit<32>) k << 8);
            }
        }
    }
    action ones() {
        bit<8> n = 0;
        bit<16> rest = hdr.data.bits;
        for (bit<8> i = 0; i < 16; i = i + 1) {
            if (rest == 0) { break; }
            if (rest[0:0] == 1) { n = n + 1; }
            rest = rest >> 1;
        }
        hdr.data.a = n;
    }
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.data.isValid()) {
            sm.egress_spec = 2;
            steps();
            nested();
            ones();
        } else { mark_to_drop(sm); }
    }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr); } }
MAIN
