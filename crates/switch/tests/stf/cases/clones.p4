// Clones from ingress and egress, with preserved fields: the one is the packet as it came in, the other
// as it left.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> op; bit<8> value; bit<8> kept; bit<8> kind; }
struct headers_t { h_t h; }
struct metadata_t {
    @field_list(1, 2)
    bit<8> kept;
    @field_list(2)
    bit<8> also;
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
        meta.kept = 0x40;
        meta.also = 0x02;
        hdr.h.value = 0x11;
        if (hdr.h.op == 1) {
            clone(CloneType.I2E, 5);
        } else if (hdr.h.op == 2) {
            clone_preserving_field_list(CloneType.I2E, 5, 1);
        } else if (hdr.h.op == 5) {
            clone_preserving_field_list(CloneType.I2E, 6, 2);
            mark_to_drop(sm);
        }
        // What comes after the call is preserved too.
        meta.kept = 0x41;
    }
}

#define OWN_EGRESS
control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        if (sm.instance_type == 0) {
            hdr.h.value = hdr.h.value + 1;
            if (hdr.h.op == 3) {
                clone(CloneType.E2E, 5);
            } else if (hdr.h.op == 4) {
                clone_preserving_field_list(CloneType.E2E, 5, 2);
            }
            hdr.h.value = hdr.h.value + 1;
        } else {
            hdr.h.kept = meta.kept + meta.also;
            hdr.h.kind = (bit<8>)sm.instance_type;
        }
    }
}

#include "lib/rest.p4"
