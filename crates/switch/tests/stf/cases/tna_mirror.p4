// Mirroring from both deparsers, with a header in front of the copy.
#include <core.p4>
#include <tna.p4>

const bit<8> FORWARDED = 1;
const bit<8> FROM_INGRESS = 2;
const bit<8> FROM_EGRESS = 3;

// The compiler pads headers with flexible fields.
header origin_t { bit<8> kind; @flexible bit<1> one; @flexible bit<9> from; }
header mirrored_t { bit<8> kind; bit<16> mark; }
header packet_t { bit<8> op; bit<8> value; }
struct headers_t { origin_t origin; mirrored_t mirrored; packet_t packet; }
struct metadata_t { MirrorId_t session; bit<16> mark; bit<8> kind; }

parser IngressParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                     out ingress_intrinsic_metadata_t ig) {
    state start {
        packet.extract(ig);
        packet.advance(PORT_METADATA_SIZE);
        packet.extract(hdr.packet);
        transition accept;
    }
}

// The low half of `op` asks for mirroring in ingress (bit 0), in egress (bit 1), for dropping the
// packet (bit 2), and for dropping the mirrored copy, too (bit 3).
control Ingress(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig,
                in ingress_intrinsic_metadata_from_parser_t prsr,
                inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    apply {
        tm.ucast_egress_port = 2;
        meta.session = 5;
        meta.mark = 0xBEEF;
        if (hdr.packet.op[0:0] == 1) {
            dprsr.mirror_type = 1;
            if (hdr.packet.op[2:2] == 1) { dprsr.drop_ctl = 1; }
            if (hdr.packet.op[3:3] == 1) { dprsr.drop_ctl = 5; }
        }
        // A chip keeps what is written to a header before it is valid.
        hdr.origin.one = 1;
        hdr.origin.setValid();
        hdr.origin.kind = FORWARDED;
        hdr.origin.from = ig.ingress_port;
        hdr.packet.value = hdr.packet.value + 1;
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    Mirror() mirror;
    apply {
        if (dprsr.mirror_type == 1) {
            mirror.emit<mirrored_t>(meta.session, { FROM_INGRESS, meta.mark });
        }
        packet.emit(hdr.origin);
        packet.emit(hdr.packet);
    }
}

parser EgressParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                    out egress_intrinsic_metadata_t eg) {
    state start {
        packet.extract(eg);
        transition select(packet.lookahead<bit<8>>()) {
            FORWARDED: forwarded;
            default: mirrored;
        }
    }
    state forwarded { packet.extract(hdr.origin); packet.extract(hdr.packet); transition accept; }
    state mirrored { packet.extract(hdr.mirrored); transition accept; }
}

control Egress(inout headers_t hdr, inout metadata_t meta, in egress_intrinsic_metadata_t eg,
               in egress_intrinsic_metadata_from_parser_t prsr,
               inout egress_intrinsic_metadata_for_deparser_t dprsr,
               inout egress_intrinsic_metadata_for_output_port_t oport) {
    apply {
        if (hdr.packet.isValid()) {
            hdr.packet.value = hdr.packet.value + (bit<8>)hdr.origin.one;
            if (hdr.origin.from != 1) { hdr.packet.value = 0; }
            hdr.origin.setInvalid();
            if (hdr.packet.op[1:1] == 1) {
                dprsr.mirror_type = 2;
                meta.session = 6;
                meta.mark = (bit<16>)eg.egress_port;
                if (hdr.packet.op[2:2] == 1) { dprsr.drop_ctl = 1; }
                if (hdr.packet.op[3:3] == 1) { dprsr.drop_ctl = 5; }
            }
        }
    }
}

control EgressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                       in egress_intrinsic_metadata_for_deparser_t dprsr) {
    Mirror(2) mirror;
    apply {
        mirror.emit<mirrored_t>(meta.session, { FROM_EGRESS, meta.mark });
        packet.emit(hdr);
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(),
         EgressParser(), Egress(), EgressDeparser()) pipe;
Switch(pipe) main;
