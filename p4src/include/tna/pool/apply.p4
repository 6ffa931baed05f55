// The end of the ingress control of ATP and ESA: the order in which their blocks and tables apply.
//
// A program defines, as macros, in its main file, atp/rules.p4 or esa/addresses.p4:
//
//   AFTER_MEMBERSHIP   statements: its block that applies to packets with an aggregation header
//   BEFORE_INTENTS     statements: what its block after the bitmap needs of the packet
//   AFTER_INTENTS      statements: what its rules need of the membership
//   AFTER_BITMAP       statements: its block that applies when the bitmap is known
//   NOT_JOINED         statements: the holder, if the aggregator was neither the packet's own nor free
//   BEFORE_MARKS       statements: what its rules need of the block after the bitmap
//   AFTER_MARKS        statements: what its rules need of the marks
//   MARKED             a condition: a packet of the task met congestion
//   READDRESS          statements: new addresses for packets that are counted
//   PUBLISH            a branch `else if (…) { … }`: a packet that has become the result

// In a table of its own, as what is worked out in one stage is compared in the next, and a condition works
// nothing out.
action unite() {
    meta.together = meta.held | hdr.aggregation.bitmap;
}

table union {
    actions = { unite; }
    const default_action = unite();
    size = 1;
}

action drop() {
    for_deparser.drop_ctl = 1;
}

action join_marks() {
    meta.marked = meta.marked | meta.old_marks;
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
    hdr.bridge.flooded = 0;
    hdr.bridge.port = meta.port;

    screening.apply(hdr, from_parser, meta);
    limits.apply(hdr, meta);
    if (hdr.aggregation.isValid()) {
        membership.apply(hdr, meta);
        AFTER_MEMBERSHIP
    }
    if (hdr.aggregation.congested == 1 || hdr.ipv4.ecn == ECN_CONGESTION_EXPERIENCED) {
        meta.marked = 1;
    }
    BEFORE_INTENTS

    if (meta.ours == 1 && meta.member == 0) {
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

    AFTER_INTENTS
    contributions.apply(hdr.aggregation.bitmap, hdr.aggregation.index, meta);
    AFTER_BITMAP
    marks.apply(hdr.aggregation.index, meta);
    values.apply(hdr, meta);

    // In the terms of the rules.
    if (meta.joined == 0) {
        NOT_JOINED
    } else if (meta.held != 0) {
        meta.holder = holder_t.MINE;
    }
    if (meta.common != 0) {
        meta.overlap = 1;
    }
    union.apply();
    if (meta.together == meta.members) {
        meta.last = 1;
    }
    BEFORE_MARKS
    join_marks();
    AFTER_MARKS
    rules.apply();

    // A packet that comes again is counted then.
    outcomes.apply(meta);
    if (meta.again == 1) {
        ask_again();
    }

    READDRESS

    if (meta.access == access_t.SWEEP) {
        if (meta.joined == 1) {
            hdr.aggregation.bitmap = hdr.aggregation.bitmap + 1;
        }
        if (hdr.aggregation.index == POOL - 1) {
            for_tm.ucast_egress_port = CPU_PORT;
        } else {
            for_tm.ucast_egress_port = RECIRCULATION_PORT;
        }
        step();
    } else if (meta.chosen == 1) {
        for_tm.ucast_egress_port = meta.way;
    }
    PUBLISH
    else if (meta.forward == 1) {
        // A packet that needs no aggregator here passes unchanged.
        if (meta.access != access_t.NONE && MARKED) {
            hdr.aggregation.congested = 1;
        }
        forwarding.apply(hdr, for_deparser, for_tm);
    } else if (meta.outcome != outcome_t.DISTRIBUTED && meta.again == 0) {
        drop();
    }
}
