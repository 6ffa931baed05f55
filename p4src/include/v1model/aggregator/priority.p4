// How important the task in an aggregator is, and whether a packet of another task may evict it
// (ESA §5.2). PREEMPTION chooses the rule; the paper's figure 11 compares them:
//
//   0  the packet must have the higher priority; if it has not, that of the aggregator is lowered
//   1  always
//   2  a coin decides
//
// Identity was read before priority, so a packet that may evict asks for another pass.
#ifndef PRIORITY_P4
#define PRIORITY_P4

// The priority of half the value (§5.4).
#if LINEAR_PRIORITIES == 0
#define HALF(priority) priority |-| LEVELS_PER_DOUBLING
#else
#define HALF(priority) priority >> 1
#endif

// Whether this packet may evict that holder.
#if PREEMPTION == 0
#define DECIDE(packet, holder) meta.stronger = packet > holder ? 1w1 : 1w0;
#elif PREEMPTION == 1
#define DECIDE(packet, holder) meta.stronger = 1;
#elif PREEMPTION == 2
#define DECIDE(packet, holder) random(meta.stronger, 0, 1);
#else
#error "PREEMPTION must be 0 (priority), 1 (always) or 2 (coin)"
#endif

control Priorities(in priority_t named, in index_t index, inout metadata_t meta) {
    register<priority_t>(POOL) priorities;
    priority_t old = 0;
    priority_t priority = 0; // of the packet: what it names, or above the rate of those the lowest

    action start() {
        priorities.write(index, priority);
    }

    // A new contribution raises a lowered priority again. It never lowers one: a gradient that is sent
    // again has the lowest priority, whatever its task has.
    action raise() {
        priorities.read(old, index);
        meta.raised = old > priority ? old : priority;
        priorities.write(index, meta.raised);
    }

    // A holder that is not evicted has cost the other task something: it is worth half from now on,
    // so that nobody holds an aggregator for long while others want it.
    action challenge() {
        priorities.read(old, index);
        DECIDE(priority, old)
        priorities.write(index, meta.stronger == 1 ? old : HALF(old));
    }

    // Duplicates change nothing. The pass that frees the aggregator reads its priority.
    table access {
        key = {
            meta.access:  exact;
            meta.holder:  exact;
            meta.overlap: ternary;
        }
        actions = { start; raise; challenge; NoAction; }
        const default_action = NoAction();
        const entries = {
            (access_t.CLAIM, holder_t.NOBODY, _): start();
            (access_t.CLAIM, holder_t.MINE,   0): raise();
            (access_t.CLAIM, holder_t.OTHER,  _): challenge();
            (access_t.SWAP,  holder_t.NOBODY, _): start();
            (access_t.SWAP,  holder_t.MINE,   0): raise();
            (access_t.SWAP,  holder_t.OTHER,  _): start();
            (access_t.FLUSH, holder_t.MINE,   _): raise();
        }
    }

    apply {
        priority = meta.color == YELLOW ? LOWEST : named;
        access.apply();
    }
}

#endif
