// A packet says which copies and messages are to be made of it, and comes back with what egress was
// told.
#include <core.p4>
#include <v1model.p4>

header wish_t {
    bit<8> op;       // what to do, see below
    bit<8> session;
    bit<8> seen;     // what ingress changed
    bit<8> priority;
}
header told_t {
    bit<32> instance;
    bit<32> length;
    bit<16> rid;
    bit<16> ingress_port;
    bit<8>  kept;
    bit<8>  lost;
    bit<16> time;
}
struct headers_t { wish_t wish; told_t told; }
struct metadata_t {
    @field_list(1) bit<8> kept;
    @field_list(2) bit<16> time;
    bit<8> lost;
}
struct news_t { bit<8> op; bit<8> seen; }

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard) {
    state start { packet.extract(hdr.wish); transition accept; }
}
control TestVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }

control TestIngress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 2;
        standard.priority = (bit<3>)hdr.wish.priority;
        meta.kept = 1;
        meta.lost = 1;
        bit<32> session = (bit<32>)hdr.wish.session;
        if (hdr.wish.op == 1) { clone(CloneType.I2E, session); }
        if (hdr.wish.op == 2) { clone_preserving_field_list(CloneType.I2E, session, 1); }
        if (hdr.wish.op == 3) { clone3(CloneType.I2E, session, { meta.kept, standard.ingress_port }); }
        if (hdr.wish.op == 4) { clone(CloneType.I2E, session); mark_to_drop(standard); }
        if (hdr.wish.op == 5 && standard.instance_type == 0) {
            clone(CloneType.I2E, session);
            meta.time = (bit<16>)standard.ingress_global_timestamp;
            digest<news_t>(0, { hdr.wish.op, hdr.wish.seen });
            resubmit_preserving_field_list(2);
        }
        if (hdr.wish.op == 6 && standard.instance_type == 0) {
            // Older programs name what they keep.
            resubmit<tuple<bit<8>>>({ meta.kept });
            mark_to_drop(standard);
        }
        if (hdr.wish.op == 7) { truncate(6); }
        if (hdr.wish.op == 8) { truncate(6); standard.mcast_grp = 1; }
        meta.time = meta.time + (bit<16>)standard.ingress_global_timestamp;
        meta.kept = meta.kept + 1;
        hdr.wish.seen = 0xee;
    }
}

control TestEgress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard) {
    apply {
        hdr.told.setValid();
        hdr.told.instance = standard.instance_type;
        hdr.told.length = standard.packet_length;
        hdr.told.rid = standard.egress_rid;
        hdr.told.ingress_port = (bit<16>)standard.ingress_port;
        hdr.told.kept = meta.kept;
        hdr.told.lost = meta.lost;
        hdr.told.time = meta.time;
        bit<32> session = (bit<32>)hdr.wish.session;
        if (hdr.wish.op == 11 && standard.instance_type == 0) {
            clone_preserving_field_list(CloneType.E2E, session, 1);
            meta.kept = 0x77;
            hdr.wish.seen = 0x99;
        }
        if (hdr.wish.op == 12 && standard.instance_type == 0) {
            clone(CloneType.E2E, session);
            mark_to_drop(standard);
        }
        if (hdr.wish.op == 13 && standard.instance_type == 0) {
            hdr.wish.op = 0;
            truncate(4);
            recirculate_preserving_field_list(1);
        }
        if (hdr.wish.op == 14) { mark_to_drop(standard); recirculate_preserving_field_list(1); }
        if (hdr.wish.op == 15) { mark_to_drop(standard); clone(CloneType.E2E, session); }
    }
}
control TestUpdate(inout headers_t hdr, inout metadata_t meta) { apply { } }
control TestDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.wish); packet.emit(hdr.told); }
}
V1Switch(TestParser(), TestVerify(), TestIngress(), TestEgress(), TestUpdate(), TestDeparser()) main;
