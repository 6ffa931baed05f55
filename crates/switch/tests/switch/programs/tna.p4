// Does with a packet what its first bytes say, and writes down what it saw on the way.

#include <core.p4>
#include <tna.p4>

const bit<8> UNICAST = 0;
const bit<8> GROUPS = 1;
const bit<8> RESUBMIT = 2;
const bit<8> RECIRCULATE = 3;
const bit<8> MIRROR = 4;
const bit<8> COPY_TO_CPU = 5;
const bit<8> EGRESS_MIRROR = 6;

const PortId_t RECIRCULATION = 68;

// In front of packets from the controller.
@controller_header("packet_out")
header packet_out_t {
    bit<7> unused;
    PortId_t to;
}

// In front of packets to the controller.
@controller_header("packet_in")
header packet_in_t {
    bit<7> unused;
    PortId_t from;
}

header probe_t {
    bit<8>  op;
    bit<8>  left;   // passes to come
    bit<16> to;     // port, or first group
    bit<16> second; // second group, or mirror session
    bit<16> from;   // set: port that it came in through in the last pass
    bit<32> passes; // set
    bit<32> enq;    // set: queue depths in cells
    bit<32> deq;
    bit<16> rid;    // set
    bit<16> mark;   // set in mirrored copies
}

header mark_t {
    bit<16> mark;
}

struct headers_t {
    packet_out_t down;
    packet_in_t up;
    mark_t mark;
    probe_t probe;
}

struct meta_t {
    bit<8> passed;
    MirrorId_t session;
}

struct pair_t {
    bit<32> lo;
    bit<32> hi;
}

header passed_t {
    bit<8> passed;
}

