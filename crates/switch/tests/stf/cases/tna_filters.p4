// Low-pass filters and random early drops, of arrays and of entries.
#include "tna/egress.p4"

header packet_t { bit<8> op; bit<16> value; bit<16> result; }
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
    Lpf<bit<16>, bit<8>>(4) average;
    Wred<bit<16>, bit<8>>(4, 0xD0, 0x0A) early;
    DirectLpf<bit<16>>() rate;
    DirectWred<bit<16>>(1, 0) direct_early;

    action smooth() { hdr.packet.result = average.execute(hdr.packet.value, 3); }
    action drop_early() { hdr.packet.result = (bit<16>)early.execute(hdr.packet.value, 2); }
    action nothing() {}
    table arrays {
        key = { hdr.packet.op: exact; }
        actions = { smooth; drop_early; nothing; }
        const default_action = nothing();
        const entries = {
            1: smooth();
            2: drop_early();
        }
    }

    action sum() { hdr.packet.result = rate.execute(hdr.packet.value); }
    table rates {
        key = { hdr.packet.op: exact; }
        actions = { sum; nothing; }
        const default_action = nothing();
        filters = rate;
    }

    action check() { hdr.packet.result = (bit<16>)direct_early.execute(hdr.packet.value); }
    table drops {
        key = { hdr.packet.op: exact; }
        actions = { check; nothing; }
        const default_action = nothing();
        filters = direct_early;
    }

    apply {
        arrays.apply();
        rates.apply();
        drops.apply();
        tm.ucast_egress_port = 2;
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { packet.emit(hdr); }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), KeepParser(), Keep(), KeepDeparser()) pipe;
Switch(pipe) main;
