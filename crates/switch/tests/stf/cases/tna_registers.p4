// Registers of entries, and parameters of register actions.
#include "tna/egress.p4"

header packet_t { bit<8> op; bit<32> value; }
struct headers_t { packet_t packet; }
struct metadata_t {}
struct pair_t { bit<32> sum; bit<32> count; }

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
    DirectRegister<pair_t>({ 100, 0 }) sums;
    DirectRegisterAction<pair_t, bit<32>>(sums) add = {
        void apply(inout pair_t cell, out bit<32> result) {
            cell.sum = cell.sum + hdr.packet.value;
            cell.count = cell.count + 1;
            result = cell.sum;
        }
    };
    DirectRegisterAction<pair_t, bit<32>>(sums) tell = {
        void apply(inout pair_t cell, out bit<32> result) { result = cell.count; }
    };
    action sum() { hdr.packet.value = add.execute(); }
    action read() { hdr.packet.value = tell.execute(); }
    table entries_of {
        key = { hdr.packet.op: ternary; }
        actions = { sum; read; }
        const default_action = sum();
        registers = sums;
    }

    Register<bit<32>, bit<8>>(2) steps;
    RegisterParam<bit<32>>(3) step;
    RegisterAction<bit<32>, bit<8>, bit<32>>(steps) advance = {
        void apply(inout bit<32> cell, out bit<32> result) {
            cell = cell + step.read();
            result = cell;
        }
    };

    apply {
        tm.ucast_egress_port = 2;
        if (hdr.packet.op == 0xFF) {
            hdr.packet.value = advance.execute(1);
        } else {
            entries_of.apply();
        }
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { packet.emit(hdr); }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), KeepParser(), Keep(), KeepDeparser()) pipe;
Switch(pipe) main;
