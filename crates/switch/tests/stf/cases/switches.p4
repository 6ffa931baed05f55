// `switch` on the action that a table ran, and on a value.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> key; bit<8> value; bit<8> res; }
struct headers_t { h_t h; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action red() {}
    action green() {}
    action blue() {}
    table colour {
        key = { hdr.h.key: exact; }
        actions = { red; green; blue; }
        const default_action = blue();
        const entries = {
            1: red();
            2: green();
        }
    }
    table even {
        key = { hdr.h.value: ternary; }
        actions = { NoAction; }
        const entries = {
            0 &&& 1: NoAction();
        }
    }
    apply {
        sm.egress_spec = 1;
        switch (colour.apply().action_run) {
            red:
            green: {
                hdr.h.res = hdr.h.res | 0x10;
            }
            default: {
                hdr.h.res = hdr.h.res | 0x20;
            }
        }
        switch (hdr.h.value) {
            1: { hdr.h.res = hdr.h.res + 1; }
            2:
            3: { hdr.h.res = hdr.h.res + 2; }
            default: { hdr.h.res = hdr.h.res + 3; }
        }
        if (even.apply().hit) {
            hdr.h.key = 0xAA;
        }
    }
}

#include "lib/rest.p4"
