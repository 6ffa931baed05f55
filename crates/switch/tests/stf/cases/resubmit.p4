// resubmit: the packet as it came in is parsed again, with the metadata of a field list.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> passes; bit<8> kept; bit<8> lost; bit<8> kind; }
struct headers_t { h_t h; }
struct metadata_t {
    @field_list(1)
    bit<8> kept;
    bit<8> lost;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (sm.instance_type == 0) {
            hdr.h.passes = 0x99;
            meta.kept = hdr.h.kept + 1;
            meta.lost = 0x55;
            resubmit_preserving_field_list(1);
        } else {
            hdr.h.passes = hdr.h.passes + 1;
            hdr.h.kept = meta.kept;
            hdr.h.lost = meta.lost;
            hdr.h.kind = (bit<8>)sm.instance_type;
        }
    }
}

#include "lib/rest.p4"
