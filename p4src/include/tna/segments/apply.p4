// The end of the ingress control of P4INC and SwitchML: the order in which their blocks and tables apply.
//
// A program defines, as macros, in its main file or its rules.p4:
//
//   ELSEWHERE      a branch `else if (…) { … }`, or nothing: the job is not local
//   CHOOSES        statements: its block that chooses one of several circuits
//   UNSUITED       a condition: a contribution that is not to be added here …
//   UNTOUCHED      … and statements: what becomes of it
//   AFTER_ROUNDS   statements: its block that applies when the aggregator's round is known
//   TAKES_FLAGS    a condition: the packet takes the aggregator's values along, and so its flags
//   TURNS_BACK     a condition: the packet returns to its sender
//   SPEAKS         a condition: the packet has the flags of a sum
//   KEPT_BACK      a condition: the packet goes nowhere, if it is not to be forwarded

// Each of the following in a table of its own: what is worked out in one stage is compared in the
// next, and a condition works nothing out.

action measure_room() {
    meta.room = meta.places + meta.before;
}

table rooms {
    actions = { measure_room; }
    const default_action = measure_room();
    size = 1;
}

action take_lead() {
    meta.ahead = meta.round |-| meta.found_round;
}

table leads {
    actions = { take_lead; }
    const default_action = take_lead();
    size = 1;
}

action look_here() {
    meta.left_here = meta.left & meta.members;
}

table remainders {
    actions = { look_here; }
    const default_action = look_here();
    size = 1;
}

action drop() {
    for_deparser.drop_ctl = 1;
}

action join_flags() {
    meta.flags = meta.marked | meta.spilled;
}

action add_flags() {
    meta.flags = meta.flags | meta.old_flags;
}

// The values are the aggregator's alone; the way of the packet that takes them is its own.
action take_flags() {
    meta.flags = meta.marked | meta.old_flags;
}

action say(bit<1> congested, bit<1> overflow) {
    hdr.aggregation.congested = congested;
    hdr.aggregation.overflow = overflow;
}

// What the packet says of the sum that it has. An asynchronous error is always marked.
table statements {
    key = {
        meta.flags: exact;
        meta.mark:  exact;
    }
    actions = { say; NoAction; }
    const default_action = NoAction();
    const entries = {
        (0, 0): say(0, 0);
        (1, 0): say(0, 1);
        (2, 0): say(1, 0);
        (3, 0): say(1, 1);
        (0, 1): say(1, 0);
        (1, 1): say(1, 1);
        (2, 1): say(1, 0);
        (3, 1): say(1, 1);
    }
    size = 8;
}

action ask_again() {
    for_deparser.resubmit_type = AGAIN;
    hdr.passed.setValid();
    hdr.passed.empty = 0;
    hdr.passed.pass = meta.pass;
    hdr.passed.color = meta.color;
    hdr.passed.unused = 0;
}

action step() {
    hdr.aggregation.index = hdr.aggregation.index + 1;
}

