// ESA: preemptive aggregators with priorities for Tofino (docs/concepts/esa.md, docs/reference/tofino.md; the paper's
// §5.2 and §6).
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
// declarations.p4 and apply.p4 in include/tna/pool/ are its common part.

// Aggregators have priorities: for the fields of the metadata.
#define PRIORITIES
#define PROTOCOL protocol_t.ESA

#include <core.p4>
#include <tna.p4>

#include "../include/tna/pool/parts.p4"
#include "../include/tna/workers.p4"
#include "../include/servers.p4"
#include "../include/groups.p4"
#include "../include/tna/aggregator/priority.p4"

control EsaIngress(inout headers_t hdr, inout metadata_t meta,
                   in ingress_intrinsic_metadata_t intrinsic,
                   in ingress_intrinsic_metadata_from_parser_t from_parser,
                   inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                   inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    #include "../include/tna/pool/declarations.p4"
    Workers() workers;
    Priorities() priorities;
    Servers() servers;

    // --- Intents: what a packet does to its aggregator, and the identity register ------------

    // Takes it, and tells whose it was: nobody's or the packet's own task's if zero.
    RegisterAction<task_t, index_t, bit<32>>(tasks) swap_task = {
        void apply(inout task_t task, out bit<32> found) {
            if (task.epoch == hdr.aggregation.epoch && task.sequence == hdr.aggregation.sequence) {
                found = 0;
            } else {
                found = task.epoch;
            }
            task.sequence = hdr.aggregation.sequence;
            task.epoch = hdr.aggregation.epoch;
        }
    };

    action touch_swap() {
        meta.access = access_t.SWAP;
        meta.whose = 0;
        meta.found = swap_task.execute(hdr.aggregation.index);
    }

    // What it brings is the result.
    action publish() {
        meta.outcome = outcome_t.COMPLETED;
        meta.result = 1;
    }

    table intents {
        key = {
            hdr.aggregation.kind:     exact;
            hdr.aggregation.resend:   ternary;
            hdr.aggregation.collided: ternary;
            hdr.aggregation.overflow: ternary;
            hdr.aggregation.bitmap:   ternary;
            meta.difference:          ternary;
            meta.foreign:             ternary;
            meta.one:                 ternary;
            hdr.aggregation.priority: ternary;
            meta.others:              ternary;
            meta.group:               ternary;
            meta.pass:                ternary;
        }
        actions = { touch_claim; touch_swap; touch_flush; touch_free; touch_sweep; pass; publish; refuse; }
        const default_action = refuse(outcome_t.MALFORMED);
        const entries = {
            // kind           resend collided overflow bitmap difference foreign one   priority others group pass
            // Nobody's, or without the priority that a fresh one and an overflowed one have.
            (kind_t.GRADIENT,  _,     _,       _,       0,     _,         _,      _,    _,       _,     _,    _):                refuse(outcome_t.MALFORMED);
            (kind_t.GRADIENT,  0,     0,       _,       _,     _,         _,      _,    0,       _,     _,    _):                refuse(outcome_t.MALFORMED);
            (kind_t.GRADIENT,  0,     _,       1,       _,     _,         _,      _,    0,       _,     _,    _):                refuse(outcome_t.MALFORMED);
            // A worker's own contribution, or the sum of a rack …
            (kind_t.GRADIENT,  0,     0,       0,       _,     0,         _,      _,    _,       0,     0,    _):                pass(outcome_t.BYPASSED);
            (kind_t.GRADIENT,  0,     0,       0,       _,     0,         _,      _,    _,       0,     _,    _):                publish();
            (kind_t.GRADIENT,  0,     0,       0,       _,     0,         _,      _,    _,       _,     _,    pass_t.FIRST):     touch_claim();
            (kind_t.GRADIENT,  0,     0,       0,       _,     0,         _,      _,    _,       _,     _,    pass_t.TAKE_OVER): touch_swap();
            (kind_t.GRADIENT,  0,     0,       0,       _,     0,         _,      _,    _,       _,     _,    pass_t.COMPLETE):  touch_flush();
            // … that has values that no switch may add.
            (kind_t.GRADIENT,  0,     _,       1,       _,     _,         0,      _,    _,       _,     _,    _):                pass(outcome_t.BYPASSED);
            // A partial sum that another switch evicted, and one that it gave to the agent. Neither
            // comes from where a single worker is. With a priority it is one that failed to preempt.
            (kind_t.GRADIENT,  0,     1,       0,       _,     0,         _,      1,    0,       _,     _,    _):                refuse(outcome_t.MALFORMED);
            (kind_t.GRADIENT,  0,     1,       0,       _,     _,         0,      _,    _,       _,     _,    _):                pass(outcome_t.BYPASSED);
            (kind_t.GRADIENT,  1,     0,       0,       _,     0,         _,      1,    _,       _,     _,    _):                refuse(outcome_t.MALFORMED);
            (kind_t.GRADIENT,  1,     0,       0,       _,     _,         0,      _,    _,       _,     _,    _):                pass(outcome_t.ANSWERED);
            // Results of another switch, or of the parameter server.
            (kind_t.PARAMETER, 0,     _,       _,       _,     _,         _,      _,    _,       _,     _,    _):                touch_free();
            // Reminders for us, reminders for others, and what those answer.
            (kind_t.REMINDER,  _,     _,       _,       0,     _,         _,      _,    _,       _,     _,    _):                refuse(outcome_t.MALFORMED);
            (kind_t.REMINDER,  0,     0,       0,       _,     0,         _,      _,    _,       _,     _,    _):                touch_flush();
            (kind_t.REMINDER,  0,     0,       0,       _,     _,         _,      _,    _,       _,     _,    _):                pass(outcome_t.BYPASSED);
            (kind_t.ABSENT,    _,     _,       _,       0,     _,         _,      _,    _,       _,     _,    _):                refuse(outcome_t.MALFORMED);
            (kind_t.ABSENT,    0,     0,       0,       _,     _,         _,      _,    _,       _,     _,    _):                pass(outcome_t.ANSWERED);
            (kind_t.SWEEP,     _,     _,       _,       _,     _,         _,      _,    _,       _,     _,    _):                touch_sweep();
        }
        size = 32;
    }

    // --- Rules: what happens to the packet ---------------------------------------------------

    bit<1> top = 0; // the packet's workers are all of the job, and this is the switch that says so

    #include "../include/esa/rules.p4"

    // --- Hooks: what the common part of the ingress leaves to the program --------------------

    #include "../include/esa/addresses.p4"

    #define AFTER_MEMBERSHIP workers.apply(hdr, meta);
    #define BEFORE_INTENTS
    #define AFTER_INTENTS \
        if (meta.group != 0) { \
            top = 1; \
        }
    #define AFTER_BITMAP \
        priorities.apply(hdr.aggregation.sequence, hdr.aggregation.priority, \
                         hdr.aggregation.index, meta);
    #define NOT_JOINED meta.holder = holder_t.OTHER;
    #define BEFORE_MARKS meta.held_epoch = meta.found;
    #define AFTER_MARKS meta.mark = meta.marked[0:0];
    #define MARKED meta.mark == 1

    #include "../include/tna/pool/apply.p4"
}

// Kind and flags, which one action may write, in containers of their own.
@pa_container_size("ingress", "hdr.aggregation.kind", 8)
@pa_container_size("ingress", "hdr.aggregation.resend", 8)
@pa_auto_init_metadata
Pipeline(IngressParser(), EsaIngress(), IngressDeparser(),
         EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
