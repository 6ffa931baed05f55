// Hashes of lists of fields, with base and bound.
#include "common.p4"

header in_t { bit<8> a; bit<32> b; bit<16> c; bit<7> d; bit<1> e; }
header out_t { bit<16> crc16; bit<32> crc32; bit<16> csum; bit<16> xored; bit<32> same; bit<16> bounded; bit<16> custom16; bit<32> custom32; }
struct headers_t { ethernet_t ethernet; in_t x; out_t y; }
struct meta_t { }

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: x; default: accept; }
    }
    state x { p.extract(hdr.x); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.x.isValid()) {
            sm.egress_spec = 4;
            hdr.y.setValid();
            hash(hdr.y.crc16, HashAlgorithm.crc16, 16w0, { hdr.x.a, hdr.x.b, hdr.x.c }, 32w65536);
            hash(hdr.y.crc32, HashAlgorithm.crc32, 32w0, { hdr.x.b, hdr.x.c, hdr.x.d, hdr.x.e }, 64w0x100000000);
            hash(hdr.y.csum, HashAlgorithm.csum16, 16w0, { hdr.x.b, hdr.x.c }, 32w65536);
            hash(hdr.y.xored, HashAlgorithm.xor16, 16w0, { hdr.x.b, hdr.x.c }, 32w65536);
            hash(hdr.y.same, HashAlgorithm.identity, 32w0, { hdr.x.b }, 64w0x100000000);
            hash(hdr.y.custom16, HashAlgorithm.crc16_custom, 16w0, { hdr.x.a, hdr.x.b }, 32w65536);
            hash(hdr.y.custom32, HashAlgorithm.crc32_custom, 32w7, { hdr.x.a, hdr.x.d, hdr.x.e }, 64w0xffffffff);
            hash(hdr.y.bounded, HashAlgorithm.crc16, 16w100, { hdr.x.c, hdr.x.a }, 32w37);
        } else { mark_to_drop(sm); }
    }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.x); p.emit(hdr.y); } }
MAIN
