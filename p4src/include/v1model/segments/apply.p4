// The end of the ingress control of P4INC and SwitchML: the order in which their blocks and tables apply.
//
// A program defines, as macros, in its main file or its rules.p4:
//
//   PROTOCOL         its protocol_t
//   EXAMINE          statements: the bits that only its own table of intents looks at
//   ELSEWHERE        a branch `else if (…) { … }`, or nothing: the job is not local
//   CHOOSES          statements: its block that chooses one of several circuits
//   AFTER_ROUNDS     statements: its block that applies when the aggregator's round is known
//   AFTER_VALUES     statements: its block that applies to the packet's new values
//   TURNS_BACK       a condition: the packet returns to its sender
//   SPEAKS           a condition: the packet has the flags of a sum
//   KEPT_BACK        a condition: the packet goes nowhere, if it is not to be forwarded

action drop() {
    mark_to_drop(standard);
}

apply {
    screening.apply(hdr, standard, PROTOCOL, meta);
    limits.apply(hdr, meta);
    CHOOSES
    if (meta.ours == 1) {
        membership.apply(hdr, meta);
    }
    if (meta.ours == 1 || meta.access == access_t.SWEEP) {
        services.apply(hdr, meta);
    }
    if (meta.ours == 1) {
        if (hdr.aggregation.kind == kind_t.GRADIENT && hdr.aggregation.values == 0) {
            meta.bare = 1;
        }
        if (meta.member == 0 || meta.served == 0) {
            meta.outcome = outcome_t.REJECTED;
        } else if (meta.color == RED) {
            meta.outcome = outcome_t.EXCEEDED;
        } else if (meta.transit == 1) {
            meta.outcome = outcome_t.BYPASSED;
            meta.forward = 1;
        } else {
            if (hdr.aggregation.sequence != NO_ROUND) {
                numbered = 1;
            }
            // Only a power of two has no bit in common with its predecessor.
            if (hdr.aggregation.bitmap == meta.unit && meta.unit != 0
                && (meta.unit & (meta.unit - 1)) == 0) {
                own = 1;
            }
            EXAMINE
            if (meta.group != 0 && meta.members == meta.everyone) {
                meta.local = 1;
            }
            ELSEWHERE
            if (meta.bare == 1) {
                owners.apply(hdr, meta);
            }
            intents.apply();
            if (meta.access == access_t.CLAIM && meta.bare == 1
                && (meta.local == 0 || meta.giver == 0 || meta.owner == 1)) {
                meta.access = access_t.NONE;
                meta.outcome = outcome_t.MALFORMED;
            }
        }
        // Only the switch that adds may put the zeros in.
        if (meta.bare == 1 && meta.forward == 1) {
            meta.forward = 0;
            meta.outcome = outcome_t.MALFORMED;
        }
    } else if (meta.access == access_t.SWEEP && meta.inside == 0) {
        // A sweep goes through the segment that is the job's, and no further.
        meta.access = access_t.NONE;
        meta.outcome = meta.segment == 1 ? outcome_t.OUTSIDE : outcome_t.REJECTED;
    } else if (meta.forward == 1 && meta.color == RED) {
        meta.forward = 0;
        meta.outcome = outcome_t.EXCEEDED;
    }

    if (meta.access != access_t.NONE) {
        if (hdr.ipv4.ecn == ECN_CONGESTION_EXPERIENCED || hdr.aggregation.congested == 1) {
            meta.mark = 1;
        }
        meta.overflow = hdr.aggregation.overflow;
        if (meta.bare == 1) {
            fill.apply(hdr);
        }
        rounds.apply(hdr.aggregation.sequence, hdr.aggregation.index, meta);
        AFTER_ROUNDS
        rules.apply();
        flags.apply(hdr.aggregation.index, meta);
        values.apply(hdr, meta);
        AFTER_VALUES
    }
    outcomes.apply(meta);

    if (TURNS_BACK) {
        turn_back.apply(hdr);
    }
    // A packet that needs no aggregator here passes unchanged.
    if (SPEAKS) {
        hdr.aggregation.congested = meta.mark;
        hdr.aggregation.overflow = meta.overflow;
    }

    if (meta.access == access_t.SWEEP) {
        if (meta.held != 0) {
            hdr.aggregation.bitmap = hdr.aggregation.bitmap + 1;
        }
        hdr.aggregation.index = hdr.aggregation.index + 1;
        standard.egress_spec = CPU_PORT;
    } else if (meta.result == 1) {
        announce.apply(hdr);
        standard.mcast_grp = meta.group;
    } else if (meta.forward == 1 && meta.chosen == 1 && !(TURNS_BACK)) {
        standard.egress_spec = meta.way;
    } else if (meta.forward == 1) {
        forwarding.apply(hdr, standard);
    } else if (KEPT_BACK) {
        drop();
    }
}
