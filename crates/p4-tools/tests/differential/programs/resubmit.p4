// Packets that are parsed once more as they came, with some metadata kept.
#include "common.p4"

header again_t { bit<8> times; bit<16> seen; bit<32> kind; }
struct headers_t { ethernet_t ethernet; again_t again; }
struct meta_t {
    @field_list(2) bit<8> passes;
    @field_list(2, 3) bit<16> kept;
    @field_list(3) bit<8> other;
}

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: again; default: accept; }
    }
    state again { p.extract(hdr.again); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.again.isValid()) {
            sm.egress_spec = 4;
            meta.other = meta.other + 1;
            bit<8> wanted = hdr.again.times & 3;
            // What is changed here is not seen in the next pass.
            hdr.again.seen = ((bit<16>) meta.passes << 8) | (bit<16>) meta.other;
            hdr.again.seen = hdr.again.seen ^ meta.kept;
            hdr.again.kind = sm.instance_type;
            if (meta.passes < wanted) {
                meta.passes = meta.passes + 1;
                meta.kept = meta.kept + 0x0101;
                resubmit_preserving_field_list(2);
            }
        } else { mark_to_drop(sm); }
    }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.again); } }
MAIN
