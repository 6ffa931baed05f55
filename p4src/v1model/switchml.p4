// SwitchML: static pools of aggregators, two for each slot (docs/p4/switchml.md), the baseline of the
// papers' comparisons.
//
// The rounds of a slot take turns in its two aggregators, its versions. A worker goes on to a slot's
// next round when it has the result of the last one, so while a round is under way in one version,
// the other still holds the result of the round before, for the workers who did not get it. Blocks
// and rules are those of p4inc.p4 but for that: there is no copy, and every job is local.

#include <core.p4>
#include <v1model.p4>

#include "../include/sizes.p4"
#include "../include/types.p4"
#include "../include/v1model/target.p4"
#include "../include/headers.p4"
#include "../include/v1model/metadata.p4"
#include "../include/v1model/parser.p4"
#include "../include/v1model/deparser.p4"
#include "../include/v1model/screening.p4"
#include "../include/v1model/egress.p4"
#include "../include/forwarding.p4"
#include "../include/membership.p4"
#include "../include/services.p4"
#include "../include/answers.p4"
#include "../include/v1model/outcomes.p4"
#include "../include/v1model/aggregator/rounds.p4"
#include "../include/v1model/aggregator/flags.p4"
#include "../include/v1model/aggregator/values.p4"

control SwitchMlIngress(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard) {
    Screening() screening;
    Membership() membership;
    Services() services;
    Rounds() rounds;
    Flags() flags;
    Values() values;
    TurnBack() turn_back;
    Announce() announce;
    Forwarding() forwarding;
    Outcomes() outcomes;

    // --- What the packet wants of its aggregator ---------------------------------------------

    bit<1> numbered = 0; // there is a round of that number
    bit<1> own = 0;      // bitmap is the one worker below this port

    action touch(access_t access) {
        meta.access = access;
    }

    action pass(outcome_t outcome) {
        meta.outcome = outcome;
        meta.forward = 1;
    }

    action refuse(outcome_t outcome) {
        meta.outcome = outcome;
    }

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

    // --- What becomes of it -------------------------------------------------------------------

    #include "../include/switchml/rules.p4"

    // --- The two together ---------------------------------------------------------------------

    action drop() {
        mark_to_drop(standard);
    }

    apply {
        screening.apply(hdr, standard, protocol_t.SWITCHML, meta);
        if (meta.ours == 1) {
            membership.apply(hdr, meta);
        }
        if (meta.ours == 1 || meta.access == access_t.SWEEP) {
            services.apply(hdr, meta);
        }
        if (meta.ours == 1) {
            if (meta.member == 0 || meta.served == 0) {
                meta.outcome = outcome_t.REJECTED;
            } else if (meta.transit == 1) {
                meta.outcome = outcome_t.BYPASSED;
                meta.forward = 1;
            } else {
                if (hdr.aggregation.sequence != NO_ROUND) {
                    numbered = 1;
                }
                // Only a power of two has no bit in common with its predecessor.
                if (hdr.aggregation.bitmap == meta.unit && meta.unit != 0
                    && (meta.unit & (meta.unit - 1)) == 0) {
                    own = 1;
                }
                if (meta.group != 0 && meta.members == meta.everyone) {
                    meta.local = 1;
                }
                intents.apply();
            }
        } else if (meta.access == access_t.SWEEP && meta.inside == 0) {
            // A sweep goes through the job's own pool, and no further.
            meta.access = access_t.NONE;
            meta.outcome = meta.segment == 1 ? outcome_t.OUTSIDE : outcome_t.REJECTED;
        }

        if (meta.access != access_t.NONE) {
            if (hdr.ipv4.ecn == ECN_CONGESTION_EXPERIENCED || hdr.aggregation.congested == 1) {
                meta.mark = 1;
            }
            meta.overflow = hdr.aggregation.overflow;
            rounds.apply(hdr.aggregation.sequence, hdr.aggregation.index, meta);
            rules.apply();
            flags.apply(hdr.aggregation.index, meta);
            values.apply(hdr, meta);
        }
        outcomes.apply(meta);

        if (meta.outcome == outcome_t.REPEATED || meta.outcome == outcome_t.COMPLETED) {
            hdr.aggregation.congested = meta.mark;
            hdr.aggregation.overflow = meta.overflow;
        }

        if (meta.access == access_t.SWEEP) {
            if (meta.held != 0) {
                hdr.aggregation.bitmap = hdr.aggregation.bitmap + 1;
            }
            hdr.aggregation.index = hdr.aggregation.index + 1;
            standard.egress_spec = CPU_PORT;
        } else if (meta.result == 1) {
            announce.apply(hdr);
            standard.mcast_grp = meta.group;
        } else if (meta.forward == 1) {
            if (meta.outcome == outcome_t.REPEATED) {
                turn_back.apply(hdr);
            }
            forwarding.apply(hdr, standard);
        } else {
            drop();
        }
    }
}

V1Switch(PacketParser(), VerifyChecksums(), SwitchMlIngress(), AggregationEgress(),
         UpdateChecksums(), PacketDeparser()) main;
