// A packet says what is to become of it, and comes back with what the traffic manager told egress.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8>  op;       // what to do, see ingress
    bit<8>  left;     // passes that are still to come
    bit<16> to;       // port or group
    bit<32> enq_qdepth;
    bit<32> deq_qdepth;
    bit<32> deq_timedelta;
    bit<32> egress_instance;
    bit<16> rid;
    bit<16> ingress_port;
    bit<32> ingress_instance;
    bit<32> passes;
}

struct headers_t {
    probe_t probe;
}

struct metadata_t {
    @field_list(1)
    bit<8> left;
    @field_list(1)
    bit<32> passes;
}

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control TestVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard) {
    apply {
        meta.passes = meta.passes + 1;
        hdr.probe.passes = meta.passes;
        hdr.probe.ingress_port = (bit<16>)standard.ingress_port;
        hdr.probe.ingress_instance = standard.instance_type;
        if (standard.parser_error != error.NoError) {
            mark_to_drop(standard);
        } else if (hdr.probe.op == 0) {
            standard.egress_spec = hdr.probe.to[8:0];
        } else if (hdr.probe.op == 1) {
            standard.mcast_grp = hdr.probe.to;
        } else if (hdr.probe.op == 2) {
            // Resubmit `left` times, then out.
            if (standard.instance_type == 0) {
                meta.left = hdr.probe.left;
            }
            if (meta.left != 0) {
                meta.left = meta.left - 1;
                resubmit_preserving_field_list(1);
            }
            standard.egress_spec = hdr.probe.to[8:0];
        } else if (hdr.probe.op == 3) {
            // Recirculate `left` times (see egress), then out.
            standard.egress_spec = hdr.probe.to[8:0];
        } else {
            mark_to_drop(standard);
        }
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t standard) {
    apply {
        hdr.probe.enq_qdepth = (bit<32>)standard.enq_qdepth;
        hdr.probe.deq_qdepth = (bit<32>)standard.deq_qdepth;
        hdr.probe.deq_timedelta = standard.deq_timedelta;
        hdr.probe.egress_instance = standard.instance_type;
        hdr.probe.rid = standard.egress_rid;
        if (hdr.probe.op == 3 && hdr.probe.left != 0) {
            hdr.probe.left = hdr.probe.left - 1;
            recirculate_preserving_field_list(1);
        }
    }
}

control TestUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.probe);
    }
}

V1Switch(TestParser(), TestVerify(), TestIngress(), TestEgress(), TestUpdate(), TestDeparser()) main;
