// Tables that a Tofino implements in other ways, and value sets of parsers.
#include "tna/egress.p4"

header packet_t { bit<8> op; bit<32> address; bit<8> way; }
struct headers_t { packet_t packet; }
struct metadata_t { bit<10> partition; }

parser IngressParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                     out ingress_intrinsic_metadata_t ig) {
    value_set<bit<8>>(2) known;

    state start {
        packet.extract(ig);
        packet.advance(PORT_METADATA_SIZE);
        transition select(packet.lookahead<bit<8>>()) {
            known: parse;
            default: reject;
        }
    }
    state parse { packet.extract(hdr.packet); transition accept; }
}

control Ingress(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig,
                in ingress_intrinsic_metadata_from_parser_t prsr,
                inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    Alpm(number_partitions = 16, subtrees_per_partition = 2) trees;
    Atcam(16) partitions;

    action way(bit<8> number) { hdr.packet.way = number; }
    action partition(bit<10> number) { meta.partition = number; }

    table routes {
        key = { hdr.packet.address: lpm; }
        actions = { way; NoAction; }
        const default_action = NoAction();
        implementation = trees;
    }
    table choice {
        key = { hdr.packet.op: exact; }
        actions = { partition; NoAction; }
        const default_action = NoAction();
    }
    table parts {
        key = {
            meta.partition: atcam_partition_index;
            hdr.packet.address: ternary;
        }
        actions = { way; NoAction; }
        const default_action = NoAction();
        atcam = partitions;
    }
    table digests_of {
        key = { hdr.packet.address: exact; }
        actions = { way; NoAction; }
        const default_action = NoAction();
        proxy_hash = Hash<bit<16>>(HashAlgorithm_t.CRC16);
    }

    apply {
        tm.ucast_egress_port = 2;
        routes.apply();
        choice.apply();
        parts.apply();
        digests_of.apply();
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { packet.emit(hdr); }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), KeepParser(), Keep(), KeepDeparser()) pipe;
Switch(pipe) main;
