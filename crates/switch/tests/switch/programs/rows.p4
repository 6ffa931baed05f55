// Adds to a row of registers that the packet names, once per pass.
#include <core.p4>
#include <v1model.p4>

header row_t {
    bit<8>  op;       // what to do, see ingress
    bit<8>  left;     // passes that are still to come
    bit<16> to;       // port or group
    bit<32> row;
    bit<32> sum;      // of the row, after this packet's last pass
}

struct headers_t {
    row_t row;
}

struct metadata_t {
    @field_list(1)
    bit<8>  left;
    @field_list(1)
    bit<8>  again;
    bit<8>  color;
}

parser RowParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.row);
        transition accept;
    }
}

control RowVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control RowIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard) {
    register<bit<32>>(1024) sums;
    counter(8, CounterType.packets_and_bytes) passes;
    direct_counter(CounterType.packets) hits;
    bit<32> sum;

    action count() {
        hits.count();
    }

    table ops {
        key = { hdr.row.op: exact; }
        actions = { count; NoAction; }
        counters = hits;
        default_action = NoAction();
    }

    direct_meter<bit<8>>(MeterType.packets) pace;

    action measure() {
        pace.read(meta.color);
    }

    table paced {
        key = { hdr.row.op: exact; }
        actions = { measure; NoAction; }
        meters = pace;
        default_action = NoAction();
    }

    apply {
        sums.read(sum, hdr.row.row);
        sum = sum + 1;
        sums.write(hdr.row.row, sum);
        hdr.row.sum = sum;
        passes.count((bit<32>)hdr.row.op);
        ops.apply();
        paced.apply();
        if (hdr.row.op == 1) {
            standard.mcast_grp = hdr.row.to;
        } else {
            standard.egress_spec = hdr.row.to[8:0];
        }
        if (hdr.row.op == 2) {
            // Resubmit `left` times, at the same row.
            if (standard.instance_type == 0) {
                meta.left = hdr.row.left;
            }
            if (meta.left != 0) {
                meta.left = meta.left - 1;
                resubmit_preserving_field_list(1);
            }
        }
        // Above the rate of its operation.
        if (hdr.row.op == 4 || meta.color == 2) {
            mark_to_drop(standard);
        }
    }
}

control RowEgress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard) {
    apply {
        if (hdr.row.op == 3 && hdr.row.left != 0) {
            // Recirculate `left` times, each time at a row of the next core.
            hdr.row.left = hdr.row.left - 1;
            hdr.row.row = (hdr.row.row + 64) & 1023;
            meta.again = meta.again + 1;
            recirculate_preserving_field_list(1);
        }
    }
}

control RowUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control RowDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.row);
    }
}

V1Switch(RowParser(), RowVerify(), RowIngress(), RowEgress(), RowUpdate(), RowDeparser()) main;
