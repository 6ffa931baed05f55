// Registers whose cells are structs: nested ones, with arrays and Booleans; read into variables, into
// elements of arrays, and into what contains the index.

#include <core.p4>
#include <v1model.p4>

struct span_t { bit<8> low; bit<72> high; }
struct flow_t {
    bool seen;
    span_t span;
    bit<16> packets;
    bit<8> marks[2];
}
struct place_t { bit<32> at; bit<8> tag; }
struct one_t { bit<8> only; }

header h_t { bit<8> op; bit<8> index; bit<72> value; bit<16> count; bit<8> tag; }
struct headers_t { h_t h; }
struct metadata_t {
    flow_t[3] flows;
    place_t place;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<flow_t>(4) flows;
    register<place_t>(4) places;
    register<one_t>(2) ones;
    apply {
        sm.egress_spec = 1;
        bit<32> index = (bit<32>)hdr.h.index;
        if (hdr.h.op == 0) {
            flow_t flow;
            flow.seen = false;
            flow.packets = 0xEEEE;
            flow.span = { 0x11, 0x22 };
            flows.read(flow, index);
            hdr.h.tag = flow.seen ? 8w0xAA : flow.span.low;
            flow.seen = true;
            flow.span.high = hdr.h.value;
            flow.packets = flow.packets + 1;
            flow.marks = { 0x30, 0x31 };
            flows.write(index, flow);
            hdr.h.count = flow.packets;
        } else if (hdr.h.op == 1) {
            // Into an element whose index is known at run time only, and back from one.
            meta.flows[hdr.h.index & 1].packets = 0x1234;
            flows.read(meta.flows[hdr.h.index & 1], index);
            hdr.h.value = meta.flows[hdr.h.index & 1].span.high;
            hdr.h.count = meta.flows[hdr.h.index & 1].packets;
            hdr.h.tag = meta.flows[hdr.h.index & 1].marks[1];
            flows.write(0, meta.flows[hdr.h.index & 1]);
        } else if (hdr.h.op == 2) {
            // The result contains the index.
            meta.place = { index, 7 };
            places.write(index, { 3, 0x51 });
            places.read(meta.place, meta.place.at);
            hdr.h.count = (bit<16>)meta.place.at;
            hdr.h.tag = meta.place.tag;
        } else {
            // As one value, in either order of the arguments.
            ones.write(value = { hdr.h.tag }, index = index);
            one_t one = { 0x77 };
            ones.read(index = index, result = one);
            hdr.h.tag = one.only;
        }
    }
}

#include "lib/rest.p4"
