// What egress learns of a copy: whether it is the first with its replication id, and whether its own queue had
// room. A packet goes to `to`, a port or a group, and after a pass through a port in loopback mode to `then`.

#include <core.p4>
#include <tna.p4>

const bit<8> GROUP = 1;
const bit<8> DEFLECT = 2;
const bit<8> COPY_TO_CPU = 3;

header probe_t {
    bit<8>  op;
    bit<8>  passes; // set: through ingress
    bit<16> to;
    bit<16> then;
    bit<16> from;   // set: port of arrival in the last pass
    bit<16> rid;    // set
    bit<8>  first;  // set
    bit<8>  deflected; // set
}

struct headers_t { probe_t probe; }
struct meta_t {}

parser IngressParser(packet_in packet, out headers_t hdr, out meta_t meta, out ingress_intrinsic_metadata_t ig) {
    state start {
        packet.extract(ig);
        packet.advance(PORT_METADATA_SIZE);
        packet.extract(hdr.probe);
        transition accept;
    }
}

control Ingress(inout headers_t hdr, inout meta_t meta, in ingress_intrinsic_metadata_t ig,
                in ingress_intrinsic_metadata_from_parser_t prsr,
                inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    apply {
        hdr.probe.from = 7w0 ++ ig.ingress_port;
        if (hdr.probe.passes > 0) {
            tm.ucast_egress_port = (PortId_t) hdr.probe.then;
        } else if (hdr.probe.op == GROUP) {
            tm.mcast_grp_a = hdr.probe.to;
        } else {
            tm.ucast_egress_port = (PortId_t) hdr.probe.to;
        }
        if (hdr.probe.op == DEFLECT) {
            tm.deflect_on_drop = 1;
        }
        if (hdr.probe.op == COPY_TO_CPU) {
            tm.copy_to_cpu = 1;
        }
        hdr.probe.passes = hdr.probe.passes + 1;
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in meta_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { packet.emit(hdr); }
}

parser EgressParser(packet_in packet, out headers_t hdr, out meta_t meta, out egress_intrinsic_metadata_t eg) {
    state start {
        packet.extract(eg);
        packet.extract(hdr.probe);
        transition accept;
    }
}

control Egress(inout headers_t hdr, inout meta_t meta, in egress_intrinsic_metadata_t eg,
               in egress_intrinsic_metadata_from_parser_t prsr,
               inout egress_intrinsic_metadata_for_deparser_t dprsr,
               inout egress_intrinsic_metadata_for_output_port_t port) {
    apply {
        hdr.probe.rid = eg.egress_rid;
        hdr.probe.first = 7w0 ++ eg.egress_rid_first;
        hdr.probe.deflected = 7w0 ++ eg.deflection_flag;
    }
}

control EgressDeparser(packet_out packet, inout headers_t hdr, in meta_t meta,
                       in egress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { packet.emit(hdr); }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;
Switch(pipe) main;
