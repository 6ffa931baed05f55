// Whose contributions an aggregator holds, in two registers that always hold the same: one tells who
// was in before, the other who of the packet's own. A stateful ALU says one thing a packet, and the
// second must be known before the values' first stage. Both are empty where the aggregator is free.
#ifndef BITMAP_P4
#define BITMAP_P4

control Contributions(in bitmap_t bitmap, in index_t index, inout metadata_t meta) {
    Register<bitmap_t, index_t>(POOL, 0) bitmaps;
    Register<bitmap_t, index_t>(POOL, 0) doubles;

    RegisterAction<bitmap_t, index_t, bitmap_t>(bitmaps) join_bitmaps = {
        void apply(inout bitmap_t cell, out bitmap_t held) {
            held = cell;
            cell = cell | bitmap;
        }
    };

    RegisterAction<bitmap_t, index_t, bitmap_t>(bitmaps) start_bitmaps = {
        void apply(inout bitmap_t cell, out bitmap_t held) {
            held = cell;
            cell = bitmap;
        }
    };

    RegisterAction<bitmap_t, index_t, bitmap_t>(bitmaps) clear_bitmaps = {
        void apply(inout bitmap_t cell, out bitmap_t held) {
            held = cell;
            cell = 0;
        }
    };

    RegisterAction<bitmap_t, index_t, bitmap_t>(doubles) join_doubles = {
        void apply(inout bitmap_t cell, out bitmap_t common) {
            common = cell & bitmap;
            cell = cell | bitmap;
        }
    };

    RegisterAction<bitmap_t, index_t, bitmap_t>(doubles) start_doubles = {
        void apply(inout bitmap_t cell) {
            cell = bitmap;
        }
    };

    RegisterAction<bitmap_t, index_t, bitmap_t>(doubles) clear_doubles = {
        void apply(inout bitmap_t cell, out bitmap_t common) {
            common = cell & bitmap;
            cell = 0;
        }
    };

    action join_held() {
        meta.held = join_bitmaps.execute(index);
    }

    action start_held() {
        meta.held = start_bitmaps.execute(index);
    }

    action clear_held() {
        meta.held = clear_bitmaps.execute(index);
    }

    action join_common() {
        meta.common = join_doubles.execute(index);
    }

    action start_common() {
        start_doubles.execute(index);
    }

    action clear_common() {
        meta.common = clear_doubles.execute(index);
    }

    // The aggregator is the packet's own by now.
    table held_ours {
        key = { meta.access: exact; }
        actions = { join_held; clear_held; NoAction; }
        const default_action = NoAction();
        const entries = {
            access_t.CLAIM: join_held();
            access_t.SEIZE: join_held();
            access_t.SWAP:  join_held();
            access_t.FLUSH: clear_held();
            access_t.FREE:  clear_held();
            access_t.SWEEP: clear_held();
        }
        size = 8;
    }

    table common_ours {
        key = { meta.access: exact; }
        actions = { join_common; clear_common; NoAction; }
        const default_action = NoAction();
        const entries = {
            access_t.CLAIM: join_common();
            access_t.SEIZE: join_common();
            access_t.SWAP:  join_common();
            access_t.FLUSH: clear_common();
            access_t.FREE:  clear_common();
            access_t.SWEEP: clear_common();
        }
        size = 8;
    }

    // It was another's.
    table held_theirs {
        key = { meta.access: exact; }
        actions = { start_held; NoAction; }
        const default_action = NoAction();
        const entries = {
            access_t.SEIZE: start_held();
            access_t.SWAP:  start_held();
        }
        size = 2;
    }

    table common_theirs {
        key = { meta.access: exact; }
        actions = { start_common; NoAction; }
        const default_action = NoAction();
        const entries = {
            access_t.SEIZE: start_common();
            access_t.SWAP:  start_common();
        }
        size = 2;
    }

    apply {
        if (meta.found == meta.whose) {
            meta.joined = 1;
            held_ours.apply();
            common_ours.apply();
        } else {
            held_theirs.apply();
            common_theirs.apply();
        }
    }
}

#endif
