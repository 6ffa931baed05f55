// The packet generator: timers, ports that lose their link, patterns of recirculated packets.
#include "tna/egress.p4"

header tag_t { bit<32> tag; }
header data_t { bit<8> op; }
struct headers_t {
    pktgen_timer_header_t timer;
    pktgen_port_down_header_t down;
    pktgen_recirc_header_t recirc;
    tag_t tag;
    data_t data;
}
struct metadata_t {}

parser IngressParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                     out ingress_intrinsic_metadata_t ig) {
    state start {
        packet.extract(ig);
        packet.advance(PORT_METADATA_SIZE);
        transition select(ig.ingress_port, packet.lookahead<bit<8>>()) {
            (68, 1): timer;
            (68, 2): down;
            (68, 3): recirc;
            (68, _): tag;
            default: data;
        }
    }
    state timer { packet.extract(hdr.timer); transition data; }
    state down { packet.extract(hdr.down); transition data; }
    state recirc { packet.extract(hdr.recirc); transition data; }
    state tag { packet.extract(hdr.tag); transition data; }
    state data { packet.extract(hdr.data); transition accept; }
}

// Timers leave by port 1, ports that are down by port 2, patterns by port 3, and recirculated
// packets by port 4. Other packets are recirculated with a tag.
control Ingress(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig,
                in ingress_intrinsic_metadata_from_parser_t prsr,
                inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    Counter<bit<32>, bit<9>>(512, CounterType_t.PACKETS) arrived;

    apply {
        arrived.count(ig.ingress_port);
        if (hdr.timer.isValid()) {
            tm.ucast_egress_port = 1;
        } else if (hdr.down.isValid()) {
            tm.ucast_egress_port = 2;
        } else if (hdr.recirc.isValid()) {
            tm.ucast_egress_port = 3;
        } else if (hdr.tag.isValid()) {
            hdr.tag.setInvalid();
            tm.ucast_egress_port = 4;
        } else {
            hdr.tag.setValid();
            hdr.tag.tag = 24w0xFF0102 ++ hdr.data.op;
            tm.ucast_egress_port = 68;
        }
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { packet.emit(hdr); }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), KeepParser(), Keep(), KeepDeparser()) pipe;
Switch(pipe) main;
