// Actions with directions, called by tables and by name, with arguments from program and entry.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> key; bit<8> a; bit<8> b; }
struct headers_t { h_t h; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action swap(inout bit<8> x, inout bit<8> y) {
        bit<8> kept = x;
        x = y;
        y = kept;
    }
    action double(in bit<8> from, out bit<8> to) {
        to = from + from;
    }
    action mix(inout bit<8> x, bit<8> value, bit<9> port) {
        x = x ^ value;
        sm.egress_spec = port;
    }
    action both(bit<8> value) {
        hdr.h.a = value;
        double(hdr.h.a, hdr.h.b);
        sm.egress_spec = 1;
    }
    action none() {
        sm.egress_spec = 1;
        // Written after the call: the copy back must come first.
        swap(hdr.h.a, hdr.h.b);
        hdr.h.key = 0xEE;
    }
    table t {
        key = { hdr.h.key: exact; }
        actions = { mix(hdr.h.a); both; none; }
        default_action = none;
    }
    apply {
        t.apply();
    }
}

#include "lib/rest.p4"
