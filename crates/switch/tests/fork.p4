// Where the way of a packet is not determined: a selector, a table that the control plane fills, and copies.
#include <core.p4>
#include <v1model.p4>

header tag_t {
    bit<8>  tag;
    bit<8>  second;
    bit<16> rid;
}
struct headers_t { tag_t tag; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.tag);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Inbound(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action_selector(HashAlgorithm.crc16, 32w16, 32w16) spread;

    action send(bit<9> to) { standard.egress_spec = to; }
    action to_port(bit<9> to) { standard.egress_spec = to; }
    action both() {
        clone(CloneType.I2E, 5);
        standard.mcast_grp = 3;
    }
    action drop() { mark_to_drop(standard); }

    table paths {
        key = {
            hdr.tag.tag: exact;
            hdr.tag.second: selector;
        }
        actions = { send; }
        implementation = spread;
    }
    table plain {
        key = { hdr.tag.tag: exact; }
        actions = { to_port; both; drop; }
        default_action = drop();
    }
    table fixed {
        key = { hdr.tag.tag: exact; }
        actions = { NoAction; }
        const entries = { 9: NoAction(); }
    }

    apply {
        if (hdr.tag.tag == 1) {
            paths.apply();
            if (hdr.tag.second == 9) {
                plain.apply();
            }
        } else {
            plain.apply();
        }
        fixed.apply();
    }
}

control Outbound(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.egress_rid != 0) {
            hdr.tag.rid = standard.egress_rid;
        }
        if (hdr.tag.second == 0xee) {
            clone(CloneType.E2E, 6);
            mark_to_drop(standard);
        }
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control Emit(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.tag); } }

V1Switch(Parse(), Verify(), Inbound(), Outbound(), Compute(), Emit()) main;
