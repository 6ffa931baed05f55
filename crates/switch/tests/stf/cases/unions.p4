// A header union: of its members at most one is valid.

#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; }
header short_t { bit<8> v; }
header long_t { bit<16> v; }
header_union value_t { short_t small; long_t large; }
struct headers_t { kind_t k; value_t u; kind_t seen; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.k);
        transition select(hdr.k.kind[3:0]) {
            1: small;
            2: large;
            default: accept;
        }
    }
    state small {
        packet.extract(hdr.u.small);
        transition accept;
    }
    state large {
        packet.extract(hdr.u.large);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.seen.setValid();
        if (hdr.u.isValid()) {
            hdr.seen.kind = 0x80;
        }
        if (hdr.u.small.isValid()) {
            hdr.seen.kind = hdr.seen.kind | 1;
        }
        if (hdr.k.kind == 0x12) {
            // The other member is not valid from here on.
            hdr.u.small.setValid();
            hdr.u.small.v = 0x33;
        } else if (hdr.k.kind == 0x21) {
            hdr.u.small.setInvalid();
        }
        if (hdr.u.large.isValid()) {
            hdr.seen.kind = hdr.seen.kind | 2;
        }
    }
}

#include "lib/rest.p4"
