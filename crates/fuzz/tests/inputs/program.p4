// A table of each match kind, and one of each other thing that a control plane changes.

#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8>  key;
    bit<8>  index;
    bit<16> flow;
    bit<32> a;
    bit<8>  res;
}

struct headers_t { h_t h; }

struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    counter(8, CounterType.packets_and_bytes) seen;
    direct_counter(CounterType.packets_and_bytes) hits;
    meter(4, MeterType.packets) all;
    direct_meter<bit<8>>(MeterType.packets) each;
    register<bit<16>>(8) sums;
    action_profile(16) shared;
    action_selector(HashAlgorithm.identity, 32w16, 32w16) spread;

    action set(bit<8> v) { hdr.h.res = hdr.h.res + v; }
    action to(bit<9> port) { sm.egress_spec = port; }
    action group(bit<16> id) { sm.mcast_grp = id; }
    action none() {}

    table t {
        key = { hdr.h.key: exact; hdr.h.flow: exact; }
        actions = { set; to; group; none; }
        default_action = none;
        counters = hits;
        size = 16;
    }
    table longest {
        key = { hdr.h.a: lpm; }
        actions = { set; to; none; }
        default_action = none;
        size = 16;
    }
    table ternary_keys {
        key = { hdr.h.a: ternary; hdr.h.flow: range; hdr.h.key: optional; }
        actions = { set; to; none; }
        default_action = none;
        size = 16;
    }
    table metered {
        key = { hdr.h.index: exact; }
        actions = { to; none; }
        default_action = none;
        meters = each;
        size = 16;
    }
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
        bit<16> sum;
        sm.egress_spec = 1;
        seen.count((bit<32>)hdr.h.index);
        all.execute_meter((bit<32>)hdr.h.index, hdr.h.res);
        sums.read(sum, (bit<32>)hdr.h.index);
        sums.write((bit<32>)hdr.h.index, sum + hdr.h.flow);
        t.apply();
        longest.apply();
        ternary_keys.apply();
        metered.apply();
        each.read(hdr.h.res);
        plain.apply();
        hashed.apply();
        if (hdr.h.key == 0xC0) {
            clone(CloneType.I2E, (bit<32>)hdr.h.flow);
        }
    }
}

control EgressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        if (hdr.h.key == 0xC1 && hdr.h.index > 0) {
            hdr.h.index = hdr.h.index - 1;
            recirculate_preserving_field_list(0);
        }
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.h);
    }
}

V1Switch(Parse(), Verify(), IngressImpl(), EgressImpl(), Update(), Deparse()) main;
