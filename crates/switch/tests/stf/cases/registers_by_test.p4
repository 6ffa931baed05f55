// Registers that the test reads, writes and resets.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> index; bit<16> value; }
struct headers_t { h_t h; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<bit<16>>(8) sums;
    apply {
        sm.egress_spec = 1;
        bit<16> sum;
        sums.read(sum, (bit<32>)hdr.h.index);
        sum = sum + hdr.h.value;
        sums.write((bit<32>)hdr.h.index, sum);
        hdr.h.value = sum;
    }
}

#include "lib/rest.p4"
