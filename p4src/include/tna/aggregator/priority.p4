// How important the task in an aggregator is, and whether a packet of another task may evict it
// (ESA §5.2). PREEMPTION chooses the rule; the paper's figure 11 compares them:
//
//   0  the packet must have the higher priority; if it has not, that of the aggregator is lowered
//   1  always
//   2  a coin decides
//
// A stateful ALU cannot shift, so a cell has the priority that it was given last, and above that how
// often others have asked for the aggregator since; later stages lower the priority, and compare. Whoever
// asks and is stronger counts as well, but takes the aggregator over in the next pass, which begins
// anew. Beside it is the sequence of the holder, for the packet that evicts it.
//
// A later stage can add action data to a priority, but it cannot subtract them. So with logarithmic
// priorities, where half is some levels less, the cell has the complement of the priority.
#ifndef PRIORITY_P4
#define PRIORITY_P4

struct rank_t {
    bit<32>    rank;     // priority or its complement, and above its eight bits how often it was challenged
    sequence_t sequence;
}

control Priorities(in sequence_t sequence, in priority_t priority, in index_t index,
                   inout metadata_t meta) {
    Register<rank_t, index_t>(POOL, { 0, 0 }) ranks;

    RegisterAction<rank_t, index_t, bit<32>>(ranks) renew_rank = {
        void apply(inout rank_t cell, out bit<32> old) {
            old = cell.sequence;
            cell.rank = meta.priority;
            cell.sequence = sequence;
        }
    };

    RegisterAction<rank_t, index_t, bit<32>>(ranks) challenge_rank = {
        void apply(inout rank_t cell, out bit<32> old) {
            old = cell.rank;
            cell.rank = cell.rank + 256;
        }
    };

    // The aggregator is as important as the packet of its task that came last.
    action renew() {
        meta.held_sequence = renew_rank.execute(index);
    }

    // A holder that is not evicted has cost the other task something: it is worth half from now on,
    // so that nobody holds an aggregator for long while others want it.
    action challenge() {
        meta.challenge = challenge_rank.execute(index);
    }

    table access {
        key = {
            meta.access: exact;
            meta.joined: exact;
        }
        actions = { renew; challenge; NoAction; }
        const default_action = NoAction();
        const entries = {
            (access_t.CLAIM, 1): renew();
            (access_t.CLAIM, 0): challenge();
            (access_t.SWAP,  1): renew();
            (access_t.SWAP,  0): renew();
        }
        size = 4;
    }

#if PREEMPTION == 0
#if LINEAR_PRIORITIES == 0
    action gone() {
        meta.rank = 255;
    }

    action lower(priority_t levels) {
        meta.rank = meta.challenge[7:0] |+| levels;
    }

#define CHALLENGED(n) n: lower(n * LEVELS_PER_DOUBLING);

    table halvings {
        key = { meta.challenge[31:8]: ternary @name("challenges"); }
        actions = { lower; gone; }
        const default_action = gone();
        const entries = {
            FOR_EACH_OF_31(CHALLENGED)
            CHALLENGED(31) CHALLENGED(32) CHALLENGED(33) CHALLENGED(34) CHALLENGED(35) CHALLENGED(36)
            CHALLENGED(37) CHALLENGED(38) CHALLENGED(39) CHALLENGED(40) CHALLENGED(41) CHALLENGED(42)
        }
        size = 43;
    }
#else
    action gone() {
        meta.rank = 0;
    }

    action halve_0() {
        meta.rank = meta.challenge[7:0];
    }

    action halve_1() {
        meta.rank = 1w0 ++ meta.challenge[7:1];
    }

    action halve_2() {
        meta.rank = 2w0 ++ meta.challenge[7:2];
    }

    action halve_3() {
        meta.rank = 3w0 ++ meta.challenge[7:3];
    }

    action halve_4() {
        meta.rank = 4w0 ++ meta.challenge[7:4];
    }

    action halve_5() {
        meta.rank = 5w0 ++ meta.challenge[7:5];
    }

    action halve_6() {
        meta.rank = 6w0 ++ meta.challenge[7:6];
    }

    action halve_7() {
        meta.rank = 7w0 ++ meta.challenge[7:7];
    }

    table halvings {
        key = { meta.challenge[31:8]: ternary @name("challenges"); }
        actions = { halve_0; halve_1; halve_2; halve_3; halve_4; halve_5; halve_6; halve_7; gone; }
        const default_action = gone();
        const entries = {
            0: halve_0();
            1: halve_1();
            2: halve_2();
            3: halve_3();
            4: halve_4();
            5: halve_5();
            6: halve_6();
            7: halve_7();
        }
        size = 8;
    }
#endif

    action exceed() {
#if LINEAR_PRIORITIES == 0
        meta.excess = meta.rank |-| meta.complement;
#else
        meta.excess = priority |-| meta.rank;
#endif
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
        access.apply();
#if PREEMPTION == 0
        halvings.apply();
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
