// Headers that Tofino's compiler lays out: `@flexible` on a field, on the header, on a struct in it,
// and on a field of a struct in it. Each has a number of bits that is not one of whole bytes.
#include <core.p4>
#include <tna.p4>

@flexible struct origin_t { bit<9> port; bit<1> flag; }
struct inner_t { @flexible bit<9> port; bit<8> value; }
header by_field_t { bit<8> kind; @flexible bit<9> port; }
@flexible header by_header_t { bit<9> port; bit<3> code; }
header by_struct_t { origin_t origin; }
header by_part_t { bit<8> kind; inner_t inner; }
header packet_t { bit<8> op; bit<8> value; }
struct headers_t {
    by_field_t field;
    by_header_t whole;
    by_struct_t nested;
    by_part_t part;
    packet_t packet;
}
struct metadata_t { MirrorId_t session; bit<9> port; }

parser IngressParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                     out ingress_intrinsic_metadata_t ig) {
    state start {
        packet.extract(ig);
        packet.advance(PORT_METADATA_SIZE);
        packet.extract(hdr.packet);
        transition accept;
    }
}

// `op` 1 asks for a mirrored copy with a list in front, 2 for one with a header.
control Ingress(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig,
                in ingress_intrinsic_metadata_from_parser_t prsr,
                inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    apply {
        tm.ucast_egress_port = 2;
        meta.session = 5;
        meta.port = ig.ingress_port;
        hdr.field.setValid();
        hdr.field.port = ig.ingress_port;
        hdr.whole.setValid();
        hdr.whole.port = ig.ingress_port + 1;
        hdr.whole.code = 5;
        hdr.nested.setValid();
        hdr.nested.origin = { ig.ingress_port + 2, 1 };
        hdr.part.setValid();
        hdr.part.kind = 9;
        hdr.part.inner = { ig.ingress_port + 3, 7 };
        if (hdr.packet.op != 0) { dprsr.mirror_type = (bit<3>) hdr.packet.op; }
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    Mirror() mirror;
    apply {
        if (dprsr.mirror_type == 1) {
            mirror.emit<by_header_t>(meta.session, { meta.port, 3w6 });
        } else if (dprsr.mirror_type == 2) {
            mirror.emit<by_header_t>(meta.session, hdr.whole);
        }
        packet.emit(hdr.field);
        packet.emit(hdr.whole);
        packet.emit(hdr.nested);
        packet.emit(hdr.part);
        packet.emit(hdr.packet);
    }
}

parser EgressParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                    out egress_intrinsic_metadata_t eg) {
    state start {
        packet.extract(eg);
        transition select(eg.egress_port) {
            7: mirrored;
            default: bridged;
        }
    }
    state bridged {
        packet.extract(hdr.field);
        packet.extract(hdr.whole);
        packet.extract(hdr.nested);
        packet.extract(hdr.part);
        packet.extract(hdr.packet);
        transition accept;
    }
    state mirrored {
        packet.extract(hdr.whole);
        packet.extract(hdr.packet);
        transition accept;
    }
}

control Egress(inout headers_t hdr, inout metadata_t meta, in egress_intrinsic_metadata_t eg,
               in egress_intrinsic_metadata_from_parser_t prsr,
               inout egress_intrinsic_metadata_for_deparser_t dprsr,
               inout egress_intrinsic_metadata_for_output_port_t port) {
    apply {
        if (hdr.field.isValid()) {
            bit<9> sum = hdr.field.port + hdr.whole.port + hdr.nested.origin.port;
            sum = sum + hdr.part.inner.port;
            hdr.packet.value = (bit<8>) sum + hdr.part.inner.value;
        } else {
            hdr.packet.op = (bit<8>) hdr.whole.port;
            hdr.packet.value = (bit<8>) hdr.whole.code;
        }
        hdr.field.setInvalid();
        hdr.whole.setInvalid();
        hdr.nested.setInvalid();
        hdr.part.setInvalid();
    }
}

control EgressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                       in egress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { packet.emit(hdr); }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(),
         EgressDeparser()) pipe;
Switch(pipe) main;
