// What becomes of a packet in SwitchML, a line a rule: part of the ingress control of both architectures.

    // Stays here.
    action absorb(value_access_t value_access, outcome_t outcome) {
        meta.value_access = value_access;
        meta.outcome = outcome;
    }

    // Leaves with the result, for all workers; the aggregator keeps it.
    action publish(value_access_t value_access) {
        meta.value_access = value_access;
        meta.outcome = outcome_t.COMPLETED;
        meta.result = 1;
        hdr.aggregation.kind = kind_t.PARAMETER;
        hdr.aggregation.resend = 0;
        hdr.aggregation.bitmap = meta.total;
        hdr.aggregation.rack = 0;
    }

    // Returns with the result.
    action repeat() {
        meta.value_access = value_access_t.FETCH;
        meta.outcome = outcome_t.REPEATED;
        meta.forward = 1;
        hdr.aggregation.kind = kind_t.REPLY;
        hdr.aggregation.resend = 0;
        hdr.aggregation.bitmap = meta.total;
        hdr.aggregation.rack = 0;
    }

    // SwitchML, rule by rule.
    table rules {
        key = {
            meta.access: exact;
            meta.turn:   exact;
            meta.last:   ternary;
            meta.bare:   ternary;
        }
        actions = { absorb; publish; repeat; NoAction; }
        const default_action = NoAction();
        const entries = {
            // A, B: the round before is finished; the round is under way.
            (access_t.CLAIM, turn_t.STARTS, 0, _): absorb(value_access_t.STORE, outcome_t.ABSORBED);
            (access_t.CLAIM, turn_t.STARTS, 1, _): publish(value_access_t.STORE);
            (access_t.CLAIM, turn_t.JOINS,  0, _): absorb(value_access_t.ADD, outcome_t.ADDED);
            (access_t.CLAIM, turn_t.JOINS,  1, _): publish(value_access_t.ADD);
            // C: the contribution is in already, and the result is known, or not yet. Nothing answers what
            // left out zeros.
            (access_t.CLAIM, turn_t.AGAIN,  _, 1): absorb(value_access_t.NONE, outcome_t.DUPLICATE);
            (access_t.CLAIM, turn_t.AGAIN,  1, _): repeat();
            (access_t.CLAIM, turn_t.AGAIN,  0, _): absorb(value_access_t.NONE, outcome_t.DUPLICATE);
            // D: a late packet. Somebody has sent this version's next round, for which they needed
            // the result of the other version's, for which everybody needed this one's.
            (access_t.CLAIM, turn_t.LATE,   _, _): absorb(value_access_t.NONE, outcome_t.STALE);
            // E: nobody who keeps to the protocol sends it.
            (access_t.CLAIM, turn_t.EARLY,  _, _): absorb(value_access_t.NONE, outcome_t.ASYNCHRONOUS);
        }
        RULES_SIZE
    }

    // Hooks of apply.p4: a packet with the result of its round returns to its sender; only results have
    // flags; and a packet that is neither a result nor to be forwarded is always dropped.
    #define TURNS_BACK meta.outcome == outcome_t.REPEATED
    #define SPEAKS meta.outcome == outcome_t.REPEATED || meta.outcome == outcome_t.COMPLETED
    #define KEPT_BACK true
