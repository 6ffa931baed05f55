// Lists whose values are read from the place that they are stored to, which an index chooses.

#include <core.p4>
#include <v1model.p4>

struct pair_t { bit<8> a; bit<8> b; }
struct twice_t { pair_t one; pair_t two; }
header s_t { bit<8> x; bit<8> y; }
header only_t { bit<8> x; }

header h_t { bit<8> op; bit<8> i; bit<8> j; bit<8> k; }
struct headers_t { h_t h; s_t[2] s; only_t only; }
struct metadata_t {
    pair_t[2] arr;
    twice_t twice;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.s.next);
        packet.extract(hdr.s.next);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (hdr.h.op == 0) {
            hdr.s[hdr.h.i] = { hdr.s[0].y, hdr.s[0].x };
        } else if (hdr.h.op == 1) {
            meta.arr[0] = { hdr.s[0].x, hdr.s[0].y };
            meta.arr[hdr.h.i] = { meta.arr[0].b, meta.arr[0].a };
            hdr.h.j = meta.arr[0].a;
            hdr.h.k = meta.arr[0].b;
        } else if (hdr.h.op == 2) {
            // The index is one of the fields that are stored.
            hdr.s[hdr.s[0].x] = { 1, hdr.s[0].y + 1 };
        } else if (hdr.h.op == 3) {
            meta.arr[0] = { hdr.s[0].x, 7 };
            meta.arr[1] = { 5, 6 };
            meta.arr[meta.arr[0].a] = meta.arr[hdr.h.i];
            hdr.h.j = meta.arr[0].a;
            hdr.h.k = meta.arr[0].b;
        } else if (hdr.h.op == 4) {
            // A list in a list.
            meta.twice.one = { hdr.s[0].x, hdr.s[0].y };
            meta.twice.two = { hdr.s[1].x, hdr.s[1].y };
            meta.twice = { { meta.twice.two.a, meta.twice.two.b }, { meta.twice.one.a, meta.twice.one.b } };
            hdr.h.j = meta.twice.one.a;
            hdr.h.k = meta.twice.two.a;
        } else {
            // Before it is stored, the header is not valid.
            hdr.only = { (bit<8>)(bit<1>)hdr.only.isValid() };
        }
    }
}

#include "lib/rest.p4"
