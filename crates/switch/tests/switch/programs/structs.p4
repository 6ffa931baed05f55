// A register and a digest of structs in structs.

#include <core.p4>
#include <v1model.p4>

struct span_t { bit<8> low; bit<16> high; }
struct flow_t {
    bool seen;
    span_t span;
    tuple<bit<4>, bit<2>> kinds;
}

header h_t { bit<8> op; bit<8> index; bit<16> value; }
struct headers_t { h_t h; }
struct metadata_t {}

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<flow_t>(4) flows;
    apply {
        sm.egress_spec = 1;
        flow_t flow;
        if (hdr.h.op == 0) {
            flow = { true, { hdr.h.value[7:0], hdr.h.value }, { 2, 1 } };
            flows.write((bit<32>)hdr.h.index, flow);
        } else {
            flow = { true, { hdr.h.index, hdr.h.value }, { 1, 0 } };
            digest<flow_t>(0, flow);
        }
    }
}

control TestVerify(inout headers_t hdr, inout metadata_t meta) { apply {} }
control TestEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply {} }
control TestUpdate(inout headers_t hdr, inout metadata_t meta) { apply {} }
control TestDeparser(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(TestParser(), TestVerify(), TestIngress(), TestEgress(), TestUpdate(), TestDeparser()) main;
