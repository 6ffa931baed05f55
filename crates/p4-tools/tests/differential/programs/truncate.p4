// Packets cut to a length, which copies of them may differ in.
#include "common.p4"

header cut_t { bit<8> length; bit<8> mode; }
struct headers_t { ethernet_t ethernet; cut_t cut; }
struct meta_t { }

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: cut; default: accept; }
    }
    state cut { p.extract(hdr.cut); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.cut.isValid()) {
            sm.egress_spec = 4;
            if (hdr.cut.mode[0:0] == 1) { truncate(14 + (bit<32>) (hdr.cut.length & 31)); }
        } else { mark_to_drop(sm); }
    }
}
EGRESS {
    apply {
        if (!IS_MARKER && hdr.cut.isValid() && hdr.cut.mode[1:1] == 1) { truncate(20); }
    }
}
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.cut); } }
MAIN
