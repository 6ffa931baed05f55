// Metadata that the ingress deparser hands to the egress parser: scalars, an enum, a Boolean and a header.
// User metadata does not travel, and starts as zero in both pipelines.

#include "lib/psa_start.p4"

header h_t { bit<8> a; bit<8> b; bit<48> wide; bit<8> extra; bit<8> own; }
header tag_t { bit<8> value; }
enum color_t { RED, GREEN, BLUE }
struct inner_t { bit<48> wide; color_t color; }
struct headers_t { h_t h; }
struct metadata_t { bit<8> own; inner_t inner; tag_t tag; bool odd; }
struct normal_t { inner_t inner; bool odd; tag_t tag; bit<100> large; }

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    apply {
        meta.own = 0x77;
        send_to_port(ostd, (PortId_t) 1);
    }
}

#define WITH_NORMAL normal_t
#define OWN_DEPARSE
control Deparse(packet_out packet, out empty_t clone_i2e_meta, out empty_t resubmit_meta, out normal_t normal_meta,
                inout headers_t hdr, in metadata_t meta, in psa_ingress_output_metadata_t istd) {
    apply {
        if (psa_normal(istd)) {
            normal_meta.inner.wide = hdr.h.wide + 1;
            normal_meta.inner.color = hdr.h.a == 1 ? color_t.GREEN : color_t.BLUE;
            normal_meta.odd = hdr.h.a[0:0] == 1;
            normal_meta.large = 100w0x8 << 96 | (bit<100>) hdr.h.b;
            if (hdr.h.b != 0) {
                normal_meta.tag.setValid();
                normal_meta.tag.value = hdr.h.b;
            }
        }
        packet.emit(hdr);
    }
}

#define OWN_EGRESS_PARSE
parser EgressParse(packet_in packet, out headers_t hdr, inout metadata_t meta,
                   in psa_egress_parser_input_metadata_t istd,
                   in normal_t normal_meta, in empty_t clone_i2e_meta, in empty_t clone_e2e_meta) {
    state start {
        packet.extract(hdr.h);
        meta.inner = normal_meta.inner;
        meta.tag = normal_meta.tag;
        meta.odd = normal_meta.odd;
        hdr.h.b = normal_meta.large[99:92];
        transition accept;
    }
}

#define OWN_EGRESS
control EgressImpl(inout headers_t hdr, inout metadata_t meta,
                   in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) {
    apply {
        hdr.h.wide = meta.inner.wide;
        hdr.h.a = meta.inner.color == color_t.GREEN ? 8w0x61 : 0x62;
        hdr.h.extra = meta.tag.isValid() ? meta.tag.value : 0xee;
        if (meta.odd) { hdr.h.extra = hdr.h.extra + 1; }
        hdr.h.own = meta.own;
    }
}

#include "lib/psa.p4"
