// Entries that share actions: a plain profile, selectors of several algorithms with members and groups,
// and one whose entries bring sets of actions.
#include "common.p4"

header flow_t { bit<8> key; bit<16> from; bit<32> to; bit<8> result; bit<8> hits; }
struct headers_t { ethernet_t ethernet; flow_t flow; }
struct meta_t { }

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: flow; default: accept; }
    }
    state flow { p.extract(hdr.flow); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    action to(bit<9> port) { sm.egress_spec = port; }
    action add(bit<8> what) { hdr.flow.result = hdr.flow.result + what; }
    action drop() { mark_to_drop(sm); }

    action_profile(32) shared;
    action_selector(HashAlgorithm.crc16, 64, 10) by_crc16;
    action_selector(HashAlgorithm.crc32, 64, 32) by_crc32;
    action_selector(HashAlgorithm.identity, 64, 7) by_itself;
    action_selector(HashAlgorithm.csum16, 64, 16) by_sum;
    action_selector(HashAlgorithm.crc32, 64, 16) sets;

    table plain {
        key = { hdr.flow.key: exact; }
        actions = { add; drop; NoAction; }
        implementation = shared;
    }
    table again {
        key = { hdr.flow.from: lpm; }
        actions = { add; drop; NoAction; }
        implementation = shared;
    }
    table first {
        key = { hdr.flow.key: exact; hdr.flow.from: selector; hdr.flow.to: selector; }
        actions = { add; NoAction; }
        implementation = by_crc16;
    }
    table second {
        key = { hdr.flow.key: ternary; hdr.flow.to: selector; }
        actions = { add; to; }
        implementation = by_crc32;
    }
    table third {
        key = { hdr.flow.key: exact; hdr.flow.to: selector; }
        actions = { add; NoAction; }
        implementation = by_itself;
    }
    table fourth {
        key = { hdr.flow.key: exact; hdr.flow.from: selector; hdr.flow.to: selector; hdr.flow.key: selector; }
        actions = { add; NoAction; }
        implementation = by_sum;
    }
    table fifth {
        key = { hdr.flow.key: exact; hdr.flow.to: selector; }
        actions = { to; add; }
        implementation = sets;
    }
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.flow.isValid()) {
            sm.egress_spec = 3;
            hdr.flow.hits = 0;
            if (plain.apply().hit) { hdr.flow.hits = hdr.flow.hits + 1; }
            again.apply();
            if (first.apply().hit) { hdr.flow.hits = hdr.flow.hits + 2; }
            switch (second.apply().action_run) {
                add: { hdr.flow.hits = hdr.flow.hits + 4; }
                default: { }
            }
            if (third.apply().miss) { hdr.flow.hits = hdr.flow.hits + 8; }
            fourth.apply();
            fifth.apply();
        } else { mark_to_drop(sm); }
    }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.flow); } }
MAIN
