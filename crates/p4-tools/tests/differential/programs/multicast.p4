// Copies: what each one knows of itself, and one that egress drops.
#include "common.p4"

header copy_t { bit<8> choice; bit<16> rid; bit<7> pad; bit<9> port; bit<32> kind; bit<32> length; }
struct headers_t { ethernet_t ethernet; copy_t copy; }
struct meta_t { bit<8> tag; }

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: copy; default: accept; }
    }
    state copy { p.extract(hdr.copy); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    action copies(bit<16> group) { sm.mcast_grp = group; }
    action both(bit<16> group, bit<9> port) { sm.mcast_grp = group; sm.egress_spec = port; }
    action to(bit<9> port) { sm.egress_spec = port; }
    action drop() { mark_to_drop(sm); }
    table choices {
        key = { hdr.copy.choice: exact; }
        actions = { copies; both; to; drop; }
        default_action = drop();
    }
    apply {
        meta.tag = 7;
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.copy.isValid()) {
            choices.apply();
            meta.tag = hdr.copy.choice;
        } else { mark_to_drop(sm); }
    }
}
EGRESS {
    apply {
        if (!IS_MARKER && hdr.copy.isValid()) {
            hdr.copy.rid = sm.egress_rid;
            hdr.copy.port = sm.egress_port;
            hdr.copy.kind = sm.instance_type;
            hdr.copy.length = sm.packet_length;
            hdr.copy.choice = meta.tag + 1;
            if (sm.egress_rid == 2 && hdr.copy.pad[0:0] == 1) { mark_to_drop(sm); }
        }
    }
}
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.copy); } }
MAIN
