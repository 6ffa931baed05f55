// ESA: preemptive aggregators with priorities (docs/concepts/esa.md; the paper's §5.2 and §6).
//
// A fresh gradient takes its aggregator if that is free and joins it if it is its own task's. If it
// is another task's, the one with the higher priority gets it: the packet swaps itself with what the
// aggregator holds and carries the old task's partial sum to that task's parameter server, or goes
// to its own server and leaves the aggregator with half its priority. The last contribution frees
// the aggregator and leaves with the sum, at the top of the job's tree as the result for all workers.
//
// Passes. Each register is read and written once a pass, and identity comes first: it is written
// before the packet learns the aggregator's priority or that it makes the bitmap full. So a packet
// that is to take an aggregator over, or to free the one that it has completed, is resubmitted and
// does that in a pass of its own. Other packets may come between; why that is no harm is said at the
// rules of these passes.
//
// The ingress control is ATP's too, except for the tables of intents and rules and for the hooks below:
// declarations.p4 and apply.p4 in include/v1model/pool/ are its common part.

// Aggregators have priorities: for the fields of the metadata.
#define PRIORITIES

#include <core.p4>
#include <v1model.p4>

#include "../include/v1model/pool/parts.p4"
#include "../include/servers.p4"
#include "../include/groups.p4"
#include "../include/v1model/aggregator/priority.p4"

control EsaIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard) {
    #include "../include/v1model/pool/declarations.p4"
    Priorities() priorities;
    Servers() servers;

    // --- Intents: what a packet does to its aggregator ---------------------------------------

    bit<1> empty = 0;    // bitmap names nobody
    bit<1> whole = 0;    // bitmap is exactly what a fresh packet, or a reminder for us, must hold
    bit<1> within = 0;   // bitmap is not empty and holds nobody that is not below this port
    bit<1> single = 0;   // one worker is below this port: no other switch has held its values
    bit<1> ranked = 0;   // the packet has a priority
    bit<1> alone = 0;    // the packet's workers are all that meet here: nothing to add
    bit<1> top = 0;      // they are all workers of the job, and this is the switch that says so

    // What it brings is the result.
    action publish() {
        meta.access = access_t.NONE;
        meta.outcome = outcome_t.COMPLETED;
        meta.result = 1;
    }

    table intents {
        key = {
            hdr.aggregation.kind:     exact;
            hdr.aggregation.resend:   ternary;
            hdr.aggregation.collided: ternary;
            hdr.aggregation.overflow: ternary;
            empty:                    ternary;
            whole:                    ternary;
            within:                   ternary;
            single:                   ternary;
            ranked:                   ternary;
            alone:                    ternary;
            top:                      ternary;
            meta.pass:                ternary;
        }
        actions = { touch; pass; publish; refuse; }
        const default_action = refuse();
        const entries = {
            // kind           resend collided overflow empty whole within single ranked alone top pass
            // A worker's own contribution, or the sum of a rack …
            (kind_t.GRADIENT,  0,     0,       0,       0,    1,    _,     _,     1,     0,    _,  pass_t.FIRST):     touch(access_t.CLAIM);
            (kind_t.GRADIENT,  0,     0,       0,       0,    1,    _,     _,     1,     0,    _,  pass_t.TAKE_OVER): touch(access_t.SWAP);
            (kind_t.GRADIENT,  0,     0,       0,       0,    1,    _,     _,     1,     0,    _,  pass_t.COMPLETE):  touch(access_t.FLUSH);
            (kind_t.GRADIENT,  0,     0,       0,       0,    1,    _,     _,     1,     1,    0,  _):                pass(outcome_t.BYPASSED);
            (kind_t.GRADIENT,  0,     0,       0,       0,    1,    _,     _,     1,     1,    1,  _):                publish();
            // … that failed to preempt, or has values that no switch may add.
            (kind_t.GRADIENT,  0,     1,       0,       _,    _,    1,     _,     1,     _,    _,  _):                pass(outcome_t.BYPASSED);
            (kind_t.GRADIENT,  0,     _,       1,       _,    _,    1,     _,     1,     _,    _,  _):                pass(outcome_t.BYPASSED);
            // A partial sum that another switch evicted, and one that it gave to the agent. Neither
            // comes from where a single worker is.
            (kind_t.GRADIENT,  0,     1,       0,       _,    _,    1,     0,     0,     _,    _,  _):                pass(outcome_t.BYPASSED);
            (kind_t.GRADIENT,  1,     0,       0,       _,    _,    1,     0,     _,     _,    _,  _):                pass(outcome_t.ANSWERED);
            // Results of another switch, or of the parameter server.
            (kind_t.PARAMETER, 0,     _,       _,       _,    _,    _,     _,     _,     _,    _,  _):                touch(access_t.FREE);
            // Reminders for us, reminders for others, and what those answer.
            (kind_t.REMINDER,  0,     0,       0,       0,    1,    _,     _,     _,     _,    _,  _):                touch(access_t.FLUSH);
            (kind_t.REMINDER,  0,     0,       0,       0,    0,    _,     _,     _,     _,    _,  _):                pass(outcome_t.BYPASSED);
            (kind_t.ABSENT,    0,     0,       0,       0,    _,    _,     _,     _,     _,    _,  _):                pass(outcome_t.ANSWERED);
        }
    }

    // --- Rules: what happens to the packet ---------------------------------------------------

    #include "../include/esa/rules.p4"

    // --- Hooks: what the common part of the ingress leaves to the program --------------------

    #include "../include/esa/addresses.p4"

    #define PROTOCOL protocol_t.ESA

    // Only a power of two has no bit in common with its predecessor.
    #define EXAMINE \
        if (hdr.aggregation.bitmap == 0) { \
            empty = 1; \
        } \
        if (hdr.aggregation.bitmap == meta.unit) { \
            whole = 1; \
        } \
        if (empty == 0 && (hdr.aggregation.bitmap & ~meta.unit) == 0) { \
            within = 1; \
        } \
        if ((meta.unit & (meta.unit - 1)) == 0) { \
            single = 1; \
        } \
        if (hdr.aggregation.priority != 0) { \
            ranked = 1; \
        } \
        if (meta.unit == meta.members) { \
            alone = 1; \
        } \
        if (meta.group != 0) { \
            top = 1; \
        }

    #define AFTER_BITMAP \
        priorities.apply(hdr.aggregation.priority, hdr.aggregation.index, meta);

    #include "../include/v1model/pool/apply.p4"
}

V1Switch(PacketParser(), VerifyChecksums(), EsaIngress(), AggregationEgress(), UpdateChecksums(),
         PacketDeparser()) main;
