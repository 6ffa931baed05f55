// Clones made at the end of ingress and of egress, with and without metadata, together with all else
// that can become of a packet.
#include "common.p4"

header wish_t {
    bit<1>  ingress;
    bit<1>  egress;
    bit<1>  keep;
    bit<1>  again;
    bit<1>  multicast;
    bit<1>  leave;     // dropped in ingress
    bit<1>  late;      // dropped in egress
    bit<1>  shorter;
    bit<16> session;
    bit<16> changed;
}
header seen_t {
    bit<32> kind;
    bit<32> length;
    bit<16> rid;
    bit<16> port;
    bit<16> from;
    bit<8>  kept;
    bit<8>  other;
}
struct headers_t { ethernet_t ethernet; wish_t wish; seen_t seen; }
struct meta_t {
    @field_list(1) bit<8> kept;
    @field_list(2) bit<8> other;
    bit<8> parsed;
}

PARSER {
    state start {
        meta.parsed = 7;
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: wish; default: accept; }
    }
    state wish { p.extract(hdr.wish); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.wish.isValid()) {
            sm.egress_spec = 4;
            meta.kept = 1;
            meta.other = meta.other + 0x10;
            bit<32> session = (bit<32>) (hdr.wish.session & 3);
            if (hdr.wish.ingress == 1) {
                if (hdr.wish.keep == 1) {
                    clone_preserving_field_list(CloneType.I2E, session, 1);
                } else {
                    clone(CloneType.I2E, session);
                }
            }
            // The clone keeps the last value, and has nothing of what is changed here.
            meta.kept = 2;
            hdr.wish.changed = hdr.wish.changed + 1;
            if (hdr.wish.multicast == 1) { sm.mcast_grp = 1; }
            if (hdr.wish.leave == 1) { mark_to_drop(sm); }
            if (hdr.wish.again == 1 && sm.instance_type == 0) { resubmit_preserving_field_list(2); }
        } else { mark_to_drop(sm); }
    }
}
EGRESS {
    apply {
        if (!IS_MARKER && hdr.wish.isValid()) {
            if (hdr.seen.isValid()) { meta.parsed = meta.parsed + 1; }
            hdr.seen.setValid();
            hdr.seen.kind = sm.instance_type;
            hdr.seen.length = sm.packet_length;
            hdr.seen.rid = sm.egress_rid;
            hdr.seen.port = (bit<16>) sm.egress_port;
            hdr.seen.from = (bit<16>) sm.ingress_port;
            hdr.seen.kept = meta.kept;
            hdr.seen.other = meta.other + meta.parsed;
            if (hdr.wish.egress == 1 && sm.instance_type != 2) {
                clone_preserving_field_list(CloneType.E2E, (bit<32>) (hdr.wish.session & 3), 2);
                hdr.wish.changed = hdr.wish.changed + 0x100;
            }
            if (hdr.wish.shorter == 1) { truncate(40); }
            if (hdr.wish.late == 1 && sm.instance_type != 1) { mark_to_drop(sm); }
        }
    }
}
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.wish); p.emit(hdr.seen); } }
MAIN
