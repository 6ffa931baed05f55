// What becomes of a packet in P4INC, a line a rule: part of the ingress control of both architectures.

    // Stays here.
    action absorb(value_access_t value_access, outcome_t outcome) {
        meta.value_access = value_access;
        meta.outcome = outcome;
    }

    // Leaves with the result, for all workers, and leaves a copy of it here.
    action publish(value_access_t value_access) {
        meta.value_access = value_access;
        meta.copy_access = copy_access_t.KEEP;
        meta.outcome = outcome_t.COMPLETED;
        meta.result = 1;
        hdr.aggregation.kind = kind_t.PARAMETER;
        hdr.aggregation.resend = 0;
        hdr.aggregation.bitmap = meta.total;
        hdr.aggregation.rack = 0;
    }

    // Leaves with the sum of all workers below this switch, for the parameter server: for the first
    // time, or once more.
    action carry(value_access_t value_access, outcome_t outcome, bit<1> resend) {
        meta.value_access = value_access;
        meta.outcome = outcome;
        meta.forward = 1;
        hdr.aggregation.resend = resend;
        hdr.aggregation.bitmap = meta.upward;
        hdr.aggregation.rack = 0;
    }

    // Returns with the result.
    action repeat() {
        meta.copy_access = copy_access_t.RECALL;
        meta.outcome = outcome_t.REPEATED;
        meta.forward = 1;
        hdr.aggregation.kind = kind_t.REPLY;
        hdr.aggregation.resend = 0;
        hdr.aggregation.bitmap = meta.total;
        hdr.aggregation.rack = 0;
    }

    // Returns as it came, for its sender to slow down: an asynchronous error.
    action reject_early() {
        meta.mark = 1;
        meta.outcome = outcome_t.ASYNCHRONOUS;
        meta.forward = 1;
        hdr.aggregation.kind = kind_t.ASYNCHRONOUS;
    }

    action proceed(copy_access_t copy_access, outcome_t outcome) {
        meta.copy_access = copy_access;
        meta.outcome = outcome;
        meta.forward = 1;
    }

    // P4INC, rule by rule.
    table rules {
        key = {
            meta.access:            exact;
            hdr.aggregation.kind:   exact;
            meta.turn:              ternary;
            meta.last:              ternary;
            meta.kept:              ternary;
            meta.local:             ternary;
            hdr.aggregation.resend: ternary;
            meta.bare:              ternary;
        }
        actions = { absorb; publish; carry; repeat; reject_early; proceed; distribute; NoAction; }
        const default_action = NoAction();
        const entries = {
            // A: the round before is finished.                 last kept local resend bare
            (access_t.CLAIM, kind_t.GRADIENT,  turn_t.STARTS,   0,   _,   _,    _,    _): absorb(value_access_t.STORE, outcome_t.ABSORBED);
            (access_t.CLAIM, kind_t.GRADIENT,  turn_t.STARTS,   1,   _,   1,    _,    _): publish(value_access_t.STORE);
            (access_t.CLAIM, kind_t.GRADIENT,  turn_t.STARTS,   1,   _,   0,    _,    _): carry(value_access_t.STORE, outcome_t.COMPLETED, 0);

            // B: the round is under way. In a job over several units it stays so after the last one
            // here, as others are missing; so nobody takes the aggregator, and what it holds can be
            // sent again, until the server has answered.
            (access_t.CLAIM, kind_t.GRADIENT,  turn_t.JOINS,    0,   _,   _,    _,    _): absorb(value_access_t.ADD, outcome_t.ADDED);
            (access_t.CLAIM, kind_t.GRADIENT,  turn_t.JOINS,    1,   _,   1,    _,    _): publish(value_access_t.ADD);
            (access_t.CLAIM, kind_t.GRADIENT,  turn_t.JOINS,    1,   _,   0,    _,    _): carry(value_access_t.ADD, outcome_t.COMPLETED, 0);

            // C: the contribution is in already, but its sender wants an answer. There is one if the
            // round is finished; else the sum, or the server's answer to it, may have been lost, if
            // all of the sum is here; else others are still to come. Nothing answers what left out zeros.
            (access_t.CLAIM, kind_t.GRADIENT,  turn_t.AGAIN,    _,   _,   _,    _,    1): absorb(value_access_t.NONE, outcome_t.DUPLICATE);
            (access_t.CLAIM, kind_t.GRADIENT,  turn_t.AGAIN,    _,   1,   _,    _,    _): repeat();
            (access_t.CLAIM, kind_t.GRADIENT,  turn_t.AGAIN,    1,   0,   0,    _,    _): carry(value_access_t.FETCH, outcome_t.RESENT, 1);
            (access_t.CLAIM, kind_t.GRADIENT,  turn_t.AGAIN,    _,   0,   _,    _,    _): absorb(value_access_t.NONE, outcome_t.DUPLICATE);

            // D: the aggregator has left the round behind. Most often the next one is under way, and
            // the copy still holds this one's result. If it does not, every worker of a local job has
            // that, and this is a late packet. Elsewhere windows may be larger than segments: then
            // the result, or a sum that this one contribution is missing from, is at the server.
            (access_t.CLAIM, kind_t.GRADIENT,  turn_t.LATE,     _,   _,   _,    _,    1): absorb(value_access_t.NONE, outcome_t.STALE);
            (access_t.CLAIM, kind_t.GRADIENT,  turn_t.LATE,     _,   1,   _,    _,    _): repeat();
            (access_t.CLAIM, kind_t.GRADIENT,  turn_t.LATE,     _,   0,   0,    1,    _): proceed(copy_access_t.NONE, outcome_t.RESENT);
            (access_t.CLAIM, kind_t.GRADIENT,  turn_t.LATE,     _,   0,   _,    _,    _): absorb(value_access_t.NONE, outcome_t.STALE);

            // E: the round before is not finished.
            (access_t.CLAIM, kind_t.GRADIENT,  turn_t.EARLY,    _,   _,   _,    _,    1): absorb(value_access_t.NONE, outcome_t.ASYNCHRONOUS);
            (access_t.CLAIM, kind_t.GRADIENT,  turn_t.EARLY,    _,   _,   _,    _,    _): reject_early();

            // A result of the server is one of the round that the aggregator is at, or of one that it
            // has not seen, as nobody here had to add anything; else it is a late copy.
            (access_t.FREE,  kind_t.PARAMETER, turn_t.LATE,     _,   _,   _,    _,    _): distribute(copy_access_t.NONE);
            (access_t.FREE,  kind_t.PARAMETER, _,               _,   _,   _,    _,    _): distribute(copy_access_t.KEEP);
            (access_t.FREE,  kind_t.REPLY,     turn_t.LATE,     _,   _,   _,    _,    _): proceed(copy_access_t.NONE, outcome_t.REPLIED);
            (access_t.FREE,  kind_t.REPLY,     _,               _,   _,   _,    _,    _): proceed(copy_access_t.KEEP, outcome_t.REPLIED);
        }
        RULES_SIZE
    }

    // Hooks of apply.p4: a packet returns to its sender if it has the result of its round, or came too early;
    // a packet that used an aggregator has the flags of what it carries; and a result of the server for all
    // workers, which is neither this switch's result nor to be forwarded, is not dropped.
    #define TURNS_BACK meta.outcome == outcome_t.REPEATED || meta.outcome == outcome_t.ASYNCHRONOUS
    #define SPEAKS meta.access != access_t.NONE && (meta.forward == 1 || meta.result == 1)
    #define KEPT_BACK meta.outcome != outcome_t.DISTRIBUTED
