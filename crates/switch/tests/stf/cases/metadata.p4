// Standard metadata, as simple_switch fills it in.

#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<16> ingress_port; bit<16> egress_port; bit<32> length; bit<32> kind; bit<16> rid; bit<8> times; bit<8> zero;
}
struct headers_t { h_t h; }
struct metadata_t { bit<48> came_in; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        meta.came_in = sm.ingress_global_timestamp;
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        hdr.h.setValid();
        hdr.h.ingress_port = (bit<16>)sm.ingress_port;
        hdr.h.length = sm.packet_length;
        sm.egress_spec = sm.ingress_port + 1;
        if (sm.egress_port == 0 && sm.enq_qdepth == 0 && sm.mcast_grp == 0) {
            hdr.h.zero = 1;
        }
    }
}

#define OWN_EGRESS
control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        hdr.h.egress_port = (bit<16>)sm.egress_port;
        hdr.h.kind = sm.instance_type;
        hdr.h.rid = sm.egress_rid;
        if (sm.egress_global_timestamp >= sm.ingress_global_timestamp) {
            hdr.h.times = hdr.h.times | 1;
        }
        if (sm.ingress_global_timestamp == meta.came_in && meta.came_in > 0) {
            hdr.h.times = hdr.h.times | 2;
        }
        if ((bit<48>)sm.enq_timestamp >= meta.came_in) {
            hdr.h.times = hdr.h.times | 4;
        }
    }
}

#include "lib/rest.p4"
