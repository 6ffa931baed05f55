// Registers of single bits whose actions return a constant.
#include <core.p4>
#include <tna.p4>

header packet_t { bit<8> op; bit<8> index; bit<8> value; }
struct headers_t { packet_t packet; }
struct metadata_t { }

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
    Register<bit<1>, bit<8>>(256) bits;
    RegisterAction<bit<1>, bit<8>, bit<1>>(bits) set = {
        void apply(inout bit<1> cell, out bit<1> result) { cell = 1; result = 1; }
    };
    RegisterAction<bit<1>, bit<8>, bit<1>>(bits) clear = {
        void apply(inout bit<1> cell, out bit<1> result) { cell = 0; result = 1; }
    };
    RegisterAction<bit<1>, bit<8>, bit<1>>(bits) read = {
        void apply(inout bit<1> cell, out bit<1> result) { result = cell; }
    };
    apply {
        tm.ucast_egress_port = 2;
        tm.bypass_egress = 1;
        if (hdr.packet.op == 0) { hdr.packet.value = (bit<8>) read.execute(hdr.packet.index); }
        else if (hdr.packet.op == 1) { hdr.packet.value = (bit<8>) set.execute(hdr.packet.index); }
        else { hdr.packet.value = (bit<8>) clear.execute(hdr.packet.index); }
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { packet.emit(hdr); }
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
