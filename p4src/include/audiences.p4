// Parts of tensors: fragments that one worker gives alone, and results that not all workers need (P4INC,
// SwitchML). What nobody needs is not sent.
#ifndef AUDIENCES_P4
#define AUDIENCES_P4

#include "headers.p4"

#define CLEAR_LANE(i) values.v##i = 0;
#define CLEARED_INSTANCE(n) ClearedBlock() cleared##n;
#define CLEARED_APPLY(n) cleared##n.apply(hdr.values##n);

control ClearedBlock(inout values_t values) {
    @hidden
    action clear() {
        values.setValid();
        FOR_EACH_LANE(CLEAR_LANE)
    }

    apply {
        clear();
    }
}

// A contribution without values is one of zeros.
control Fill(inout headers_t hdr) {
    FOR_EACH_BLOCK(CLEARED_INSTANCE)

    @hidden
    action lengthen() {
        hdr.aggregation.values = VALUES;
        hdr.udp.datagram_length = UDP_LENGTH_FULL;
        hdr.ipv4.total_length = IPV4_BYTES + UDP_LENGTH_FULL;
    }

    apply {
        if (hdr.aggregation.kind == kind_t.GRADIENT && hdr.aggregation.values == 0) {
            lengthen();
            FOR_EACH_BLOCK(CLEARED_APPLY)
        }
    }
}

#endif
