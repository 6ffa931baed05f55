// Masks and priorities: three tables whose entries overlap, one of them with a key of 128 bits.
#include "common.p4"

header keys_t { bit<16> a; bit<8> b; bit<128> c; bit<3> d; bit<5> e; bit<8> result; }
struct headers_t { ethernet_t ethernet; keys_t keys; }
struct meta_t { bit<8> seen; }

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: keys; default: accept; }
    }
    state keys { p.extract(hdr.keys); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    direct_counter(CounterType.packets) hits;
    action to(bit<9> port) { hits.count(); sm.egress_spec = port; }
    action drop() { hits.count(); mark_to_drop(sm); }
    table first {
        key = { hdr.keys.a: ternary; hdr.keys.b: ternary; }
        actions = { to; drop; }
        counters = hits;
    }
    action mark(bit<8> value) { meta.seen = meta.seen + value; }
    table second {
        key = { hdr.keys.c: ternary; hdr.keys.d: exact; }
        actions = { mark; NoAction; }
        default_action = mark(1);
    }
    action to_fixed() { sm.egress_spec = 2; }
    table third {
        key = { hdr.keys.e: ternary; sm.ingress_port: ternary; meta.seen: ternary @name("seen"); }
        actions = { mark; to_fixed; }
        default_action = to_fixed();
    }
    apply {
        meta.seen = 0;
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.keys.isValid()) {
            first.apply();
            second.apply();
            third.apply();
            hdr.keys.result = meta.seen;
        } else { mark_to_drop(sm); }
    }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.keys); } }
MAIN
