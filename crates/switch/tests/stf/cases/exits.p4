// `return` ends a control or an action, `exit` the whole of ingress; egress runs all the same.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> op; bit<8> trace; }
struct headers_t { h_t h; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control Inner(inout h_t h) {
    action leave() {
        h.trace = h.trace | 1;
        exit;
    }
    action maybe() {
        if (h.op == 1) {
            return;
        }
        h.trace = h.trace | 2;
    }
    table t {
        key = { h.op: exact; }
        actions = { leave; maybe; }
        const default_action = maybe();
        const entries = {
            2: leave();
        }
    }
    apply {
        t.apply();
        if (h.op == 3) {
            return;
        }
        h.trace = h.trace | 4;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    Inner() inner;
    apply {
        sm.egress_spec = 1;
        inner.apply(hdr.h);
        hdr.h.trace = hdr.h.trace | 8;
        if (hdr.h.op == 4) {
            return;
        }
        hdr.h.trace = hdr.h.trace | 0x10;
    }
}

#define OWN_EGRESS
control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        hdr.h.trace = hdr.h.trace | 0x80;
    }
}

#include "lib/rest.p4"
