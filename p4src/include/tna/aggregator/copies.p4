// The sums of an aggregator's round in the lower words, and in the upper ones the result of the round
// before, for workers who did not get it: the shadow copy of P4INC. A sum becomes the copy when the
// next round's first packet replaces it, so nothing has to be written where a round is finished but
// the server's answer, which replaces the sum of a round in the same way.
#ifndef COPIES_P4
#define COPIES_P4

#include "../../headers.p4"

// Which round the copy, or the sum that will be the copy, is the result of: its number plus one; 0:
// none.
control Copied(in index_t index, inout metadata_t meta) {
    Register<sequence_t, index_t>(POOL, 0) copied;

    RegisterAction<sequence_t, index_t, bit<1>>(copied) look_copied = {
        void apply(inout sequence_t cell, out bit<1> kept) {
            if (cell == meta.round) {
                kept = 1;
            } else {
                kept = 0;
            }
        }
    };

    RegisterAction<sequence_t, index_t, bit<1>>(copied) keep_copied = {
        void apply(inout sequence_t cell, out bit<1> kept) {
            cell = meta.round;
            kept = 1;
        }
    };

    // What goes into the copy now is the result of a round, or of none.
    RegisterAction<sequence_t, index_t, bit<1>>(copied) shift_copied = {
        void apply(inout sequence_t cell) {
            if (cell != meta.found_round) {
                cell = 0;
            }
        }
    };

    RegisterAction<sequence_t, index_t, bit<1>>(copied) clear_copied = {
        void apply(inout sequence_t cell) {
            cell = 0;
        }
    };

    action look() {
        meta.kept = look_copied.execute(index);
    }

    action keep() {
        meta.kept = keep_copied.execute(index);
    }

    action shift() {
        shift_copied.execute(index);
    }

    action clear() {
        clear_copied.execute(index);
    }

    // The aggregator is at the packet's round, which is finished by a result of the server, and in a
    // local job when nobody is missing.
    table same {
        key = {
            meta.access: exact;
            meta.local:  ternary;
            meta.left:   ternary;
        }
        actions = { look; keep; clear; NoAction; }
        const default_action = NoAction();
        const entries = {
            (access_t.FREE,  _, _): keep();
            (access_t.CLAIM, 1, 0): keep();
            (access_t.CLAIM, _, _): look();
            (access_t.SWEEP, _, _): clear();
        }
        size = 4;
    }

    // It is or was at another. Where nobody was held as missing, the round was not started.
    table other {
        key = {
            meta.access: exact;
            meta.pass:   ternary;
            meta.held:   ternary;
            meta.local:  ternary;
            meta.left:   ternary;
        }
        actions = { look; keep; shift; clear; NoAction; }
        const default_action = NoAction();
        const entries = {
            (access_t.CLAIM, pass_t.FIRST, _, _, _): look();
            (access_t.CLAIM, _,            0, _, _): look();
            (access_t.CLAIM, _,            _, 1, 0): keep();
            (access_t.CLAIM, _,            _, _, _): shift();
            (access_t.SWEEP, _,            _, _, _): clear();
        }
        size = 8;
    }

    apply {
        if (meta.found_round == meta.round) {
            same.apply();
        } else {
            other.apply();
        }
    }
}

struct version_t {
    bit<32> sum;
    bit<32> copy;
}

control Value(inout bit<32> value, in index_t index, in metadata_t meta) {
    Register<version_t, index_t>(POOL, { 0, 0 }) sums;

    RegisterAction<version_t, index_t, bit<32>>(sums) put_sum = {
        void apply(inout version_t cell) {
            cell.copy = cell.sum;
            cell.sum = value;
        }
    };

    RegisterAction<version_t, index_t, bit<32>>(sums) add_sum = {
        void apply(inout version_t cell, out bit<32> result) {
            cell.sum = cell.sum + value;
            result = cell.sum;
        }
    };

    RegisterAction<version_t, index_t, bit<32>>(sums) read_sum = {
        void apply(inout version_t cell, out bit<32> result) {
            result = cell.sum;
        }
    };

    RegisterAction<version_t, index_t, bit<32>>(sums) read_copy = {
        void apply(inout version_t cell, out bit<32> result) {
            result = cell.copy;
        }
    };

    action put() {
        put_sum.execute(index);
    }

    action add() {
        value = add_sum.execute(index);
    }

    action read() {
        value = read_sum.execute(index);
    }

    action recall() {
        value = read_copy.execute(index);
    }

    table access {
        key = {
            meta.deed: exact;
            meta.kept: exact;
        }
        actions = { put; add; read; recall; NoAction; }
        const default_action = NoAction();
        const entries = {
            (deed_t.PUT,   0): put();
            (deed_t.PUT,   1): put();
            (deed_t.ADD,   0): add();
            (deed_t.ADD,   1): add();
            (deed_t.READ,  0): read();
            (deed_t.READ,  1): read();
            (deed_t.OLDER, 1): recall();
        }
        size = 8;
    }

    apply {
        access.apply();
    }
}

#include "blocks.p4"

#endif
