// Field lists with names: members of an enum with numbers, constants, sums.

#include <core.p4>
#include <v1model.p4>

enum bit<8> Lists {
    none = 0,
    port = 3,
    all = 4
}

const bit<8> BOTH = 2;

header h_t { bit<8> pass; bit<8> one; bit<8> two; bit<8> three; }
struct headers_t { h_t h; }
struct metadata_t {
    @field_list(Lists.port, Lists.all)
    bit<8> one;
    @field_list(Lists.all, BOTH + 3)
    bit<8> two;
    @field_list(Lists.none)
    bit<8> three;
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
            meta = { 1, 2, 3 };
            if (hdr.h.pass == 3) {
                resubmit_preserving_field_list((bit<8>)Lists.port);
            } else if (hdr.h.pass == 4) {
                resubmit_preserving_field_list((bit<8>)Lists.all);
            } else {
                resubmit_preserving_field_list(5);
            }
        } else {
            hdr.h.one = meta.one;
            hdr.h.two = meta.two;
            hdr.h.three = meta.three;
        }
    }
}

#include "lib/rest.p4"
