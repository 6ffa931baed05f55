// Controls within controls, with constructor parameters: two instances with state of their own.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> which; bit<8> value; }
struct headers_t { h_t h; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control Accumulate(inout bit<8> value)(bit<8> step, bool negative) {
    register<bit<8>>(1) sum;
    apply {
        bit<8> now;
        sum.read(now, 0);
        now = negative ? now - step : now + step;
        sum.write(0, now);
        value = value + now;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    Accumulate(3, false) up;
    Accumulate(step = 1, negative = true) down;
    apply {
        sm.egress_spec = 1;
        if (hdr.h.which == 0) {
            up.apply(hdr.h.value);
        } else {
            down.apply(hdr.h.value);
        }
    }
}

#include "lib/rest.p4"
