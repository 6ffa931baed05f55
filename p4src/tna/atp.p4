// ATP: statistical aggregation, first come, first served (docs/concepts/atp.md), for Tofino (docs/reference/tofino.md).
//
// A fresh gradient takes its aggregator if that is free, joins it if it is its own task's, and else
// goes to the parameter server as it is. The last contribution leaves with the sum. The aggregator
// stays taken until the result passes on its way from the parameter server to the workers.
//
// The ingress control is ESA's too, except for the tables of intents and rules and for the hooks below:
// declarations.p4 and apply.p4 in include/tna/pool/ are its common part.

#define PROTOCOL protocol_t.ATP

#include <core.p4>
#include <tna.p4>

#include "../include/tna/pool/parts.p4"
#include "../include/tna/aggregator/recency.p4"

control AtpIngress(inout headers_t hdr, inout metadata_t meta,
                   in ingress_intrinsic_metadata_t intrinsic,
                   in ingress_intrinsic_metadata_from_parser_t from_parser,
                   inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                   inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    #include "../include/tna/pool/declarations.p4"
    Recency() recency;

    // --- Intents: what a packet does to its aggregator, and the identity register ------------

    // Takes it, and tells whether it was the packet's own task's.
    RegisterAction<task_t, index_t, bit<32>>(tasks) seize_task = {
        void apply(inout task_t task, out bit<32> found) {
            if (task.sequence == hdr.aggregation.sequence) {
                found = task.epoch;
            } else {
                found = 0;
            }
            task.sequence = hdr.aggregation.sequence;
            task.epoch = hdr.aggregation.epoch;
        }
    };

    action touch_seize() {
        meta.access = access_t.SEIZE;
        meta.found = seize_task.execute(hdr.aggregation.index);
    }

    table intents {
        key = {
            hdr.aggregation.kind:     exact;
            hdr.aggregation.resend:   ternary;
            hdr.aggregation.collided: ternary;
            hdr.aggregation.overflow: ternary;
            meta.difference:          ternary;
            meta.foreign:             ternary;
            meta.others:              ternary;
            hdr.aggregation.bitmap:   ternary;
            meta.pass:                ternary;
        }
        actions = { touch_claim; touch_seize; touch_flush; touch_free; touch_sweep; pass; refuse; }
        const default_action = refuse(outcome_t.MALFORMED);
        const entries = {
            // kind           resend collided overflow difference foreign others bitmap pass
            (kind_t.GRADIENT,  0,     0,       0,       0,         _,      0,     _,     _):                pass(outcome_t.BYPASSED);
            (kind_t.GRADIENT,  0,     0,       0,       0,         _,      _,     _,     pass_t.FIRST):     touch_claim();
            (kind_t.GRADIENT,  0,     0,       0,       0,         _,      _,     _,     pass_t.TAKE_OVER): touch_seize();
            (kind_t.GRADIENT,  _,     _,       _,       _,         _,      _,     0,     _):                refuse(outcome_t.MALFORMED);
            (kind_t.GRADIENT,  1,     0,       0,       _,         0,      _,     _,     _):                touch_flush();
            (kind_t.GRADIENT,  _,     1,       0,       _,         0,      _,     _,     _):                pass(outcome_t.BYPASSED);
            (kind_t.GRADIENT,  _,     _,       1,       _,         0,      _,     _,     _):                pass(outcome_t.BYPASSED);
            (kind_t.PARAMETER, 0,     _,       _,       _,         _,      _,     _,     _):                touch_free();
            (kind_t.REPLY,     0,     _,       _,       _,         _,      _,     _,     _):                touch_free();
            (kind_t.QUERY,     0,     _,       _,       _,         _,      _,     _,     _):                pass(outcome_t.QUERIED);
            (kind_t.SWEEP,     _,     _,       _,       _,         _,      _,     _,     _):                touch_sweep();
        }
        size = 16;
    }

    // --- Rules: what happens to the packet ---------------------------------------------------

    #include "../include/atp/rules.p4"

    // --- Hooks: what the common part of the ingress leaves to the program --------------------

    // Each of the following in a table of its own: what is worked out in one stage is compared in the
    // next, and a condition works nothing out.

    action take_age() {
        meta.age = meta.now - meta.last_use;
    }

    table ages {
        actions = { take_age; }
        const default_action = take_age();
        size = 1;
    }

    action take_overtime() {
        meta.overtime = meta.age |-| IDLE_NS;
    }

    table overtimes {
        actions = { take_overtime; }
        const default_action = take_overtime();
        size = 1;
    }

    #define AFTER_MEMBERSHIP
    #define BEFORE_INTENTS meta.now = from_parser.global_tstamp[31:0];
    #define AFTER_INTENTS
    #define AFTER_BITMAP recency.apply(hdr.aggregation.index, meta);
    #define NOT_JOINED \
        if (meta.access == access_t.SEIZE) { \
            meta.holder = holder_t.NOBODY; \
        } else { \
            meta.holder = holder_t.OTHER; \
        }
    #define BEFORE_MARKS \
        ages.apply(); \
        overtimes.apply(); \
        if (meta.overtime != 0) { \
            meta.idle = 1; \
        }
    #define AFTER_MARKS
    #define MARKED meta.marked == 1

    #include "../include/tna/pool/apply.p4"
}

// Kind and flags, which one action may write, in containers of their own.
@pa_container_size("ingress", "hdr.aggregation.kind", 8)
@pa_container_size("ingress", "hdr.aggregation.resend", 8)
@pa_auto_init_metadata
Pipeline(IngressParser(), AtpIngress(), IngressDeparser(),
         EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
