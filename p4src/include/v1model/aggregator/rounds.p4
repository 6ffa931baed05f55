// Which round an aggregator is at, and whose contributions that round still waits for.
//
// Rounds of an aggregator follow each other in the order of their numbers, so a packet can tell from
// the two words, in one read-modify-write, which of the five things that can happen does: whether its
// round may take the aggregator depends on whether the one before is finished, and on nothing else.
// The upper word is the round's number plus one, as 0 and 0 is an aggregator that was never used.
#ifndef ROUNDS_P4
#define ROUNDS_P4

// There is no round of this number: plus one, it would be that of an aggregator never used.
const sequence_t NO_ROUND = 0xffffffff;

control Rounds(in sequence_t sequence, in index_t index, inout metadata_t meta) {
    register<bit<64>>(POOL) rounds;
    sequence_t round = sequence + 1;
    bit<64> old = 0;
    bitmap_t others = meta.everyone & ~meta.unit;
    bitmap_t missing = 0;

    // A contribution starts its round where the one before is finished, and is crossed off where its
    // own is. Any other changes nothing.
    action contribute() {
        rounds.read(old, index);
        rounds.write(index,
            old[63:32] == round ? round ++ (old[31:0] & ~meta.unit)
            : (old[63:32] < round && old[31:0] == 0 ? round ++ others : old));
    }

    // A result finishes its round, and whatever was before it.
    action finish() {
        rounds.read(old, index);
        rounds.write(index, old[63:32] <= round ? round ++ 32w0 : old);
    }

    action sweep() {
        rounds.read(old, index);
        rounds.write(index, 0);
    }

    table access {
        key = { meta.access: exact; }
        actions = { contribute; finish; sweep; NoAction; }
        const default_action = NoAction();
        const entries = {
            access_t.CLAIM: contribute();
            access_t.FREE:  finish();
            access_t.SWEEP: sweep();
        }
    }

    apply {
        access.apply();
        meta.held = old[31:0];
        if (old[63:32] < round) {
            if (meta.held == 0) {
                meta.turn = turn_t.STARTS;
                missing = others;
            } else {
                meta.turn = turn_t.EARLY;
                missing = meta.held;
            }
        } else if (old[63:32] == round) {
            missing = meta.held & ~meta.unit;
            if (missing != meta.held) {
                meta.turn = turn_t.JOINS;
            } else {
                meta.turn = turn_t.AGAIN;
            }
        } else {
            meta.turn = turn_t.LATE;
        }
        // Of those below this switch, nobody is missing any more.
        if ((missing & meta.members) == 0) {
            meta.last = 1;
        }
    }
}

#endif
