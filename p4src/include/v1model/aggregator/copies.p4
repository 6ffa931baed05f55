// The shadow copy of an aggregator: the result of the round that it finished last, for workers who
// did not get it. It outlives that round, as the aggregator may be at the next one already.
#ifndef COPIES_P4
#define COPIES_P4

#include "../../headers.p4"

// Which round the copy is of: its number plus one; 0: none.
control Copied(in sequence_t sequence, in index_t index, inout metadata_t meta) {
    register<sequence_t>(POOL) copied;
    sequence_t round = sequence + 1;
    sequence_t old = 0;

    action look() {
        copied.read(old, index);
    }

    action keep() {
        copied.write(index, round);
    }

    action sweep() {
        copied.write(index, 0);
    }

    table access {
        key = {
            meta.access: exact;
            meta.turn:   ternary;
            meta.last:   ternary;
            meta.local:  ternary;
        }
        actions = { look; keep; sweep; NoAction; }
        const default_action = NoAction();
        const entries = {
            // What the switch sums up itself …             last local
            (access_t.CLAIM, turn_t.STARTS,                 1,   1): keep();
            (access_t.CLAIM, turn_t.JOINS,                  1,   1): keep();
            (access_t.CLAIM, _,                             _,   _): look();
            // … and what a server sends.
            (access_t.FREE,  turn_t.LATE,                   _,   _): NoAction();
            (access_t.FREE,  _,                             _,   _): keep();
            (access_t.SWEEP, _,                             _,   _): sweep();
        }
    }

    apply {
        access.apply();
        if (old == round) {
            meta.kept = 1;
        }
    }
}

#define COPY_REGISTER(i) register<bit<32>>(POOL) copies##i;
#define COPY_KEEP(i) copies##i.write(index, values.v##i);
#define COPY_RECALL(i) copies##i.read(values.v##i, index);

control CopyBlock(inout values_t values, in index_t index, in copy_access_t wanted) {
    FOR_EACH_LANE(COPY_REGISTER)

    action keep() {
        FOR_EACH_LANE(COPY_KEEP)
    }

    action recall() {
        FOR_EACH_LANE(COPY_RECALL)
    }

    table access {
        key = { wanted: exact; }
        actions = { keep; recall; NoAction; }
        const default_action = NoAction();
        const entries = {
            copy_access_t.KEEP:   keep();
            copy_access_t.RECALL: recall();
        }
    }

    apply {
        access.apply();
    }
}

#define COPY_INSTANCE(n) CopyBlock() block##n;
#define COPY_APPLY(n) block##n.apply(hdr.values##n, hdr.aggregation.index, meta.copy_access);

// What the copy says: the sums and the flags that go with them.
control Copies(inout headers_t hdr, inout metadata_t meta) {
    register<bit<2>>(POOL) flags;
    bit<2> old = 0;
    FOR_EACH_BLOCK(COPY_INSTANCE)

    action keep() {
        flags.write(hdr.aggregation.index, meta.mark ++ meta.overflow);
    }

    action recall() {
        flags.read(old, hdr.aggregation.index);
        meta.mark = meta.mark | old[1:1];
        meta.overflow = old[0:0];
    }

    table access {
        key = { meta.copy_access: exact; }
        actions = { keep; recall; NoAction; }
        const default_action = NoAction();
        const entries = {
            copy_access_t.KEEP:   keep();
            copy_access_t.RECALL: recall();
        }
    }

    apply {
        access.apply();
        FOR_EACH_BLOCK(COPY_APPLY)
    }
}

#endif
