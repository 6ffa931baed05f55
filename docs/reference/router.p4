// A small router for the walk through P4Runtime in p4runtime.md.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header ipv4_t { bit<96> before; bit<32> src; bit<32> dst; }
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; }
struct meta_t { }

parser MyParser(packet_in p, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 { p.extract(hdr.ipv4); transition accept; }
}
control MyVerify(inout headers_t hdr, inout meta_t meta) { apply { } }
control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    // Packets that came in, by port.
    register<bit<32>>(512) seen;
    action forward(bit<9> port) { sm.egress_spec = port; }
    action drop() { mark_to_drop(sm); }
    table ipv4_lpm {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; drop; }
        default_action = drop;
    }
    apply {
        bit<32> packets;
        seen.read(packets, (bit<32>) sm.ingress_port);
        seen.write((bit<32>) sm.ingress_port, packets + 1);
        if (hdr.ipv4.isValid()) { ipv4_lpm.apply(); } else { drop(); }
    }
}
control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control MyCompute(inout headers_t hdr, inout meta_t meta) { apply { } }
control MyDeparser(packet_out p, in headers_t hdr) { apply { p.emit(hdr.ethernet); p.emit(hdr.ipv4); } }

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
