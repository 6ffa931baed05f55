// Action profiles and selectors, with a hash of the program's own, and a symmetric hash.
#include "tna/egress.p4"

header packet_t { bit<8> op; bit<16> from; bit<16> to; bit<16> hash; }
struct headers_t { packet_t packet; }
struct metadata_t {}

parser IngressParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                     out ingress_intrinsic_metadata_t ig) {
    state start {
        packet.extract(ig);
        packet.advance(PORT_METADATA_SIZE);
        packet.extract(hdr.packet);
        transition accept;
    }
}

control Ingress(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig,
                in ingress_intrinsic_metadata_from_parser_t prsr,
                inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    Hash<bit<16>>(HashAlgorithm_t.IDENTITY) last;
    ActionProfile(8) ways;
    ActionSelector(ways, last, SelectorMode_t.FAIR, 4, 2) way;
    ActionProfile(4) shared;

    @symmetric("hdr.packet.from", "hdr.packet.to")
    Hash<bit<16>>(HashAlgorithm_t.CRC16) either;

    action send(PortId_t port) { tm.ucast_egress_port = port; }
    table hosts {
        key = {
            hdr.packet.op: exact;
            hdr.packet.to: selector;
        }
        actions = { send; }
        implementation = way;
    }
    table others {
        key = { hdr.packet.from: ternary; }
        actions = { send; NoAction; }
        implementation = shared;
    }

    apply {
        hdr.packet.hash = either.get({ hdr.packet.from, hdr.packet.to });
        if (!hosts.apply().hit) {
            others.apply();
        }
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { packet.emit(hdr); }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), KeepParser(), Keep(), KeepDeparser()) pipe;
Switch(pipe) main;
