// How important the task in an aggregator is, and whether a packet of another task may evict it
// (ESA §5.2). PREEMPTION chooses the rule; the paper's figure 11 compares them:
//
//   0  the packet must have the higher priority; if it has not, that of the aggregator is lowered
//   1  always
//   2  a coin decides
//
// A cell has the level of a priority. Levels compare as priorities do, and half a priority is always the
// same number of levels less, which a stateful ALU can subtract. A logarithmic priority is its own level.
// A linear one becomes a float: its number of digits and behind it, in seven bits, those after the first.
// A packet above the rate of preemption has the level of the lowest priority. Whoever asks for an aggregator
// lowers its level. Whoever is stronger does that, too, but takes the
// aggregator over in the next pass, which begins anew. Beside the level is the sequence of the holder,
// for the packet that evicts it.
#ifndef PRIORITY_P4
#define PRIORITY_P4

#if LINEAR_PRIORITIES == 0
#define HALF_AS_MUCH ((bit<32>)LEVELS_PER_DOUBLING)
#else
#define HALF_AS_MUCH 128
#endif

struct rank_t {
    bit<32>    level;
    sequence_t sequence;
}

control Priorities(in sequence_t sequence, in priority_t priority, in index_t index,
                   inout metadata_t meta) {
    Register<rank_t, index_t>(POOL, { 0, 0 }) ranks;

    RegisterAction<rank_t, index_t, bit<32>>(ranks) start_rank = {
        void apply(inout rank_t cell, out bit<32> old) {
            old = cell.sequence;
            cell.level = meta.level;
            cell.sequence = sequence;
        }
    };

    RegisterAction<rank_t, index_t, bit<32>>(ranks) raise_rank = {
        void apply(inout rank_t cell, out bit<32> level) {
            if (cell.level < meta.level) {
                cell.level = meta.level;
            }
            level = cell.level;
        }
    };

    RegisterAction<rank_t, index_t, bit<32>>(ranks) challenge_rank = {
        void apply(inout rank_t cell, out bit<32> level) {
            level = cell.level;
            cell.level = cell.level |-| HALF_AS_MUCH;
        }
    };

    action start() {
        meta.held_sequence = start_rank.execute(index);
    }

    // A new contribution raises a lowered priority again. It never lowers one: a gradient that is sent
    // again has the lowest priority, whatever its task has.
    action raise() {
        meta.held_level = raise_rank.execute(index);
    }

    // A holder that is not evicted has cost the other task something: it is worth half from now on,
    // so that nobody holds an aggregator for long while others want it.
    action challenge() {
        meta.held_level = challenge_rank.execute(index);
    }

    // Duplicates change nothing. The pass that frees the aggregator reads its level.
    table access {
        key = {
            meta.access: ternary;
            meta.joined: ternary;
            meta.held:   ternary;
            meta.common: ternary;
        }
        actions = { start; raise; challenge; NoAction; }
        const default_action = NoAction();
        const entries = {
            (access_t.CLAIM, 0, _, _): challenge();
            (access_t.CLAIM, 1, 0, _): start();
            (access_t.CLAIM, 1, _, 0): raise();
            (access_t.SWAP,  0, _, _): start();
            (access_t.SWAP,  1, 0, _): start();
            (access_t.SWAP,  1, _, 0): raise();
            (access_t.FLUSH, 1, _, _): raise();
        }
        size = 8;
    }

#if LINEAR_PRIORITIES == 0
#define MEASURE \
    if (meta.color == YELLOW) { \
        meta.level = (bit<32>)LOWEST; \
    } else { \
        meta.level = (bit<32>)priority; \
    }
#define RESTORE meta.raised = meta.held_level[7:0];
#else
#define MEASURE \
    if (meta.color == YELLOW) { \
        level_1(); \
    } else { \
        levels.apply(); \
    }
#define RESTORE priorities.apply();

    action level_1() {
        meta.level = 20w0 ++ 5w1 ++ 7w0;
    }

    action priority_1() {
        meta.raised = 1;
    }

    action level_8() {
        meta.level = 20w0 ++ 5w8 ++ priority[6:0];
    }

    action priority_8() {
        meta.raised = 1w1 ++ meta.held_level[6:0];
    }

    // Of n digits with m behind the first one.
#define DIGITS(n, m) \
    action level_##n() { \
        meta.level = 20w0 ++ (bit<5>)n ++ priority[m - 1:0] ++ (bit<(7 - m)>)0; \
    } \
    \
    action priority_##n() { \
        meta.raised = (bit<(8 - n)>)0 ++ 1w1 ++ meta.held_level[6:7 - m]; \
    }

    DIGITS(2, 1)
    DIGITS(3, 2)
    DIGITS(4, 3)
    DIGITS(5, 4)
    DIGITS(6, 5)
    DIGITS(7, 6)

    table levels {
        key = { priority: ternary; }
        actions = { level_1; level_2; level_3; level_4; level_5; level_6; level_7; level_8; NoAction; }
        const default_action = NoAction();
        const entries = {
            0x80 &&& 0x80: level_8();
            0x40 &&& 0xc0: level_7();
            0x20 &&& 0xe0: level_6();
            0x10 &&& 0xf0: level_5();
            0x08 &&& 0xf8: level_4();
            0x04 &&& 0xfc: level_3();
            0x02 &&& 0xfe: level_2();
            0x01 &&& 0xff: level_1();
        }
        size = 8;
    }

    table priorities {
        key = { meta.held_level[10:7]: exact @name("digits"); }
        actions = {
            priority_1; priority_2; priority_3; priority_4; priority_5; priority_6; priority_7;
            priority_8; NoAction;
        }
        const default_action = NoAction();
        const entries = {
            1: priority_1();
            2: priority_2();
            3: priority_3();
            4: priority_4();
            5: priority_5();
            6: priority_6();
            7: priority_7();
            8: priority_8();
        }
        size = 8;
    }
#endif

#if PREEMPTION == 0
    action exceed() {
        meta.excess = meta.level[LEVEL_BITS - 1:0] |-| meta.held_level[LEVEL_BITS - 1:0];
    }

    table excesses {
        actions = { exceed; }
        const default_action = exceed();
        size = 1;
    }
#elif PREEMPTION == 2
    Random<bit<1>>() coin;
#elif PREEMPTION != 1
#error "PREEMPTION must be 0 (priority), 1 (always) or 2 (coin)"
#endif

    apply {
        MEASURE
        access.apply();
        RESTORE
#if PREEMPTION == 0
        excesses.apply();
        if (meta.excess != 0) {
            meta.stronger = 1;
        }
#elif PREEMPTION == 1
        meta.stronger = 1;
#else
        meta.stronger = coin.get();
#endif
    }
}

#endif
