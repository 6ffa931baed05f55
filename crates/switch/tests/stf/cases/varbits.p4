// A header with a varbit field: extracted by a length that the packet gives, emitted, copied, compared.

#include <core.p4>
#include <v1model.p4>

header fixed_t { bit<8> length; }
header options_t { bit<8> kind; varbit<32> data; }
struct headers_t { fixed_t f; options_t o; options_t copy; fixed_t same; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.f);
        packet.extract(hdr.o, (bit<32>)hdr.f.length * 8);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (sm.parser_error == error.HeaderTooShort) {
            hdr.f.length = 0xEE;
        } else {
            hdr.copy = hdr.o;
            hdr.same.setValid();
            hdr.same.length = hdr.copy == hdr.o ? 8w1 : 0;
            if (hdr.o.kind == 0) {
                hdr.o.setInvalid();
            }
        }
    }
}

#include "lib/rest.p4"
