// Checksums: verified on the way in, with and without the payload, and made anew on the way out.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> use_sum; bit<8> a; bit<16> b; bit<16> sum; bit<16> whole; bit<8> error_seen; bit<8> pad; }
struct headers_t { h_t h; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

#define OWN_VERIFY
control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.h.use_sum == 1, { hdr.h.a, 8w0, hdr.h.b }, hdr.h.sum, HashAlgorithm.csum16);
        verify_checksum_with_payload(hdr.h.use_sum == 2, { hdr.h.b }, hdr.h.whole, HashAlgorithm.csum16);
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.h.error_seen = (bit<8>)sm.checksum_error;
        if (sm.parser_error != error.NoError) {
            hdr.h.error_seen = hdr.h.error_seen | 0x10;
        }
        hdr.h.b = hdr.h.b + 1;
    }
}

#define OWN_UPDATE
control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(true, { hdr.h.a, 8w0, hdr.h.b }, hdr.h.sum, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.h.use_sum == 2, { hdr.h.b }, hdr.h.whole, HashAlgorithm.csum16);
    }
}

#include "lib/rest.p4"
