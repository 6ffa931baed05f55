// A table of every match kind, alone and together; entries from the test.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> which; bit<32> key; bit<8> res; }
struct headers_t { h_t h; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action set(bit<8> v) {
        hdr.h.res = v;
    }
    table by_exact {
        key = { hdr.h.key: exact; }
        actions = { set; @defaultonly NoAction; }
        default_action = NoAction();
        size = 16;
    }
    table by_lpm {
        key = { hdr.h.key: lpm; }
        actions = { set; }
        default_action = set(0xFF);
    }
    table by_ternary {
        key = { hdr.h.key: ternary; }
        actions = { set; }
        default_action = set(0xFF);
    }
    table by_range {
        key = { hdr.h.key[15:0]: range @name("low"); }
        actions = { set; }
        default_action = set(0xFF);
    }
    table by_optional {
        key = { hdr.h.key: optional; hdr.h.res: optional; }
        actions = { set; }
        default_action = set(0xFF);
    }
    table by_two {
        key = { hdr.h.key[31:24]: exact @name("top"); hdr.h.key[23:0]: lpm @name("rest"); }
        actions = { set; }
        default_action = set(0xFF);
    }
    table by_none {
        actions = { set; NoAction; }
        default_action = NoAction;
    }
    apply {
        sm.egress_spec = 1;
        switch (hdr.h.which) {
            0: { by_exact.apply(); }
            1: { by_lpm.apply(); }
            2: { by_ternary.apply(); }
            3: { by_range.apply(); }
            4: { by_optional.apply(); }
            5: { by_two.apply(); }
            6: { by_none.apply(); }
        }
    }
}

#include "lib/rest.p4"
