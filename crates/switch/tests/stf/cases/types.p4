// typedef, type, constants and what is computed when the program is compiled.

#include <core.p4>
#include <v1model.p4>

typedef bit<16> word_t;
type bit<8> tag_t;
const word_t BASE = 0x100;
const word_t TOP = (BASE << 2) + 3 * 5 - 1;
const bit<8> LOW = TOP[7:0];
const int COUNT = 7 / 2 + 7 % 2;
const bool WIDE = LOW > 10 && BASE != 0;

header h_t { word_t a; tag_t tag; bit<8> b; }
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
        sm.egress_spec = 1;
        hdr.h.a = hdr.h.a + TOP;
        if (hdr.h.tag == (tag_t)5) {
            hdr.h.tag = (tag_t)((bit<8>)hdr.h.tag + LOW);
        }
        hdr.h.b = WIDE ? (bit<8>)COUNT : 0;
    }
}

#include "lib/rest.p4"
