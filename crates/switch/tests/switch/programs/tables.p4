// A table of each match kind; what hits says so in the packet.
#include <core.p4>
#include <v1model.p4>

header key_t {
    bit<8>  which;    // which table is asked
    bit<8>  answer;
    bit<32> a;
    bit<16> b;
    bit<96> filler;   // an Ethernet frame has 14 bytes at least
}

struct headers_t {
    key_t key;
}

struct metadata_t { }

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.key);
        transition accept;
    }
}

control TestVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TestIngress(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard) {
    register<bit<20>>(16) last;
    counter(8, CounterType.packets_and_bytes) seen;
    direct_counter(CounterType.packets_and_bytes) exact_hits;
    direct_counter(CounterType.packets_and_bytes) ternary_hits;

    action answer(bit<8> value) {
        hdr.key.answer = value;
    }

    action pair(bit<9> unused, bit<8> value) {
        hdr.key.answer = value + (bit<8>)(unused & 1);
    }

    action reserve() {
        hdr.key.answer = 1;
    }

    action miss() {
        hdr.key.answer = 2;
    }

    table exact_table {
        key = { hdr.key.a: exact; hdr.key.b: exact; }
        actions = { answer; pair; NoAction; @tableonly reserve; @defaultonly miss; }
        default_action = NoAction();
        counters = exact_hits;
        size = 4;
    }

    table lpm_table {
        key = { hdr.key.a: lpm; }
        actions = { answer; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    table ternary_table {
        key = { hdr.key.a: ternary; hdr.key.b: exact; }
        actions = { answer; NoAction; }
        default_action = NoAction();
        counters = ternary_hits;
        size = 64;
    }

    table range_table {
        key = { hdr.key.b: range; }
        actions = { answer; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    table optional_table {
        key = { hdr.key.b: optional; }
        actions = { answer; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    table const_table {
        key = { hdr.key.b: exact; }
        actions = { answer; NoAction; }
        const default_action = NoAction();
        const entries = {
            7: answer(77);
        }
    }

    apply {
        seen.count((bit<32>)hdr.key.which);
        last.write((bit<32>)hdr.key.which, (bit<20>)hdr.key.b);
        if (hdr.key.which == 0) {
            exact_table.apply();
        } else if (hdr.key.which == 1) {
            lpm_table.apply();
        } else if (hdr.key.which == 2) {
            ternary_table.apply();
        } else if (hdr.key.which == 3) {
            range_table.apply();
        } else if (hdr.key.which == 4) {
            optional_table.apply();
        } else {
            const_table.apply();
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
        packet.emit(hdr.key);
    }
}

V1Switch(TestParser(), TestVerify(), TestIngress(), TestEgress(), TestUpdate(), TestDeparser()) main;
