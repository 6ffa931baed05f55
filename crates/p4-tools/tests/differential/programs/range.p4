// Ranges and optional keys, with priorities.
#include "common.p4"

header keys_t { bit<16> port; bit<8> small; bit<32> wide; bit<8> result; }
struct headers_t { ethernet_t ethernet; keys_t keys; }
struct meta_t { }

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: keys; default: accept; }
    }
    state keys { p.extract(hdr.keys); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    action to(bit<9> port, bit<8> result) { sm.egress_spec = port; hdr.keys.result = result; }
    action drop() { mark_to_drop(sm); }
    table ranges {
        key = { hdr.keys.port: range; hdr.keys.small: range; }
        actions = { to; drop; }
        default_action = drop();
    }
    action add(bit<8> value) { hdr.keys.result = hdr.keys.result + value; }
    table options {
        key = { hdr.keys.small: optional; hdr.keys.wide: optional; sm.ingress_port: optional; }
        actions = { add; NoAction; }
        default_action = NoAction();
    }
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.keys.isValid()) {
            ranges.apply();
            options.apply();
        } else { mark_to_drop(sm); }
    }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.keys); } }
MAIN
