// Counters of packets and bytes, and those of a table's entries.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> index; }
struct headers_t { h_t h; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    counter(4, CounterType.packets_and_bytes) all;
    direct_counter(CounterType.packets_and_bytes) each;
    action to(bit<9> port) {
        sm.egress_spec = port;
    }
    table t {
        key = { hdr.h.index: exact; }
        actions = { to; }
        default_action = to(1);
        counters = each;
    }
    apply {
        all.count((bit<32>)hdr.h.index);
        t.apply();
    }
}

#include "lib/rest.p4"