parser IngressParser(packet_in packet, out headers_t hdr, out meta_t meta,
                     out ingress_intrinsic_metadata_t intrinsic) {
    passed_t passed;

    state start {
        packet.extract(intrinsic);
        transition select(intrinsic.resubmit_flag) {
            1: again;
            default: first;
        }
    }

    state again {
        packet.extract(passed);
        meta.passed = passed.passed;
        packet.advance(56);
        transition select(intrinsic.ingress_port) {
            192: controller;
            default: probe;
        }
    }

    state first {
        packet.advance(PORT_METADATA_SIZE);
        transition select(intrinsic.ingress_port) {
            192: controller;
            default: probe;
        }
    }

    state controller {
        packet.extract(hdr.down);
        transition probe;
    }

    state probe {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control Ingress(inout headers_t hdr, inout meta_t meta, in ingress_intrinsic_metadata_t intrinsic,
                in ingress_intrinsic_metadata_from_parser_t from_parser,
                inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    Register<pair_t, bit<8>>(4, { 0, 7 }) seen;
    RegisterAction<pair_t, bit<8>, bit<32>>(seen) note = {
        void apply(inout pair_t value) {
            value.lo = value.lo + 1;
            value.hi = hdr.probe.passes;
        }
    };
    Counter<bit<64>, bit<8>>(256, CounterType_t.PACKETS_AND_BYTES) ops;
    DirectCounter<bit<64>>(CounterType_t.PACKETS_AND_BYTES) sent;

    action send(PortId_t port) {
        for_tm.ucast_egress_port = port;
        sent.count();
    }

    action nowhere() {
        for_deparser.drop_ctl = 1;
    }

    table ports {
        key = { hdr.probe.to: exact; }
        actions = { send; nowhere; }
        const default_action = nowhere();
        counters = sent;
        size = 64;
    }

    apply {
        hdr.probe.from = (bit<16>)intrinsic.ingress_port;
        hdr.probe.passes = hdr.probe.passes + 1;
        ops.count(hdr.probe.op);
        note.execute(hdr.probe.op);
        if (hdr.down.isValid()) {
            for_tm.ucast_egress_port = hdr.down.to;
            hdr.down.setInvalid();
        } else if (hdr.probe.op == RESUBMIT && meta.passed < hdr.probe.left) {
            for_deparser.resubmit_type = 1;
            meta.passed = meta.passed + 1;
        } else if (hdr.probe.op == RESUBMIT) {
            hdr.probe.passes = (bit<32>)meta.passed;
            for_tm.ucast_egress_port = (PortId_t)hdr.probe.to;
        } else if (hdr.probe.op == RECIRCULATE && hdr.probe.left > 0) {
            hdr.probe.left = hdr.probe.left - 1;
            for_tm.ucast_egress_port = RECIRCULATION;
        } else if (hdr.probe.op == GROUPS) {
            for_tm.mcast_grp_a = hdr.probe.to;
            for_tm.mcast_grp_b = hdr.probe.second;
            for_tm.rid = 10;
            for_tm.level2_exclusion_id = 5;
        } else if (hdr.probe.to == 192) {
            hdr.up.setValid();
            hdr.up.unused = 0;
            hdr.up.from = intrinsic.ingress_port;
            for_tm.ucast_egress_port = 192;
        } else {
            ports.apply();
        }
        if (hdr.probe.op == MIRROR) {
            for_deparser.mirror_type = 1;
            meta.session = (MirrorId_t)hdr.probe.second;
        }
        if (hdr.probe.op == COPY_TO_CPU) {
            for_tm.copy_to_cpu = 1;
        }
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in meta_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    Resubmit(1) resubmit;
    Mirror(1) mirror;

    apply {
        if (for_deparser.resubmit_type == 1) {
            resubmit.emit<passed_t>({ meta.passed });
        }
        if (for_deparser.mirror_type == 1) {
            mirror.emit<mark_t>(meta.session, { 0xabcd });
        }
        packet.emit(hdr.up);
        packet.emit(hdr.probe);
    }
}

struct egress_headers_t {
    packet_in_t up;
    mark_t mark;
    probe_t probe;
}

struct egress_meta_t {
    MirrorId_t session;
}

parser EgressParser(packet_in packet, out egress_headers_t hdr, out egress_meta_t meta,
                    out egress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        transition select(intrinsic.egress_port, packet.lookahead<bit<16>>()) {
            (_, 0xabcd): mirrored;
            (192, 0x0000 &&& 0xfe00): controller;
            default: probe;
        }
    }

    state mirrored {
        packet.extract(hdr.mark);
        transition probe;
    }

    state controller {
        packet.extract(hdr.up);
        transition probe;
    }

    state probe {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control Egress(inout egress_headers_t hdr, inout egress_meta_t meta,
               in egress_intrinsic_metadata_t intrinsic,
               in egress_intrinsic_metadata_from_parser_t from_parser,
               inout egress_intrinsic_metadata_for_deparser_t for_deparser,
               inout egress_intrinsic_metadata_for_output_port_t for_port) {
    apply {
        hdr.probe.enq = (bit<32>)intrinsic.enq_qdepth;
        hdr.probe.deq = (bit<32>)intrinsic.deq_qdepth;
        hdr.probe.rid = intrinsic.egress_rid;
        if (hdr.mark.isValid()) {
            hdr.probe.mark = hdr.mark.mark;
            hdr.mark.setInvalid();
        } else if (hdr.probe.op == EGRESS_MIRROR) {
            for_deparser.mirror_type = 2;
            meta.session = (MirrorId_t)hdr.probe.second;
        }
    }
}

control EgressDeparser(packet_out packet, inout egress_headers_t hdr, in egress_meta_t meta,
                       in egress_intrinsic_metadata_for_deparser_t for_deparser) {
    Mirror(2) mirror;

    apply {
        if (for_deparser.mirror_type == 2) {
            mirror.emit<mark_t>(meta.session, { 0xabcd });
        }
        packet.emit(hdr.up);
        packet.emit(hdr.probe);
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(),
         EgressParser(), Egress(), EgressDeparser()) pipe;
Switch(pipe) main;
