// What the packets of an aggregator's round said besides their values: that they met congestion, and
// that they had values too large for the round's scale. Either is true of the sum if it is true of
// any contribution, so it is kept as the sums are, with "or" in the place of "plus".
#ifndef FLAGS_P4
#define FLAGS_P4

control Flags(in index_t index, inout metadata_t meta) {
    register<bit<2>>(POOL) flags;
    bit<2> old = 0;

    action store() {
        flags.write(index, meta.mark ++ meta.overflow);
    }

    action add() {
        flags.read(old, index);
        meta.mark = meta.mark | old[1:1];
        meta.overflow = meta.overflow | old[0:0];
        flags.write(index, meta.mark ++ meta.overflow);
    }

    // The values are the aggregator's alone; the way of the packet that takes them is its own.
    action fetch() {
        flags.read(old, index);
        meta.mark = meta.mark | old[1:1];
        meta.overflow = old[0:0];
    }

    table access {
        key = { meta.value_access: exact; }
        actions = { store; add; fetch; NoAction; }
        const default_action = NoAction();
        const entries = {
            value_access_t.STORE: store();
            value_access_t.ADD:   add();
            value_access_t.FETCH: fetch();
        }
    }

    apply {
        access.apply();
    }
}

#endif
