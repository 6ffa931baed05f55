// Registers: of bits, of signed numbers, wider than a machine word; read and written beyond their end.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> op; bit<32> index; bit<72> value; }
struct headers_t { h_t h; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<bit<72>>(4) wide;
    register<bit<8>>(2) small;
    apply {
        sm.egress_spec = 1;
        if (hdr.h.op == 0) {
            wide.read(hdr.h.value, hdr.h.index);
        } else if (hdr.h.op == 1) {
            wide.write(hdr.h.index, hdr.h.value);
        } else {
            bit<8> count;
            @atomic {
                small.read(count, hdr.h.index);
                count = count + 1;
                small.write(hdr.h.index, count);
            }
            hdr.h.value = (bit<72>)count;
        }
    }
}

#include "lib/rest.p4"
