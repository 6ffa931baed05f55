// Arrays of what is no header: numbers, structs, arrays; in headers, metadata and variables.

#include <core.p4>
#include <v1model.p4>

struct pair_t { bit<4> high; bit<12> low; }

header h_t {
    bit<8> to;
    bit<8> from;
    bit<8>[4] bytes;
    pair_t[2] pairs;
}
struct headers_t { h_t h; }
struct metadata_t {
    bit<8>[4] bytes;
    bool flags[3];
    pair_t[2][3] grid;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        meta.bytes[hdr.h.from] = 8w0x77;
        transition accept;
    }
}

bit<8> second(in bit<8>[4] of) {
    return of[1];
}

control Swap(inout bit<8> a, inout bit<8> b) {
    apply {
        bit<8> old = a;
        a = b;
        b = old;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    Swap() swap;
    action shift(bit<8> by) {
        hdr.h.bytes[hdr.h.to] = hdr.h.bytes[hdr.h.from] + by;
    }
    apply {
        sm.egress_spec = 1;
        if (hdr.h.to < 8) {
            // Beyond the end there is nothing to store to; and what is read there is zero.
            shift(1);
            // An element as a whole, and a part of one.
            pair_t kept = hdr.h.pairs[hdr.h.from & 1];
            hdr.h.pairs[hdr.h.to & 1] = { 0xA, kept.low + 1 };
            hdr.h.pairs[hdr.h.to & 1].high[0:0] = 1;
        } else if (hdr.h.to == 8) {
            swap.apply(hdr.h.bytes[hdr.h.from], hdr.h.bytes[3]);
            bit<8>[4] copy = hdr.h.bytes;
            copy[1] = 0x5A;
            hdr.h.from = second(copy) + second(meta.bytes);
            // Each step reads what the one before it stored.
            meta.flags[hdr.h.to - 6] = true;
            if (meta.flags[2] && !meta.flags[0]) {
                hdr.h.to = 3;
            }
        } else {
            bit<8> at = 0;
            for (bit<8> one in hdr.h.bytes) {
                // The index inside is constant, the one before it is not.
                meta.grid[at % 3][1].low = (bit<12>)one;
                meta.grid[at % 3][0].high = at[3:0];
                at = at + 1;
            }
            hdr.h.pairs = meta.grid[1];
            if (meta.grid[1] == hdr.h.pairs && meta.grid[1] != meta.grid[2]) {
                hdr.h.bytes = { 1, 2, 3, 4 };
            }
        }
    }
}

#include "lib/rest.p4"
