// Headers that are not valid: what is written to them is lost, what is emitted of them is nothing, and
// equal they are only to each other. Assignment of a header copies its validity.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> v; }
struct headers_t { h_t op; h_t a; h_t b; h_t flags; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.op);
        transition select(hdr.op.v) {
            0x01 &&& 0x01: with_a;
            default: accept;
        }
    }
    state with_a {
        packet.extract(hdr.a);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action mark(bit<8> value) {
        hdr.flags.v = hdr.flags.v | value;
    }
    table valid {
        key = { hdr.a.isValid(): exact; hdr.b.isValid(): ternary; }
        actions = { mark; NoAction; }
        default_action = NoAction;
    }
    apply {
        sm.egress_spec = 1;
        if (hdr.op.v[1:1] == 1) {
            // Lost if the header is not valid.
            hdr.a.v = 0x77;
        }
        if (hdr.op.v[2:2] == 1) {
            hdr.b = hdr.a;
        }
        if (hdr.op.v[3:3] == 1) {
            hdr.a.setInvalid();
        }
        hdr.flags.setValid();
        hdr.flags.v = hdr.a == hdr.b ? 8w1 : 0;
        valid.apply();
    }
}

#include "lib/rest.p4"