apply {
    // For the egress.
    hdr.bridge.setValid();
    hdr.bridge.unused = 0;
    hdr.bridge.shortened = 0;
    hdr.bridge.flooded = 0;
    hdr.bridge.port = meta.port;
    hdr.bridge.audience = 0;

    screening.apply(hdr, from_parser, meta);
    limits.apply(hdr, meta);
    CHOOSES
    if (hdr.aggregation.isValid()) {
        membership.apply(hdr, meta);
        services.apply(hdr, meta);
        owners.apply(hdr, meta);
        workers.apply(hdr, meta);
    }
    if (hdr.aggregation.congested == 1 || hdr.ipv4.ecn == ECN_CONGESTION_EXPERIENCED) {
        meta.marked = 2;
    }
    if (hdr.aggregation.overflow == 1) {
        meta.spilled = 1;
    }

    rooms.apply();
    if (meta.before == 0 || meta.before[31:31] == 1) {
        meta.begun = 1;
    }
    if (meta.pass == pass_t.TAKE_OVER) {
        meta.workers = meta.everyone & ~meta.unit;
    } else {
        meta.workers = meta.unit;
    }
    if (meta.group != 0 && meta.others == meta.strangers) {
        meta.local = 1;
    }
    ELSEWHERE

    if (meta.ours == 1 && (meta.member == 0 || meta.served == 0)) {
        meta.outcome = outcome_t.REJECTED;
    } else if (meta.ours == 1 && meta.color == RED) {
        meta.outcome = outcome_t.EXCEEDED;
    } else if (meta.ours == 1 && meta.transit == 1) {
        meta.outcome = outcome_t.BYPASSED;
        meta.forward = 1;
    } else if (meta.ours == 1 || meta.sweep == 1) {
        intents.apply();
    } else {
        // What is wrong with itself is counted for no job, whatever it names.
        meta.slot = 0;
        if (meta.forward == 1 && meta.color == RED) {
            meta.forward = 0;
            meta.outcome = outcome_t.EXCEEDED;
        }
    }

    if (meta.access != access_t.NONE) {
        if (meta.begun == 0 || meta.room == 0 || meta.room[31:31] == 1) {
            meta.access = access_t.NONE;
            meta.outcome = outcome_t.OUTSIDE;
        } else if (meta.access == access_t.CLAIM && UNSUITED) {
            meta.access = access_t.NONE;
            UNTOUCHED
        } else if (meta.bare == 1 && (meta.local == 0 || meta.giver == 0 || meta.owner == 1)) {
            meta.access = access_t.NONE;
            meta.outcome = outcome_t.MALFORMED;
        } else {
            rounds.apply(hdr.aggregation.index, meta);
        }
    }
    if (meta.bare == 1) {
        fill.apply(hdr);
        // Only the switch that adds may put the zeros in.
        if (meta.forward == 1) {
            meta.forward = 0;
            meta.outcome = outcome_t.MALFORMED;
        }
    }
    join_flags();
    AFTER_ROUNDS
    flags.apply(hdr.aggregation.index, meta);
    values.apply(hdr, meta);

    // In the terms of the rules.
    leads.apply();
    remainders.apply();
    if (meta.left_here == 0) {
        meta.last = 1;
    }
    if (meta.deed == deed_t.ADD) {
        add_flags();
    } else if (TAKES_FLAGS) {
        take_flags();
    }
    if (meta.access == access_t.CLAIM || meta.access == access_t.FREE) {
        if (meta.deed == deed_t.ADD) {
            meta.turn = turn_t.JOINS;
        } else if (meta.deed == deed_t.READ) {
            meta.turn = turn_t.AGAIN;
        } else if (meta.deed == deed_t.PUT) {
            meta.turn = turn_t.STARTS;
        } else if (meta.found_round == meta.round) {
            // Another packet was faster and has started the round: this one joins it.
            meta.pass = pass_t.FIRST;
            meta.again = 1;
        } else if (meta.ahead == 0) {
            meta.turn = turn_t.LATE;
        } else if (meta.pass == pass_t.FIRST && meta.held == 0) {
            // The round before is finished: this one is to be started.
            meta.pass = pass_t.TAKE_OVER;
            meta.again = 1;
        } else {
            meta.turn = turn_t.EARLY;
        }
    }
    if (meta.again == 0) {
        rules.apply();
    }

    // A packet that comes again is counted then.
    outcomes.apply(meta);
    if (meta.again == 1) {
        ask_again();
    }

    if (TURNS_BACK) {
        turn_back.apply(hdr);
    }
    // A packet that needs no aggregator here passes unchanged.
    if (SPEAKS) {
        statements.apply();
    }

    if (meta.access == access_t.SWEEP) {
        if (meta.held != 0) {
            hdr.aggregation.bitmap = hdr.aggregation.bitmap + 1;
        }
        if (meta.room == 1) {
            for_tm.ucast_egress_port = CPU_PORT;
        } else {
            for_tm.ucast_egress_port = RECIRCULATION_PORT;
        }
        step();
    } else if (meta.result == 1) {
        announce.apply(hdr);
        hdr.bridge.audience = hdr.aggregation.audience;
        for_tm.mcast_grp_a = meta.group;
    } else if (meta.chosen == 1 && (meta.forward == 1 || meta.entering == 1) && !(TURNS_BACK)) {
        for_tm.ucast_egress_port = meta.way;
    } else if (meta.forward == 1) {
        forwarding.apply(hdr, for_deparser, for_tm);
    } else if (KEPT_BACK && meta.again == 0) {
        drop();
    }
}
