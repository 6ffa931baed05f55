// Action profiles: entries share what a member does. Selectors: a hash picks a member of a group.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> key; bit<16> flow; bit<8> res; }
struct headers_t { h_t h; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action set(bit<8> v) {
        hdr.h.res = hdr.h.res + v;
    }
    action none() {}
    action_profile(16) shared;
    action_selector(HashAlgorithm.identity, 32w16, 32w16) spread;
    table plain {
        key = { hdr.h.key: exact; }
        actions = { set; none; }
        default_action = none;
        implementation = shared;
    }
    table hashed {
        key = { hdr.h.key: exact; hdr.h.flow: selector; }
        actions = { set; none; }
        default_action = none;
        implementation = spread;
    }
    apply {
        sm.egress_spec = 1;
        plain.apply();
        hashed.apply();
    }
}

#include "lib/rest.p4"
