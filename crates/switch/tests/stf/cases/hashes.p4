// Hashes of every algorithm, within bounds.

#include <core.p4>
#include <v1model.p4>

header in_t { bit<48> data; }
header out_t {
    bit<32> crc32; bit<16> crc16; bit<16> sum; bit<16> exclusive; bit<32> identity; bit<16> bounded;
}
struct headers_t { in_t i; out_t o; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.i);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.o.setValid();
        bit<32> full = 0xFFFFFFFF;
        hash(hdr.o.crc32, HashAlgorithm.crc32, 32w0, { hdr.i.data }, full);
        hash(hdr.o.crc16, HashAlgorithm.crc16, 16w0, { hdr.i.data }, 32w0x10000);
        hash(hdr.o.sum, HashAlgorithm.csum16, 16w0, { hdr.i.data }, 32w0x10000);
        hash(hdr.o.exclusive, HashAlgorithm.xor16, 16w0, { hdr.i.data }, 32w0x10000);
        hash(hdr.o.identity, HashAlgorithm.identity, 32w0, { hdr.i.data[31:0] }, full);
        hash(hdr.o.bounded, HashAlgorithm.identity, 16w0x500, { hdr.i.data[7:0] }, 16w10);
    }
}

#include "lib/rest.p4"
