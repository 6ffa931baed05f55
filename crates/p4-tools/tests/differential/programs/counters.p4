// Counters of all kinds, counted in ingress and egress.
#include "common.p4"

header count_t { bit<8> index; bit<8> what; }
struct headers_t { ethernet_t ethernet; count_t count; }
struct meta_t { }

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: count; default: accept; }
    }
    state count { p.extract(hdr.count); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    counter(16, CounterType.packets) some_packets;
    counter(16, CounterType.bytes) some_bytes;
    counter(300, CounterType.packets_and_bytes) all_both;
    direct_counter(CounterType.bytes) direct;
    action to(bit<9> port) { direct.count(); sm.egress_spec = port; }
    action drop() { direct.count(); mark_to_drop(sm); }
    table ways {
        key = { hdr.count.what: ternary; }
        actions = { to; drop; }
        default_action = drop();
        counters = direct;
    }
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.count.isValid()) {
            ways.apply();
            some_packets.count((bit<32>) hdr.count.index & 15);
            some_bytes.count((bit<32>) hdr.count.index & 15);
            all_both.count((bit<32>) hdr.count.index + 20);
        } else { mark_to_drop(sm); }
    }
}
EGRESS {
    counter(4, CounterType.packets_and_bytes) left;
    apply {
        if (!IS_MARKER && hdr.count.isValid()) {
            left.count((bit<32>) sm.egress_port & 3);
            if (hdr.count.what[7:7] == 1) { hdr.count.setInvalid(); }
        }
    }
}
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.count); } }
MAIN
