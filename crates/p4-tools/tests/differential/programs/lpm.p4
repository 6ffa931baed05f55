// Longest prefixes, over 32 and 16 bits, beside an exact key; direct counters.
#include "common.p4"

header route_t { bit<32> address; bit<16> short; bit<8> class; bit<8> result; }
struct headers_t { ethernet_t ethernet; route_t route; }
struct meta_t { }

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: route; default: accept; }
    }
    state route { p.extract(hdr.route); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    direct_counter(CounterType.packets_and_bytes) routed;
    action to(bit<9> port, bit<8> result) {
        routed.count();
        sm.egress_spec = port;
        hdr.route.result = result;
    }
    action unknown() { routed.count(); mark_to_drop(sm); }
    table routes {
        key = { hdr.route.address: lpm; hdr.route.class: exact; }
        actions = { to; unknown; }
        default_action = unknown();
        counters = routed;
        size = 64;
    }
    action note(bit<8> result) { hdr.route.result = hdr.route.result ^ result; }
    table shorts {
        key = { hdr.route.short: lpm; }
        actions = { note; NoAction; }
        default_action = NoAction();
    }
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.route.isValid()) {
            routes.apply();
            shorts.apply();
        } else { mark_to_drop(sm); }
    }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.route); } }
MAIN
