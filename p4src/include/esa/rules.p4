// What becomes of a packet in ESA, a line a rule: part of the ingress control of both architectures.

    // Stays here.
    action absorb(value_access_t value_access, outcome_t outcome) {
        meta.value_access = value_access;
        meta.outcome = outcome;
    }

    // Its values are in; another pass frees the aggregator.
    action complete() {
        meta.value_access = value_access_t.ADD;
        meta.pass = pass_t.COMPLETE;
        meta.again = 1;
    }

    // Leaves with the sum of all that meet here, as a fresh packet of its task's priority or as the
    // result.
    action carry(value_access_t value_access) {
        meta.value_access = value_access;
        meta.outcome = outcome_t.COMPLETED;
        meta.forward = ~top;
        meta.result = top;
        hdr.aggregation.bitmap = meta.upward;
        hdr.aggregation.rack = 0;
        hdr.aggregation.priority = meta.raised;
    }

    // Leaves with a sum that is not whole.
    action flush(value_access_t value_access) {
        meta.value_access = value_access;
        meta.outcome = outcome_t.FLUSHED;
        meta.forward = 1;
        hdr.aggregation.bitmap = meta.held | hdr.aggregation.bitmap;
        hdr.aggregation.collided = 1;
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

    // Packet swapping (§6): the packet's contribution is in the aggregator, and the packet is the
    // partial sum of the task that was there. Its own mark stays in the aggregator, too.
    action evict() {
        meta.value_access = value_access_t.SWAP;
        meta.outcome = outcome_t.PREEMPTED;
        hdr.aggregation.epoch = meta.held_epoch;
        hdr.aggregation.sequence = meta.held_sequence;
        hdr.aggregation.bitmap = meta.held;
        hdr.aggregation.priority = 0;
        hdr.aggregation.collided = 1;
    }

    action distribute() {
        meta.outcome = outcome_t.DISTRIBUTED;
        SEND_TO_GROUP(meta.group)
    }

    // A reminder goes back to the agent with the sum …
    action fetch() {
        meta.value_access = value_access_t.FETCH;
        meta.outcome = outcome_t.REMINDED;
        hdr.aggregation.kind = kind_t.GRADIENT;
        hdr.aggregation.resend = 1;
        hdr.aggregation.bitmap = meta.held;
        meta.forward = 1;
    }

    // … or without.
    action deny() {
        meta.outcome = outcome_t.ABSENT;
        hdr.aggregation.kind = kind_t.ABSENT;
        meta.forward = 1;
    }

    // ESA, rule by rule.
    table rules {
        key = {
            meta.access:          exact;
            meta.holder:          exact;
            hdr.aggregation.kind: exact;
            meta.overlap:         ternary;
            meta.last:            ternary;
            meta.stronger:        ternary;
        }
        actions = { absorb; complete; carry; flush; collide; take_over; evict; distribute; fetch; deny; NoAction; }
        const default_action = NoAction();
        const entries = {
            // A fresh gradient.                                      overlap last stronger
            (access_t.CLAIM, holder_t.NOBODY, kind_t.GRADIENT,        _,      _,   _): absorb(value_access_t.STORE, outcome_t.ABSORBED);
            (access_t.CLAIM, holder_t.MINE,   kind_t.GRADIENT,        1,      _,   _): absorb(value_access_t.NONE, outcome_t.DUPLICATE);
            (access_t.CLAIM, holder_t.MINE,   kind_t.GRADIENT,        0,      0,   _): absorb(value_access_t.ADD, outcome_t.ADDED);
            (access_t.CLAIM, holder_t.MINE,   kind_t.GRADIENT,        0,      1,   _): complete();
            (access_t.CLAIM, holder_t.OTHER,  kind_t.GRADIENT,        _,      _,   0): collide();
            (access_t.CLAIM, holder_t.OTHER,  kind_t.GRADIENT,        _,      _,   1): take_over();

            // In the pass that takes over, the packet goes in, whoever holds the aggregator by then.
            // The task that was to be evicted: what it gained meanwhile is in the sum and the bitmap
            // that leave together. A third task, even one of higher priority: it is evicted with all
            // that it has, as it might have been a packet later. Nobody, for that task was
            // completed, fetched or swept: the packet is the first of its own. Its own task, for
            // another of its packets was faster: it joins, as it would have in its first pass, and
            // may even be the last; then a third pass follows.
            (access_t.SWAP,  holder_t.OTHER,  kind_t.GRADIENT,        _,      _,   _): evict();
            (access_t.SWAP,  holder_t.NOBODY, kind_t.GRADIENT,        _,      _,   _): absorb(value_access_t.STORE, outcome_t.ABSORBED);
            (access_t.SWAP,  holder_t.MINE,   kind_t.GRADIENT,        1,      _,   _): absorb(value_access_t.NONE, outcome_t.DUPLICATE);
            (access_t.SWAP,  holder_t.MINE,   kind_t.GRADIENT,        0,      0,   _): absorb(value_access_t.ADD, outcome_t.ADDED);
            (access_t.SWAP,  holder_t.MINE,   kind_t.GRADIENT,        0,      1,   _): complete();

            // In the pass that frees, the aggregator is most often as the packet left it. It is not
            // its task's any more: whoever freed it or took it found the sum with this packet's
            // contribution in it and sent it to the server or the agent, so the packet has done
            // its part. Late copies of packets have begun the task anew there: what they left is as
            // exact as any sum, and goes with this packet, which adds itself if it is not in it: to
            // all workers if it is whole after all, else to the server, which takes it or knows it.
            (access_t.FLUSH, holder_t.MINE,   kind_t.GRADIENT,        1,      1,   _): carry(value_access_t.FETCH);
            (access_t.FLUSH, holder_t.MINE,   kind_t.GRADIENT,        0,      1,   _): carry(value_access_t.ADD);
            (access_t.FLUSH, holder_t.MINE,   kind_t.GRADIENT,        1,      0,   _): flush(value_access_t.FETCH);
            (access_t.FLUSH, holder_t.MINE,   kind_t.GRADIENT,        0,      0,   _): flush(value_access_t.ADD);
            (access_t.FLUSH, holder_t.NOBODY, kind_t.GRADIENT,        _,      _,   _): absorb(value_access_t.NONE, outcome_t.ADDED);
            (access_t.FLUSH, holder_t.OTHER,  kind_t.GRADIENT,        _,      _,   _): absorb(value_access_t.NONE, outcome_t.ADDED);

            // A reminder.
            (access_t.FLUSH, holder_t.MINE,   kind_t.REMINDER,        _,      _,   _): fetch();
            (access_t.FLUSH, holder_t.NOBODY, kind_t.REMINDER,        _,      _,   _): deny();
            (access_t.FLUSH, holder_t.OTHER,  kind_t.REMINDER,        _,      _,   _): deny();

            // A result.
            (access_t.FREE,  holder_t.NOBODY, kind_t.PARAMETER,       _,      _,   _): distribute();
            (access_t.FREE,  holder_t.MINE,   kind_t.PARAMETER,       _,      _,   _): distribute();
            (access_t.FREE,  holder_t.OTHER,  kind_t.PARAMETER,       _,      _,   _): distribute();
        }
        RULES_SIZE
    }
