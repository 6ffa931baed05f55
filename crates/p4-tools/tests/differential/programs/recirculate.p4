// Packets that go round, with some metadata kept and some lost.
#include "common.p4"

header loop_t { bit<8> left; bit<8> rounds; bit<16> sum; bit<32> kind; }
struct headers_t { ethernet_t ethernet; loop_t loop; }
struct meta_t {
    @field_list(1) bit<8> kept;
    bit<8> lost;
}

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: loop; default: accept; }
    }
    state loop { p.extract(hdr.loop); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.loop.isValid()) {
            sm.egress_spec = 2;
            hdr.loop.sum = hdr.loop.sum + (bit<16>) meta.kept + ((bit<16>) meta.lost << 8);
            hdr.loop.kind = sm.instance_type;
            meta.lost = 1;
        } else { mark_to_drop(sm); }
    }
}
EGRESS {
    apply {
        if (!IS_MARKER && hdr.loop.isValid() && hdr.loop.left[1:0] != 0) {
            hdr.loop.left = hdr.loop.left - 1;
            hdr.loop.rounds = hdr.loop.rounds + 1;
            meta.kept = meta.kept + hdr.loop.left;
            recirculate_preserving_field_list(1);
        }
    }
}
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.loop); } }
MAIN
