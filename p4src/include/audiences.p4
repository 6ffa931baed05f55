// Parts of tensors (P4INC, SwitchML): fragments that one worker gives to all others, and results that not all
// workers need.
//
// In a gather, workers other than the owner of a fragment contribute zeros, and leave them out. What the
// switch sends for such a packet is longer than the packet, and limits only see the packet. So it is taken
// for a first contribution in a local job whose owner is another worker: then at least one contribution to
// the result is as long. Nothing answers it: who wants a result again sends the zeros.
#ifndef AUDIENCES_P4
#define AUDIENCES_P4

#include "headers.p4"

#define OWNER(i) (ALL_BUT + 1 + i): owned(1 << i);
#define OWN(i) (ALL_BUT + 1 + i, 1 << i): own();

// Whether the owner of the fragment is another worker of the job: `meta.giver` is not empty, and
// `meta.owner` is not set. The job is that of the services' table.
control Owners(in headers_t hdr, inout metadata_t meta) {
    action owned(bitmap_t owner) {
        meta.giver = owner & meta.everyone;
    }

    table owners {
        key = { hdr.aggregation.audience: exact; }
        actions = { owned; NoAction; }
        const default_action = NoAction();
        const entries = {
            FOR_EACH_OF_31(OWNER) OWNER(31)
        }
        OWNERS_SIZE
    }

    action own() {
        meta.owner = 1;
    }

    table owns {
        key = {
            hdr.aggregation.audience: exact;
            hdr.aggregation.bitmap:   exact;
        }
        actions = { own; NoAction; }
        const default_action = NoAction();
        const entries = {
            FOR_EACH_OF_31(OWN) OWN(31)
        }
        OWNERS_SIZE
    }

    apply {
        owners.apply();
        owns.apply();
    }
}

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

// Puts the zeros in their place.
control Fill(inout headers_t hdr) {
    FOR_EACH_BLOCK(CLEARED_INSTANCE)

    @hidden
    action lengthen() {
        hdr.aggregation.values = VALUES;
        hdr.udp.datagram_length = UDP_LENGTH_FULL;
        hdr.ipv4.total_length = IPV4_BYTES + UDP_LENGTH_FULL;
    }

    apply {
        lengthen();
        FOR_EACH_BLOCK(CLEARED_APPLY)
    }
}

#endif
