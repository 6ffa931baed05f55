// Everything that a controller can change in a PSA program, each part reached by the packet's first byte.

#include <core.p4>
#include <psa.p4>

header h_t { bit<8> op; bit<8> key; bit<8> note; bit<32> port; bit<8> instance; bit<8> class; }
@controller_header("packet_out")
header out_t { bit<32> egress; }
struct headers_t { out_t out_to; h_t h; }
struct metadata_t { bit<8> note; }
struct empty_t {}
struct note_t { bit<8> note; }
struct learned_t { bit<8> key; PortId_t port; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             in psa_ingress_parser_input_metadata_t istd, in empty_t again, in note_t around) {
    state start {
        transition select((PortIdUint_t) istd.ingress_port) {
            (PortIdUint_t) PSA_PORT_CPU: from_controller;
            default: rest;
        }
    }
    state from_controller {
        packet.extract(hdr.out_to);
        transition rest;
    }
    state rest {
        packet.extract(hdr.h);
        meta.note = around.note;
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    Counter<bit<32>, bit<8>>(4, PSA_CounterType_t.PACKETS) counts;
    Register<bit<8>, bit<8>>(4) cells;
    Meter<bit<8>>(4, PSA_MeterType_t.PACKETS) rates;
    DirectCounter<bit<32>>(PSA_CounterType_t.PACKETS) hits;
    ActionSelector(PSA_HashAlgorithm_t.CRC16, 8, 16) members;
    action send(PortId_t port) {
        send_to_port(ostd, port);
        hits.count();
    }
    action plain(bit<32> port) { send_to_port(ostd, (PortId_t) port); }
    table ports {
        key = { hdr.h.key : exact; }
        actions = { send; NoAction; }
        psa_direct_counter = hits;
    }
    table spread {
        key = { hdr.h.key : exact; hdr.h.port : selector; }
        actions = { plain; NoAction; }
        psa_implementation = members;
        psa_empty_group_action = plain(4);
    }
    apply {
        hdr.h.note = meta.note;
        hdr.h.port = (PortIdUint_t) istd.ingress_port;
        if (hdr.out_to.isValid()) {
            send_to_port(ostd, (PortId_t) hdr.out_to.egress);
            hdr.out_to.setInvalid();
        } else {
            ports.apply();
        }
        switch (hdr.h.op) {
            1: { multicast(ostd, (MulticastGroup_t) 7); }
            2: { ostd.clone = true; ostd.clone_session_id = (CloneSessionId_t) 9; }
            3: { if (istd.packet_path == PSA_PacketPath_t.NORMAL) { send_to_port(ostd, PSA_PORT_RECIRCULATE); } }
            4: { counts.count(hdr.h.key); cells.write(hdr.h.key, 0x2a); }
            5: { spread.apply(); }
            6: { send_to_port(ostd, PSA_PORT_CPU); }
            7: { if (rates.execute(hdr.h.key) == PSA_MeterColor_t.RED) { ingress_drop(ostd); } }
        }
    }
}

control Deparse(packet_out packet, out note_t i2e, out empty_t again, out empty_t normal,
                inout headers_t hdr, in metadata_t meta, in psa_ingress_output_metadata_t istd) {
    Digest<learned_t>() learned;
    apply {
        i2e.note = 0x55;
        if (hdr.h.op == 8) { learned.pack({ hdr.h.key, istd.egress_port }); }
        packet.emit(hdr);
    }
}

parser EgressParse(packet_in packet, out headers_t hdr, inout metadata_t meta,
                   in psa_egress_parser_input_metadata_t istd, in empty_t normal, in note_t i2e, in empty_t e2e) {
    state start {
        packet.extract(hdr.h);
        meta.note = i2e.note;
        transition accept;
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta,
               in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) {
    apply {
        hdr.h.instance = (bit<8>) (EgressInstanceUint_t) istd.instance;
        hdr.h.class = (bit<8>) (ClassOfServiceUint_t) istd.class_of_service;
        if (istd.packet_path == PSA_PacketPath_t.CLONE_I2E) { hdr.h.note = meta.note; }
    }
}

control EgressDeparse(packet_out packet, out empty_t e2e, out note_t around, inout headers_t hdr, in metadata_t meta,
                      in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply {
        if (psa_recirculate(istd, edstd)) { around.note = 0x66; }
        packet.emit(hdr);
    }
}

IngressPipeline(Parse(), IngressImpl(), Deparse()) ip;
EgressPipeline(EgressParse(), EgressImpl(), EgressDeparse()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
