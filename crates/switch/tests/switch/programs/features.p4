// One of each thing that controllers write besides plain tables.
#include <core.p4>
#include <v1model.p4>

header request_t {
    bit<8>  kind;     // of what the value set knows: 1 goes to the selector's table
    bit<8>  color;
    bit<16> key;
    bit<32> seed;     // what the selector hashes
    bit<8>  answer;
    bit<88> filler;   // an Ethernet frame has 14 bytes at least
}

struct headers_t {
    request_t request;
}

struct metadata_t {
    bit<8> color;
    bit<1> special;
}

struct learned_t {
    bit<16> key;
    int<12> offset;
    bool    special;
}

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard) {
    value_set<bit<8>>(3) special;

    state start {
        packet.extract(hdr.request);
        transition select(hdr.request.kind) {
            special: mark;
            default: accept;
        }
    }

    state mark {
        meta.special = 1;
        transition accept;
    }
}

control TestVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
    action_profile(4) shared;
    @max_group_size(3)
    action_selector(HashAlgorithm.crc32, 16, 16) spread;
    meter(4, MeterType.packets) by_index;
    direct_meter<bit<8>>(MeterType.bytes) by_entry;
    direct_counter(CounterType.packets) hits;

    action tint(bit<8> color) {
        hdr.request.color = color;
    }

    action answer(bit<8> value) {
        hdr.request.answer = value;
    }

    action learn() {
        digest<learned_t>(1, { hdr.request.key, -12s5, meta.special == 1 });
    }

    table profiled {
        key = { hdr.request.key: exact; }
        actions = { answer; NoAction; }
        implementation = shared;
        size = 16;
    }

    table selected {
        key = { hdr.request.key: exact; hdr.request.seed: selector; }
        actions = { answer; @groupaction tint; NoAction; }
        implementation = spread;
        size = 16;
    }

    table metered {
        key = { hdr.request.key: exact; }
        actions = { NoAction; }
        default_action = NoAction();
        meters = by_entry;
        counters = hits;
        size = 16;
    }

    table aging {
        key = { hdr.request.key: ternary; }
        actions = { answer; learn; NoAction; }
        default_action = NoAction();
        support_timeout = true;
        size = 16;
    }

    table initial {
        key = { hdr.request.key: exact; }
        actions = { answer; NoAction; }
        default_action = NoAction();
        entries = {
            1: answer(11);
            2: answer(12);
        }
        size = 16;
    }

    apply {
        if (hdr.request.kind == 0) {
            profiled.apply();
        } else if (hdr.request.kind == 1) {
            selected.apply();
        } else if (hdr.request.kind == 2) {
            by_index.execute_meter((bit<32>)hdr.request.key, meta.color);
            hdr.request.color = meta.color;
        } else if (hdr.request.kind == 3) {
            metered.apply();
            by_entry.read(meta.color);
            hdr.request.color = meta.color;
        } else if (hdr.request.kind == 4) {
            aging.apply();
        } else if (hdr.request.kind == 5) {
            initial.apply();
        }
        if (meta.special == 1) {
            hdr.request.answer = 0xff;
        }
        standard.egress_spec = 1;
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard) {
    apply { }
}

control TestUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.request);
    }
}

V1Switch(TestParser(), TestVerify(), TestIngress(), TestEgress(), TestUpdate(), TestDeparser()) main;
