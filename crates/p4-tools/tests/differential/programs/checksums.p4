// Checksums verified and computed, with and without the payload.
#include "common.p4"

header body_t {
    bit<8> what; bit<8> zero; bit<16> a; bit<32> b; bit<16> check; bit<16> whole;
}
struct headers_t { ethernet_t ethernet; body_t body; }
struct meta_t { }

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: body; default: accept; }
    }
    state body { p.extract(hdr.body); transition accept; }
}
VERIFY {
    apply {
        verify_checksum(hdr.body.isValid() && hdr.body.what[0:0] == 1,
            { hdr.body.what, hdr.body.zero, hdr.body.a, hdr.body.b }, hdr.body.check,
            HashAlgorithm.csum16);
    }
}
INGRESS {
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.body.isValid()) {
            sm.egress_spec = 2;
            hdr.body.zero = (bit<8>) sm.checksum_error;
            hdr.body.a = hdr.body.a + 1;
        } else { mark_to_drop(sm); }
    }
}
EGRESS { apply { } }
COMPUTE {
    apply {
        update_checksum(hdr.body.isValid(),
            { hdr.body.what, hdr.body.zero, hdr.body.a, hdr.body.b }, hdr.body.check,
            HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.body.isValid() && hdr.body.what[1:1] == 1,
            { hdr.body.what, hdr.body.zero, hdr.body.a, hdr.body.b, hdr.body.check }, hdr.body.whole,
            HashAlgorithm.csum16);
    }
}
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.body); } }
MAIN
