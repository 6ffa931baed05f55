// Meters of packets, by index and by entry: three packets of a burst, each with its colour.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> index; bit<8> array; bit<8> entry; }
struct headers_t { h_t h; }
struct metadata_t { bit<8> colour; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    meter(4, MeterType.packets) all;
    direct_meter<bit<8>>(MeterType.packets) each;
    action to(bit<9> port) {
        sm.egress_spec = port;
        each.read(meta.colour);
    }
    table t {
        key = { hdr.h.index: exact; }
        actions = { to; NoAction; }
        default_action = NoAction;
        meters = each;
    }
    apply {
        sm.egress_spec = 1;
        t.apply();
        all.execute_meter((bit<32>)hdr.h.index, hdr.h.array);
        hdr.h.entry = meta.colour;
    }
}

#include "lib/rest.p4"
