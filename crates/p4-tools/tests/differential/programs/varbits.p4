// Headers of a length that a packet tells: extracted, copied, compared, summed up, emitted.
#include "common.p4"

header pick_t { bit<8> length; bit<8> what; bit<16> sum; }
header options_t { bit<8> before; varbit<64> data; bit<8> after; }
struct headers_t { ethernet_t ethernet; pick_t pick; options_t options; options_t spare; }
struct meta_t { options_t kept; bit<1> same; }

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: pick; default: accept; }
    }
    state pick {
        p.extract(hdr.pick);
        p.extract(hdr.options, (bit<32>) hdr.pick.length[4:0]);
        transition select(hdr.pick.what[0:0]) { 1: again; default: accept; }
    }
    state again { p.extract(hdr.spare, 16); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    action copy() { hdr.spare = hdr.options; }
    action data_only() { hdr.spare.data = hdr.options.data; }
    action swap() { meta.kept = hdr.spare; hdr.spare = hdr.options; hdr.options = meta.kept; }
    // The varbit is written: BMv2 leaves it as long as it was in the header before.
    action made() { hdr.spare.setValid(); hdr.spare.before = 7; hdr.spare.data = hdr.options.data; hdr.spare.after = 9; }
    table choose {
        key = { hdr.pick.what : exact; }
        actions = { copy; data_only; swap; made; NoAction; }
    }
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.pick.isValid()) {
            sm.egress_spec = 2;
            if (sm.parser_error != error.NoError) { sm.egress_spec = 3; }
            choose.apply();
            if (hdr.options.isValid() && hdr.spare.isValid()) {
                if (hdr.options.data == hdr.spare.data) { hdr.pick.length = 0xff; }
                if (hdr.options == hdr.spare) { sm.egress_spec = 1; }
            }
        } else { mark_to_drop(sm); }
    }
}
EGRESS { apply { } }
COMPUTE {
    apply {
        update_checksum(hdr.options.isValid(), { hdr.options.before, hdr.options.data, hdr.options.after, hdr.pick.what }, hdr.pick.sum, HashAlgorithm.csum16);
    }
}
DEPARSER { apply { p.emit(hdr); } }
MAIN
