// Entries that the program has: constant ones in their order, with masks, ranges and prefixes.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<16> key; bit<8> a; bit<8> b; }
struct headers_t { h_t h; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action a(bit<8> v) {
        hdr.h.a = v;
    }
    action b(bit<8> v) {
        hdr.h.b = v;
    }
    table masked {
        key = { hdr.h.key: ternary; }
        actions = { a; }
        const default_action = a(0xFF);
        const entries = {
            0x1111: a(1);
            0x1100 &&& 0xFF00: a(2);
            0x1000 &&& 0xF000: a(3);
            0x2000: a(4);
            _: a(5);
        }
    }
    table ranges {
        key = { hdr.h.key: range; hdr.h.a: exact; }
        actions = { b; }
        const default_action = b(0xFF);
        const entries = {
            (0x1000..0x1110, 2): b(1);
            (0x1100..0x11FF, 2): b(2);
            (_, 4): b(3);
            (0x2001, 5): b(4);
        }
    }
    apply {
        sm.egress_spec = 1;
        masked.apply();
        ranges.apply();
    }
}

#include "lib/rest.p4"
