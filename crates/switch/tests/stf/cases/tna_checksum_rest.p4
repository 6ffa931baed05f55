// A checksum over headers and payload, updated without reading the payload: the parser leaves the
// sum of what it does not parse, and the deparser adds the headers to it.
#include <core.p4>
#include <tna.p4>

header outer_t { bit<16> address; bit<16> checksum; }
header odd_t { bit<24> value; }
header even_t { bit<16> value; }
struct headers_t { outer_t outer; odd_t odd; even_t[2] more; }
struct metadata_t { bit<16> rest; }

parser IngressParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                     out ingress_intrinsic_metadata_t ig) {
    Checksum() sum;
    state start {
        packet.extract(ig);
        packet.advance(PORT_METADATA_SIZE);
        packet.extract(hdr.outer);
        sum.subtract({ hdr.outer.address, hdr.outer.checksum });
        transition select(hdr.outer.address[15:12]) {
            0: accept;
            default: deposit;
        }
    }
    state deposit {
        sum.subtract_all_and_deposit(meta.rest);
        transition select(hdr.outer.address[15:12]) {
            1: accept;
            2: even;
            default: odd;
        }
    }
    state odd {
        packet.extract(hdr.odd);
        transition even;
    }
    state even {
        packet.extract(hdr.more.next);
        packet.extract(hdr.more.next);
        transition accept;
    }
}

control Ingress(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig,
                in ingress_intrinsic_metadata_from_parser_t prsr,
                inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    apply {
        tm.ucast_egress_port = 2;
        tm.bypass_egress = 1;
        hdr.outer.address = hdr.outer.address + 0x0111;
        if (hdr.more[1].isValid()) { hdr.more[1].value = hdr.more[1].value + 1; }
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    Checksum() sum;
    apply {
        hdr.outer.checksum = sum.update({ hdr.outer.address, meta.rest, hdr.odd.value,
                                          hdr.more[0].value, hdr.more[1].value });
        packet.emit(hdr);
    }
}

parser EgressParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                    out egress_intrinsic_metadata_t eg) {
    state start { packet.extract(eg); transition accept; }
}

control Egress(inout headers_t hdr, inout metadata_t meta, in egress_intrinsic_metadata_t eg,
               in egress_intrinsic_metadata_from_parser_t prsr,
               inout egress_intrinsic_metadata_for_deparser_t dprsr,
               inout egress_intrinsic_metadata_for_output_port_t port) {
    apply { }
}

control EgressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                       in egress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { packet.emit(hdr); }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(),
         EgressDeparser()) pipe;
Switch(pipe) main;
