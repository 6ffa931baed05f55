// Which way a packet takes: hit, miss, the action that ran, exit and return.
#include "common.p4"

header way_t { bit<8> key; bit<8> path; bit<16> trace; }
struct headers_t { ethernet_t ethernet; way_t way; }
struct meta_t { }

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: way; default: accept; }
    }
    state way { p.extract(hdr.way); transition accept; }
}
VERIFY { apply { } }
control Inner(inout way_t way, in bit<8> step, out bit<8> after) {
    action leave() { exit; }
    action stay(bit<8> value) { way.trace = way.trace + (bit<16>) value; }
    table inner {
        key = { way.key: exact; step: ternary; }
        actions = { leave; stay; }
        default_action = stay(1);
    }
    apply {
        after = step + 1;
        if (inner.apply().hit) { after = step + 2; }
        if (way.trace[0:0] == 1) { return; }
        after = after + 4;
    }
}
INGRESS {
    Inner() first;
    Inner() second;
    action red() { hdr.way.path = 1; }
    action green(bit<8> value) { hdr.way.path = value; }
    action blue() { }
    table colours {
        key = { hdr.way.key: ternary; sm.ingress_port: exact; }
        actions = { red; green; blue; }
        default_action = blue();
    }
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.way.isValid()) {
            sm.egress_spec = 1;
            bit<8> step = 0;
            switch (colours.apply().action_run) {
                red: { hdr.way.trace = hdr.way.trace + 16; sm.egress_spec = 2; }
                green: { sm.egress_spec = 3; }
                default: { hdr.way.trace = hdr.way.trace ^ 0x8000; }
            }
            first.apply(hdr.way, step, step);
            second.apply(hdr.way, step, step);
            hdr.way.path = hdr.way.path + step;
        } else { mark_to_drop(sm); }
    }
}
EGRESS { apply { if (!IS_MARKER && hdr.way.isValid()) { hdr.way.trace = hdr.way.trace + 0x100; } } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.way); } }
MAIN
