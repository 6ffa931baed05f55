// truncate: what leaves is no longer than that, headers included.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> length; bit<8> a; }
struct headers_t { h_t h; h_t more; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.more = hdr.h;
        truncate((bit<32>)hdr.h.length);
    }
}

#include "lib/rest.p4"
