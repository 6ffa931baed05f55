// Names that annotations give: a test uses those of the control plane, whole or by their end.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> key; bit<8> res; }
struct headers_t { h_t h; h_t[2] s; }
struct metadata_t { bit<8> m; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.s.next);
        packet.extract(hdr.s.next);
        meta.m = hdr.h.key;
        transition accept;
    }
}

control Inner(inout headers_t hdr, inout metadata_t meta) {
    @name("put") action set(@name("value") bit<8> v) {
        hdr.h.res = hdr.h.res | v;
    }
    @name("first_table") table t {
        key = { hdr.h.key: exact @name("k"); meta.m: ternary; }
        actions = { set; }
        default_action = set(0);
    }
    @name(".top_table") table u {
        key = { hdr.s[1].key: exact; hdr.s[0].res[3:0]: exact; }
        actions = { set; }
        default_action = set(0);
    }
    apply {
        t.apply();
        u.apply();
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    Inner() one;
    apply {
        sm.egress_spec = 1;
        one.apply(hdr, meta);
        hdr.h.res = hdr.h.res << 1;
    }
}

#include "lib/rest.p4"
