// Structs, tuples and lists: assigned as a whole, compared, nested, and given to a function.

#include <core.p4>
#include <v1model.p4>

header pair_t { bit<8> a; bit<8> b; }
struct point_t { bit<8> x; bit<8> y; }
struct line_t { point_t from; point_t to; }
struct headers_t { pair_t first; pair_t second; pair_t result; }
struct metadata_t { line_t line; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.first);
        packet.extract(hdr.second);
        packet.extract(hdr.result);
        transition accept;
    }
}

bit<8> area(in line_t line) {
    return (line.to.x - line.from.x) * (line.to.y - line.from.y);
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        point_t origin = { 1, 2 };
        meta.line = { { hdr.first.a, hdr.first.b }, { x = hdr.second.a, y = hdr.second.b } };
        hdr.result.a = area(meta.line);
        tuple<bit<8>, bit<8>> both = { hdr.first.a, hdr.first.b };
        hdr.result.b = both[1];
        if (meta.line.from == origin) {
            hdr.first = { 0xAA, 0xBB };
        }
        if (hdr.first == hdr.second) {
            hdr.second = { 0xCC, 0xDD };
        }
    }
}

#include "lib/rest.p4"
