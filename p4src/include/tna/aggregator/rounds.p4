// Which round an aggregator is at, and whose contributions that round still waits for.
//
// Four things tell what happens: whether the packet's round is the aggregator's, whether it is a later
// one, whether anybody is missing, whether the packet's worker is. A stateful ALU compares twice. So a
// packet first joins its round, if it is the aggregator's; where the round has to be started it comes
// again and does that, if it still has to be; and where another was faster it comes once more to join.
// No pass changes anything but where it is the one that counts, so it does not matter what comes
// between two.
//
// Three registers hold the same, as a stateful ALU says one word: the round, the workers missing
// before, and the workers missing now.
#ifndef ROUNDS_P4
#define ROUNDS_P4

// There is no round of this number: plus one, it would be that of an aggregator never used.
const sequence_t NO_ROUND = 0xffffffff;

// Zeros: an aggregator that was never used.
struct round_t {
    bitmap_t   missing;
    sequence_t round;
}

control Rounds(in index_t index, inout metadata_t meta) {
    // Says the round before, and after a result the round that is finished.
    Register<round_t, index_t>(POOL, { 0, 0 }) rounds;

    RegisterAction<round_t, index_t, bit<32>>(rounds) join_rounds = {
        void apply(inout round_t cell, out bit<32> said) {
            said = cell.round;
            if (cell.round == meta.round) {
                cell.missing = cell.missing & ~meta.workers;
            }
        }
    };

    RegisterAction<round_t, index_t, bit<32>>(rounds) start_rounds = {
        void apply(inout round_t cell, out bit<32> said) {
            said = cell.round;
            if (cell.round < meta.round && cell.missing == 0) {
                cell.round = meta.round;
                cell.missing = meta.workers;
            }
        }
    };

    RegisterAction<round_t, index_t, bit<32>>(rounds) finish_rounds = {
        void apply(inout round_t cell, out bit<32> said) {
            if (cell.round <= meta.round) {
                cell.round = meta.round;
                cell.missing = 0;
            }
            said = cell.round;
        }
    };

    RegisterAction<round_t, index_t, bit<32>>(rounds) clear_rounds = {
        void apply(inout round_t cell, out bit<32> said) {
            said = cell.round;
            cell.round = 0;
            cell.missing = 0;
        }
    };

    // Says who was missing before; and whether a round was started, by its number.
    Register<round_t, index_t>(POOL, { 0, 0 }) befores;

    RegisterAction<round_t, index_t, bit<32>>(befores) join_befores = {
        void apply(inout round_t cell, out bit<32> said) {
            said = cell.missing;
            if (cell.round == meta.round) {
                cell.missing = cell.missing & ~meta.workers;
            }
        }
    };

    RegisterAction<round_t, index_t, bit<32>>(befores) start_befores = {
        void apply(inout round_t cell, out bit<32> said) {
            if (cell.round < meta.round && cell.missing == 0) {
                cell.round = meta.round;
                cell.missing = meta.workers;
                said = cell.round;
            } else {
                said = 0;
            }
        }
    };

    RegisterAction<round_t, index_t, bit<32>>(befores) finish_befores = {
        void apply(inout round_t cell, out bit<32> said) {
            said = cell.missing;
            if (cell.round <= meta.round) {
                cell.round = meta.round;
                cell.missing = 0;
            }
        }
    };

    RegisterAction<round_t, index_t, bit<32>>(befores) clear_befores = {
        void apply(inout round_t cell, out bit<32> said) {
            said = cell.missing;
            cell.round = 0;
            cell.missing = 0;
        }
    };

    // Says who is missing now.
    Register<round_t, index_t>(POOL, { 0, 0 }) afters;

    RegisterAction<round_t, index_t, bit<32>>(afters) join_afters = {
        void apply(inout round_t cell, out bit<32> said) {
            if (cell.round == meta.round) {
                cell.missing = cell.missing & ~meta.workers;
            }
            said = cell.missing;
        }
    };

    RegisterAction<round_t, index_t, bit<32>>(afters) start_afters = {
        void apply(inout round_t cell, out bit<32> said) {
            if (cell.round < meta.round && cell.missing == 0) {
                cell.round = meta.round;
                cell.missing = meta.workers;
            }
            said = cell.missing;
        }
    };

    RegisterAction<round_t, index_t, bit<32>>(afters) finish_afters = {
        void apply(inout round_t cell, out bit<32> said) {
            if (cell.round <= meta.round) {
                cell.round = meta.round;
                cell.missing = 0;
            }
            said = cell.missing;
        }
    };

    RegisterAction<round_t, index_t, bit<32>>(afters) clear_afters = {
        void apply(inout round_t cell, out bit<32> said) {
            cell.round = 0;
            cell.missing = 0;
            said = cell.missing;
        }
    };

    // A contribution is crossed off where its own round is, starts it where the one before is
    // finished, and changes nothing elsewhere. A result finishes its round, and whatever was before.
    action join_round() {
        meta.found_round = join_rounds.execute(index);
    }

    action start_round() {
        meta.found_round = start_rounds.execute(index);
    }

    action finish_round() {
        meta.found_round = finish_rounds.execute(index);
    }

    action clear_round() {
        meta.found_round = clear_rounds.execute(index);
    }

    action join_before() {
        meta.held = join_befores.execute(index);
    }

    action start_before() {
        meta.held = start_befores.execute(index);
    }

    action finish_before() {
        meta.held = finish_befores.execute(index);
    }

    action clear_before() {
        meta.held = clear_befores.execute(index);
    }

    action join_after() {
        meta.left = join_afters.execute(index);
    }

    action start_after() {
        meta.left = start_afters.execute(index);
    }

    action finish_after() {
        meta.left = finish_afters.execute(index);
    }

    action clear_after() {
        meta.left = clear_afters.execute(index);
    }

    table round {
        key = {
            meta.access: exact;
            meta.pass:   ternary;
        }
        actions = { join_round; start_round; finish_round; clear_round; NoAction; }
        const default_action = NoAction();
        const entries = {
            (access_t.CLAIM, pass_t.FIRST):     join_round();
            (access_t.CLAIM, pass_t.TAKE_OVER): start_round();
            (access_t.FREE,  _):                finish_round();
            (access_t.SWEEP, _):                clear_round();
        }
        size = 4;
    }

    table before {
        key = {
            meta.access: exact;
            meta.pass:   ternary;
        }
        actions = { join_before; start_before; finish_before; clear_before; NoAction; }
        const default_action = NoAction();
        const entries = {
            (access_t.CLAIM, pass_t.FIRST):     join_before();
            (access_t.CLAIM, pass_t.TAKE_OVER): start_before();
            (access_t.FREE,  _):                finish_before();
            (access_t.SWEEP, _):                clear_before();
        }
        size = 4;
    }

    table after {
        key = {
            meta.access: exact;
            meta.pass:   ternary;
        }
        actions = { join_after; start_after; finish_after; clear_after; NoAction; }
        const default_action = NoAction();
        const entries = {
            (access_t.CLAIM, pass_t.FIRST):     join_after();
            (access_t.CLAIM, pass_t.TAKE_OVER): start_after();
            (access_t.FREE,  _):                finish_after();
            (access_t.SWEEP, _):                clear_after();
        }
        size = 4;
    }

    apply {
        round.apply();
        before.apply();
        after.apply();
    }
}

#endif
