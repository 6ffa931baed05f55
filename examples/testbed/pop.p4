// Takes the tag off each packet from the other switch, and counts packets of each class.

#include "headers.p4"

#ifndef CLASSES
#define CLASSES 16
#endif

control Pop(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    counter(CLASSES, CounterType.packets) popped;

    apply {
        if (sm.ingress_port == HOST_PORT) {
            sm.egress_spec = SWITCH_PORT;
        } else if (hdr.tag.isValid() && hdr.tag.class < CLASSES) {
            popped.count((bit<32>) hdr.tag.class);
            hdr.ethernet.type = hdr.tag.type;
            hdr.tag.setInvalid();
            sm.egress_spec = HOST_PORT;
        } else {
            mark_to_drop(sm);
        }
    }
}

V1Switch(Parse(), Verify(), Pop(), Leave(), Update(), Emit()) main;
