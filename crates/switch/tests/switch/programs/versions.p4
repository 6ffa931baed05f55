// Every stage that a packet passes leaves its program's mark, VERSION, in the packet.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8>  left;    // passes that are still to come
    bit<8>  marks;
    bit<32> number;
    bit<96> filler;  // an Ethernet frame has 14 bytes at least
}

struct headers_t {
    probe_t probe;
}

struct metadata_t { }

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.probe);
        hdr.probe.marks = hdr.probe.marks | VERSION;
        transition accept;
    }
}

control TestVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
    action mark(bit<8> with) {
        hdr.probe.marks = hdr.probe.marks | with;
    }

    table marks {
        key = { hdr.probe.left: ternary; }
        actions = { mark; }
        default_action = mark(VERSION);
        size = 64;
    }

    apply {
        marks.apply();
        standard.egress_spec = 2;
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard) {
    apply {
        hdr.probe.marks = hdr.probe.marks | VERSION;
        if (hdr.probe.left != 0) {
            hdr.probe.left = hdr.probe.left - 1;
            recirculate_preserving_field_list(0);
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
