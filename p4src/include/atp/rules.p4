// What becomes of a packet in ATP, a line a rule: part of the ingress control of both architectures.

    // Stays here.
    action absorb(value_access_t value_access, outcome_t outcome) {
        meta.value_access = value_access;
        meta.outcome = outcome;
    }

    // Leaves with the sum of all that meet here.
    action complete() {
        meta.value_access = value_access_t.ADD;
        meta.outcome = outcome_t.COMPLETED;
        meta.forward = 1;
        hdr.aggregation.bitmap = meta.upward;
        hdr.aggregation.rack = 0;
    }

    // Leaves with the aggregator's sum and the bitmap of all that it holds.
    action flush(value_access_t value_access) {
        meta.value_access = value_access;
        meta.outcome = outcome_t.FLUSHED;
        meta.forward = 1;
        hdr.aggregation.bitmap = meta.held | hdr.aggregation.bitmap;
    }

    action collide() {
        meta.outcome = outcome_t.COLLIDED;
        meta.forward = 1;
        hdr.aggregation.collided = 1;
    }

    action take_over() {
        meta.pass = pass_t.TAKE_OVER;
        meta.again = 1;
    }

    action proceed(outcome_t outcome) {
        meta.outcome = outcome;
        meta.forward = 1;
    }

    action distribute() {
        meta.outcome = outcome_t.DISTRIBUTED;
        SEND_TO_GROUP(meta.group)
    }

    // ATP, rule by rule.
    table rules {
        key = {
            meta.access:          exact;
            meta.holder:          exact;
            hdr.aggregation.kind: exact;
            meta.overlap:         ternary;
            meta.last:            ternary;
            meta.idle:            ternary;
        }
        actions = { absorb; complete; flush; collide; take_over; proceed; distribute; NoAction; }
        const default_action = NoAction();
        const entries = {
            // A fresh gradient …                                     overlap last idle
            (access_t.CLAIM, holder_t.NOBODY, kind_t.GRADIENT,        _,      _,   _): absorb(value_access_t.STORE, outcome_t.ABSORBED);
            (access_t.CLAIM, holder_t.MINE,   kind_t.GRADIENT,        1,      _,   _): absorb(value_access_t.NONE, outcome_t.DUPLICATE);
            (access_t.CLAIM, holder_t.MINE,   kind_t.GRADIENT,        0,      0,   _): absorb(value_access_t.ADD, outcome_t.ADDED);
            (access_t.CLAIM, holder_t.MINE,   kind_t.GRADIENT,        0,      1,   _): complete();
            (access_t.CLAIM, holder_t.OTHER,  kind_t.GRADIENT,        _,      _,   0): collide();
            (access_t.CLAIM, holder_t.OTHER,  kind_t.GRADIENT,        _,      _,   1): take_over();
            // … in its second pass.
            (access_t.SEIZE, holder_t.NOBODY, kind_t.GRADIENT,        _,      _,   _): absorb(value_access_t.STORE, outcome_t.SEIZED);
            (access_t.SEIZE, holder_t.MINE,   kind_t.GRADIENT,        1,      _,   _): absorb(value_access_t.NONE, outcome_t.DUPLICATE);
            (access_t.SEIZE, holder_t.MINE,   kind_t.GRADIENT,        0,      0,   _): absorb(value_access_t.ADD, outcome_t.ADDED);
            (access_t.SEIZE, holder_t.MINE,   kind_t.GRADIENT,        0,      1,   _): complete();
            // A gradient sent again.
            (access_t.FLUSH, holder_t.MINE,   kind_t.GRADIENT,        0,      _,   _): flush(value_access_t.ADD);
            (access_t.FLUSH, holder_t.MINE,   kind_t.GRADIENT,        1,      _,   _): flush(value_access_t.FETCH);
            (access_t.FLUSH, holder_t.NOBODY, kind_t.GRADIENT,        _,      _,   _): proceed(outcome_t.RESENT);
            (access_t.FLUSH, holder_t.OTHER,  kind_t.GRADIENT,        _,      _,   _): proceed(outcome_t.RESENT);
            // A result.
            (access_t.FREE,  holder_t.NOBODY, kind_t.PARAMETER,       _,      _,   _): distribute();
            (access_t.FREE,  holder_t.MINE,   kind_t.PARAMETER,       _,      _,   _): distribute();
            (access_t.FREE,  holder_t.OTHER,  kind_t.PARAMETER,       _,      _,   _): distribute();
            (access_t.FREE,  holder_t.NOBODY, kind_t.REPLY,           _,      _,   _): proceed(outcome_t.REPLIED);
            (access_t.FREE,  holder_t.MINE,   kind_t.REPLY,           _,      _,   _): proceed(outcome_t.REPLIED);
            (access_t.FREE,  holder_t.OTHER,  kind_t.REPLY,           _,      _,   _): proceed(outcome_t.REPLIED);
        }
        RULES_SIZE
    }

    // Hooks of apply.p4: all packets keep their addresses, and the server gives the results.
    #define READDRESS
    #define PUBLISH
