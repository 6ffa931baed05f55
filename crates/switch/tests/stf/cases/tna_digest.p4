// Digests of the ingress deparser, chosen by their type.
#include "tna/egress.p4"

header place_t { bit<16> host; bit<8> kind; }
struct headers_t { place_t place; }
struct metadata_t { PortId_t port; }
struct seen_t { bit<16> host; PortId_t port; }
struct odd_t { bit<8> kind; bit<4> low; }

parser IngressParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                     out ingress_intrinsic_metadata_t ig) {
    state start {
        packet.extract(ig);
        packet.advance(PORT_METADATA_SIZE);
        packet.extract(hdr.place);
        transition accept;
    }
}

control Ingress(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig,
                in ingress_intrinsic_metadata_from_parser_t prsr,
                inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    action known() {}
    action learn() { dprsr.digest_type = 1; }
    table hosts {
        key = { hdr.place.host: exact; }
        actions = { known; learn; }
        const default_action = learn();
    }

    apply {
        meta.port = ig.ingress_port;
        hosts.apply();
        if (hdr.place.kind > 0xF0) {
            dprsr.digest_type = 2;
            // Nor does it come twice without egress.
            tm.bypass_egress = 1;
        }
        tm.ucast_egress_port = 9;
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    Digest<seen_t>(1) seen;
    Digest<odd_t>() odd;

    apply {
        seen.pack({ hdr.place.host, meta.port });
        if (dprsr.digest_type == 2) {
            odd.pack({ hdr.place.kind, hdr.place.kind[3:0] });
        }
        packet.emit(hdr);
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), KeepParser(), Keep(), KeepDeparser()) pipe;
Switch(pipe) main;
