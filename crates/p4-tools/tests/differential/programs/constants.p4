// Entries that the program brings along.
#include "common.p4"

header key_t { bit<8> a; bit<16> b; bit<8> result; bit<8> other; }
struct headers_t { ethernet_t ethernet; key_t key; }
struct meta_t { }

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: key; default: accept; }
    }
    state key { p.extract(hdr.key); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    action give(bit<8> value) { hdr.key.result = value; }
    action take() { hdr.key.result = 0xff; }
    table exacts {
        key = { hdr.key.a: exact; }
        actions = { give; take; }
        const default_action = take();
        const entries = { 0: give(10); 1: give(11); 0xff: give(12); }
    }
    action other(bit<8> value) { hdr.key.other = value; }
    table masks {
        key = { hdr.key.b: ternary; hdr.key.a: ternary; }
        actions = { other; NoAction; }
        const default_action = NoAction();
        const entries = {
            (0x0000 &&& 0xff00, _): other(1);
            (0x0000 &&& 0xf000, 0 &&& 1): other(2);
            (_, 0xff): other(3);
            (0x8000 &&& 0x8000, _): other(4);
        }
    }
    action to(bit<9> port) { sm.egress_spec = port; }
    table prefixes {
        key = { hdr.key.b: lpm; }
        actions = { to; }
        const default_action = to(1);
        const entries = { 0x8000 &&& 0x8000: to(2); 0xff00 &&& 0xff00: to(3); 0xffff: to(4); }
    }
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.key.isValid()) {
            exacts.apply();
            masks.apply();
            prefixes.apply();
        } else { mark_to_drop(sm); }
    }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.key); } }
MAIN
