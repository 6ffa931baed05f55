// What the packets of an aggregator's round said besides their values: that they met congestion, and
// that they had values too large for the round's scale. Either is true of the sum if it is true of
// any contribution, so it is kept as the sums are, with "or" in the place of "plus".
#ifndef FLAGS_P4
#define FLAGS_P4

#include "../metadata.p4"

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

    // What the packet does to its round's aggregator, as far as the rounds tell.
    apply {
        if (meta.access == access_t.FREE) {
            if (meta.found_round == meta.round) {
                put();
            }
        } else if (meta.access == access_t.CLAIM) {
            if (meta.pass == pass_t.TAKE_OVER && meta.held != 0) {
                put();
            } else if (meta.found_round != meta.round) {
                recall();
            } else if (meta.pass == pass_t.FIRST) {
                if (meta.held != meta.left) {
                    add();
                } else {
                    read();
                }
            }
        }
    }
}

#endif
