// bit<0>: in headers, structs, arrays and variables; in all operators; as parameters and results.

#include <core.p4>
#include <v1model.p4>

enum bit<0> only_t { one = 0 }
type bit<0> nothing_t;
struct pair_t { bit<0> none; bit<8> some; }

header h_t { bit<0> a; bit<8> op; bit<0> b; bit<8> value; bit<0> c; }
header empty_t { bit<0> a; }
struct headers_t { h_t h; empty_t e; }
struct metadata_t {
    bit<0> none;
    pair_t[3] pairs;
    bit<0>[4] many;
    only_t only;
    nothing_t nothing;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.e);
        packet.extract(hdr.h);
        meta.none = packet.lookahead<bit<0>>();
        transition select(hdr.h.a, hdr.h.op) {
            (0, 0xFF): reject;
            (0w0, _): more;
        }
    }
    state more {
        pair_t ahead = packet.lookahead<pair_t>();
        meta.pairs[0].some = ahead.some;
        transition select(meta.none) {
            0: accept;
            default: reject;
        }
    }
}

bit<0> same(in bit<0> of) {
    return of + 1;
}

bit<8> count(inout bit<8> calls) {
    calls = calls + 1;
    return calls;
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<pair_t>(2) kept;
    action put(in bit<0> none, in bit<8> some) { hdr.h.value = some; }
    apply {
        sm.egress_spec = 1;
        const bit<0> zero = 0;
        bit<0> x = hdr.h.b;
        if (hdr.h.op == 0) {
            // Comparisons, conversions, concatenation, shifts.
            bool all = x == 0 && !(x != zero) && x <= hdr.h.c && !(x < zero) && x >= 0 && !(x > 0);
            bit<8> wide = (bit<8>)x;
            bit<8> joined = x ++ hdr.h.value ++ same(x);
            bit<8> shifted = joined << x;
            hdr.h.a = ~x - x;
            hdr.h.b = hdr.h.a |+| (bit<0>)hdr.h.value;
            hdr.h.value = all ? shifted + wide : 8w0xEE;
        } else if (hdr.h.op == 1) {
            // Effects happen, although their results are nothing.
            bit<8> calls = 0;
            x = (bit<0>)count(calls);
            x = calls == 1 ? (bit<0>)count(calls) : x;
            meta.none = (bit<0>)count(calls) & x;
            x += (bit<0>)count(calls);
            hdr.h.value = calls;
        } else if (hdr.h.op == 2) {
            // Parts of structs and arrays, at indices known at run time only.
            meta.pairs[hdr.h.value & 1] = { 0, 0x5A };
            meta.pairs[hdr.h.value & 1].none = 0;
            meta.many[hdr.h.value & 3] = meta.pairs[hdr.h.value & 1].none;
            bit<0> read = meta.many[hdr.h.value & 3];
            put(read, meta.pairs[hdr.h.value & 1].some);
        } else if (hdr.h.op == 3) {
            // Loops and switches have one turn and one case.
            bit<8> turns = 0;
            for (bit<0> i in 0 .. 0) { turns = turns + 1; }
            switch (x) {
                0: { turns = turns + 0x10; }
                default: { turns = 0xEE; }
            }
            hdr.h.value = turns;
        } else if (hdr.h.op == 4) {
            kept.write(1, { x, hdr.h.value });
            pair_t pair;
            kept.read(pair, 1);
            hash(hdr.h.value, HashAlgorithm.identity, 8w0, { pair.none, pair.some, x }, 16w256);
        } else {
            bool same_structs = meta.pairs[1] == meta.pairs[2] && meta.only == only_t.one;
            meta.nothing = (nothing_t)x;
            hdr.h.value = same_structs && (bit<0>)meta.nothing == 0 ? meta.pairs[0].some : 0;
        }
    }
}

#include "lib/rest.p4"
