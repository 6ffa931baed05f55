// Gives each packet from the host a tag with the class of its EtherType.

#include "headers.p4"

control Push(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action push(bit<16> class) {
        hdr.tag.setValid();
        hdr.tag.class = class;
        hdr.tag.type = hdr.ethernet.type;
        hdr.ethernet.type = TAGGED;
        sm.egress_spec = SWITCH_PORT;
    }

    action drop() { mark_to_drop(sm); }

    table classes {
        key = { hdr.ethernet.type: exact; }
        actions = { push; drop; }
        default_action = drop;
    }

    apply {
        if (sm.ingress_port == HOST_PORT) {
            classes.apply();
        } else {
            sm.egress_spec = HOST_PORT;
        }
    }
}

V1Switch(Parse(), Verify(), Push(), Leave(), Update(), Emit()) main;
