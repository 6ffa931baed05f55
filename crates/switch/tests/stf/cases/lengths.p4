// The length that a parser asks for is the packet's, and it is a number like others.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> length; bit<8> rest; }
struct headers_t { h_t h; }
struct metadata_t { bit<32> length; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        meta.length = packet.length();
        transition select(packet.length() - 2) {
            0: accept;
            default: more;
        }
    }
    state more {
        hdr.h.rest = 1;
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.h.length = (bit<8>)meta.length;
    }
}

#include "lib/rest.p4"
