// Headers that come, go, are copied and change places; structs and tuples of parameters.
#include "common.p4"

header half_t { bit<4> kind; bit<12> value; }
header full_t { bit<32> value; bit<16> tail; }
struct headers_t { ethernet_t ethernet; half_t first; half_t second; full_t full; half_t extra; }
struct point_t { bit<12> x; bit<12> y; }
struct meta_t { point_t here; point_t there; }

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: first; default: accept; }
    }
    state first {
        p.extract(hdr.first);
        transition select(hdr.first.kind) { 0 .. 7: second; 8: full; 9: both; default: accept; }
    }
    state second { p.extract(hdr.second); transition accept; }
    state full { p.extract(hdr.full); transition accept; }
    state both { p.extract(hdr.second); p.extract(hdr.full); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.first.isValid()) {
            sm.egress_spec = 2;
            half_t spare = hdr.first;
            meta.here = { hdr.first.value, 12w5 };
            meta.there = meta.here;
            if (hdr.second.isValid()) {
                meta.there.x = hdr.second.value;
                hdr.first = hdr.second;
                hdr.second = spare;
            } else {
                hdr.extra = { 4w3, spare.value + 1 };
            }
            if (hdr.full.isValid() && hdr.full.tail[0:0] == 1) {
                hdr.full.setInvalid();
            } else if (!hdr.full.isValid() && spare.kind == 5) {
                hdr.full.setValid();
                hdr.full.value = (bit<32>) meta.there.x;
                hdr.full.tail = (bit<16>) sm.ingress_port;
            }
            if (spare.kind == 6) { hdr.second.setInvalid(); }
            if (hdr.extra.isValid()) { hdr.extra.value = meta.here.x ^ meta.there.y; }
            if (meta.here == meta.there) { sm.egress_spec = 3; }
        } else { mark_to_drop(sm); }
    }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.full); p.emit(hdr.first); p.emit(hdr.second); p.emit(hdr.extra); } }
MAIN
