// recirculate: the packet as it would leave goes round again.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> rounds; bit<8> kept; bit<8> kind; }
struct headers_t { h_t h; }
struct metadata_t {
    @field_list(7)
    bit<8> kept;
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
        hdr.h.kept = hdr.h.kept + meta.kept;
        hdr.h.kind = (bit<8>)sm.instance_type;
    }
}

#define OWN_EGRESS
control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        if (hdr.h.rounds > 0) {
            hdr.h.rounds = hdr.h.rounds - 1;
            meta.kept = 0x10;
            recirculate_preserving_field_list(7);
        }
    }
}

#include "lib/rest.p4"
