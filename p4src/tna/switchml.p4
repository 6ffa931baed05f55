// SwitchML: static pools of aggregators, two for each slot, for Tofino (docs/concepts/switchml.md,
// docs/reference/tofino.md), the baseline of the papers' comparisons.
//
// The rounds of a slot take turns in its two aggregators, its versions. A worker goes on to a slot's
// next round when it has the result of the last one, so while a round is under way in one version,
// the other still holds the result of the round before, for the workers who did not get it. Blocks
// and rules are those of p4inc.p4 but for that: there is no copy, and every job is local.
//
// The ingress control is P4INC's too, except for the tables of intents and rules and for the hooks below:
// declarations.p4 and apply.p4 in include/tna/segments/ are its common part.

#define PROTOCOL protocol_t.SWITCHML

#include <core.p4>
#include <tna.p4>

#include "../include/tna/segments/parts.p4"
#include "../include/tna/aggregator/sums.p4"

control SwitchMlIngress(inout headers_t hdr, inout metadata_t meta,
                        in ingress_intrinsic_metadata_t intrinsic,
                        in ingress_intrinsic_metadata_from_parser_t from_parser,
                        inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                        inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    #include "../include/tna/segments/declarations.p4"

    // --- Intents: what a packet does to its aggregator ---------------------------------------

    // Whether the aggregator is inside the segment is known a stage later, and whether the job is
    // local, too.
    table intents {
        key = {
            hdr.aggregation.kind:     ternary;
            hdr.aggregation.collided: ternary;
            hdr.aggregation.sequence: ternary;
            meta.difference:          ternary;
            meta.one:                 ternary;
            meta.segment:             ternary;
        }
        actions = { touch; pass; refuse; }
        const default_action = refuse(outcome_t.MALFORMED);
        const entries = {
            // kind           collided sequence difference one segment
            // A sweep goes through the job's own pool, and no further.
            (kind_t.SWEEP,     _,       _,       _,         _,  1): touch(access_t.SWEEP);
            (kind_t.SWEEP,     _,       _,       _,         _,  0): refuse(outcome_t.REJECTED);
            (_,                _,       NO_ROUND, _,        _,  _): refuse(outcome_t.MALFORMED);
            // There is no server that would do anything with part of a sum.
            (kind_t.GRADIENT,  0,       _,       0,         1,  0): pass(outcome_t.BYPASSED);
            (kind_t.GRADIENT,  0,       _,       0,         1,  1): touch(access_t.CLAIM);
        }
        size = 8;
    }

    // --- Rules: what happens to the packet ---------------------------------------------------

    #include "../include/switchml/rules.p4"

    // --- Hooks: what the common part of the ingress leaves to the program --------------------

    // A sum of some of the workers would be of no use to anybody.
    #define ELSEWHERE
    #define UNSUITED meta.local == 0
    #define UNTOUCHED meta.outcome = outcome_t.REJECTED;
    #define CHOOSES
    #define AFTER_ROUNDS
    #define TAKES_FLAGS meta.deed == deed_t.READ

    #include "../include/tna/segments/apply.p4"
}

// Kind and flags, which one action may write, in containers of their own.
@pa_container_size("ingress", "hdr.aggregation.kind", 8)
@pa_container_size("ingress", "hdr.aggregation.resend", 8)
@pa_auto_init_metadata
Pipeline(IngressParser(), SwitchMlIngress(), IngressDeparser(),
         EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
