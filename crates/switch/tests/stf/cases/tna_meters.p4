// Meters and counters with colours and adjustments, of arrays and of entries.
#include "tna/egress.p4"

header packet_t { bit<8> op; bit<8> index; bit<8> color; }
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
    Meter<bit<8>>(4, MeterType_t.PACKETS) plain;
    Meter<bit<8>>(4, MeterType_t.BYTES, 0x33, 0x22, 0x11) named;
    Meter<bit<8>>(4, MeterType_t.PACKETS) aware;
    DirectMeter(MeterType_t.BYTES) direct;
    Counter<bit<32>, bit<8>>(4, CounterType_t.PACKETS_AND_BYTES) whole;
    Counter<bit<32>, bit<8>>(4, CounterType_t.PACKETS_AND_BYTES) less;
    DirectCounter<bit<32>>(CounterType_t.PACKETS_AND_BYTES) entry;

    action meter() { hdr.packet.color = plain.execute(hdr.packet.index); }
    action meter_named() { hdr.packet.color = named.execute(hdr.packet.index); }
    action meter_aware() {
        hdr.packet.color = aware.execute(hdr.packet.index, (MeterColor_t)hdr.packet.color);
    }
    action meter_less() { hdr.packet.color = named.execute(index = hdr.packet.index, adjust_byte_count = 4); }
    action nothing() {}
    table ops {
        key = { hdr.packet.op: exact; }
        actions = { meter; meter_named; meter_aware; meter_less; nothing; }
        const default_action = nothing();
        const entries = {
            1: meter();
            2: meter_named();
            3: meter_aware();
            4: meter_less();
        }
    }

    action color() {
        hdr.packet.color = direct.execute(adjust_byte_count = 3);
        entry.count(adjust_byte_count = 3);
    }
    table entries_of {
        key = { hdr.packet.op: exact; }
        actions = { color; nothing; }
        const default_action = nothing();
        meters = direct;
        counters = entry;
    }

    apply {
        whole.count(hdr.packet.index);
        less.count(hdr.packet.index, 32w3);
        ops.apply();
        entries_of.apply();
        tm.ucast_egress_port = 2;
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { packet.emit(hdr); }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), KeepParser(), Keep(), KeepDeparser()) pipe;
Switch(pipe) main;
