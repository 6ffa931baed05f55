// What the packets of an aggregator's round said besides their values: that they met congestion, and
// that they had values too large for the round's scale. Either is true of the sum if it is true of
// any contribution, so it is kept as the sums are, with "or" in the place of "plus".
#ifndef FLAGS_P4
#define FLAGS_P4

struct flags_t {
    bit<8> sum;  // congestion 2, overflow 1
    bit<8> copy;
}

control Flags(in index_t index, inout metadata_t meta) {
    Register<flags_t, index_t>(POOL, { 0, 0 }) flags;

    RegisterAction<flags_t, index_t, bit<8>>(flags) put_flags = {
        void apply(inout flags_t cell) {
            cell.copy = cell.sum;
            cell.sum = meta.flags;
        }
    };

    RegisterAction<flags_t, index_t, bit<8>>(flags) add_flags = {
        void apply(inout flags_t cell, out bit<8> old) {
            old = cell.sum;
            cell.sum = cell.sum | meta.flags;
        }
    };

    RegisterAction<flags_t, index_t, bit<8>>(flags) read_flags = {
        void apply(inout flags_t cell, out bit<8> old) {
            old = cell.sum;
        }
    };

    RegisterAction<flags_t, index_t, bit<8>>(flags) recall_flags = {
        void apply(inout flags_t cell, out bit<8> old) {
            old = cell.copy;
        }
    };

    action put() {
        put_flags.execute(index);
        meta.deed = deed_t.PUT;
    }

    action add() {
        meta.old_flags = add_flags.execute(index);
        meta.deed = deed_t.ADD;
    }

    action read() {
        meta.old_flags = read_flags.execute(index);
        meta.deed = deed_t.READ;
    }

    action recall() {
        meta.old_flags = recall_flags.execute(index);
        meta.deed = deed_t.OLDER;
    }

    // What the packet does to its round's aggregator: its own round, without it; with it; another.
    table joins {
        key = {
            meta.access: exact;
            meta.pass:   ternary;
        }
        actions = { put; add; NoAction; }
        const default_action = NoAction();
        const entries = {
            (access_t.FREE,  _):            put();
            (access_t.CLAIM, pass_t.FIRST): add();
        }
        size = 2;
    }

    table repeats {
        key = {
            meta.access: exact;
            meta.pass:   ternary;
        }
        actions = { put; read; NoAction; }
        const default_action = NoAction();
        const entries = {
            (access_t.FREE,  _):            put();
            (access_t.CLAIM, pass_t.FIRST): read();
        }
        size = 2;
    }

    table others {
        key = {
            meta.access: exact;
            meta.pass:   ternary;
            meta.held:   ternary;
        }
        actions = { put; recall; NoAction; }
        const default_action = NoAction();
        const entries = {
            (access_t.CLAIM, pass_t.FIRST, _): recall();
            (access_t.CLAIM, _,            0): recall();
            (access_t.CLAIM, _,            _): put();
        }
        size = 4;
    }

    apply {
        if (meta.found_round != meta.round) {
            others.apply();
        } else if (meta.held != meta.left) {
            joins.apply();
        } else {
            repeats.apply();
        }
    }
}

#endif
