// SwitchML: static pools of aggregators, two for each slot (docs/concepts/switchml.md), the baseline of the
// papers' comparisons.
//
// The rounds of a slot take turns in its two aggregators, its versions. A worker goes on to a slot's
// next round when it has the result of the last one, so while a round is under way in one version,
// the other still holds the result of the round before, for the workers who did not get it. Blocks
// and rules are those of p4inc.p4 but for that: there is no copy, and every job is local.
//
// The ingress control is P4INC's too, except for the tables of intents and rules and for the hooks below:
// declarations.p4 and apply.p4 in include/v1model/segments/ are its common part.

#include <core.p4>
#include <v1model.p4>

#include "../include/v1model/segments/parts.p4"

control SwitchMlIngress(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard) {
    #include "../include/v1model/segments/declarations.p4"

    // --- Intents: what a packet does to its aggregator ---------------------------------------

    table intents {
        key = {
            hdr.aggregation.kind:     exact;
            hdr.aggregation.collided: ternary;
            numbered:                 ternary;
            own:                      ternary;
            meta.segment:             ternary;
            meta.inside:              ternary;
            meta.local:               ternary;
        }
        actions = { touch; pass; refuse; }
        const default_action = refuse(outcome_t.MALFORMED);
        const entries = {
            // kind           collided numbered own segment inside local
            // There is no server that would do anything with part of a sum.
            (kind_t.GRADIENT,  0,       1,       1,  0,      _,     _): pass(outcome_t.BYPASSED);
            (kind_t.GRADIENT,  0,       1,       1,  1,      0,     _): refuse(outcome_t.OUTSIDE);
            (kind_t.GRADIENT,  0,       1,       1,  1,      1,     0): refuse(outcome_t.REJECTED);
            (kind_t.GRADIENT,  0,       1,       1,  1,      1,     1): touch(access_t.CLAIM);
        }
    }

    // --- Rules: what happens to the packet ---------------------------------------------------

    #include "../include/switchml/rules.p4"

    // --- Hooks: what the common part of the ingress leaves to the program --------------------

    #define PROTOCOL protocol_t.SWITCHML

    #define EXAMINE
    #define ELSEWHERE
    #define CHOOSES
    #define AFTER_ROUNDS
    #define AFTER_VALUES

    #include "../include/v1model/segments/apply.p4"
}

V1Switch(PacketParser(), VerifyChecksums(), SwitchMlIngress(), AggregationEgress(),
         UpdateChecksums(), PacketDeparser()) main;
