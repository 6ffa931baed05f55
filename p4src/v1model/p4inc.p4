// P4INC-AOI: segments of aggregators, whole offload of local jobs (docs/p4/p4inc.md; the paper's §VI).
//
// A job has a segment of the aggregators to itself, so no packet meets another job's. A contribution
// takes its aggregator if the round before is finished there, joins it if it is of the round that is
// under way, and else is of a round that is over, or comes too early. Where all workers of the job are
// below this switch, the last contribution becomes the result, and a copy of it answers whoever missed
// it. Where they are not, the sum of those that are goes to the parameter server, whose answer
// finishes the round and fills the copy.
//
// One pass is enough for every packet: what it does in each register depends on registers that come
// before only, and no packet wants to change its mind.

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
#include "../include/v1model/aggregator/copies.p4"

control P4incIngress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard) {
    Screening() screening;
    Membership() membership;
    Services() services;
    Rounds() rounds;
    Copied() copied;
    Flags() flags;
    Values() values;
    Copies() copies;
    TurnBack() turn_back;
    Announce() announce;
    Forwarding() forwarding;
    Outcomes() outcomes;

    // --- What the packet wants of its aggregator ---------------------------------------------

    bit<1> numbered = 0; // there is a round of that number
    bit<1> own = 0;      // bitmap is the one worker below this port
    bit<1> whole = 0;    // bitmap is all workers of the job
    bit<1> alone = 0;    // the worker is the only one here, and others are elsewhere: nothing to add

    action touch(access_t access) {
        meta.access = access;
    }

    action pass(outcome_t outcome) {
        meta.outcome = outcome;
        meta.forward = 1;
    }

    // A result that is for all workers below this switch.
    action distribute(copy_access_t copy_access) {
        meta.copy_access = copy_access;
        meta.outcome = outcome_t.DISTRIBUTED;
        standard.mcast_grp = meta.group;
    }

    action refuse(outcome_t outcome) {
        meta.outcome = outcome;
    }

    table intents {
        key = {
            hdr.aggregation.kind:     exact;
            hdr.aggregation.resend:   ternary;
            hdr.aggregation.collided: ternary;
            numbered:                 ternary;
            own:                      ternary;
            whole:                    ternary;
            meta.segment:             ternary;
            meta.inside:              ternary;
            alone:                    ternary;
        }
        actions = { touch; pass; distribute; refuse; }
        const default_action = refuse(outcome_t.MALFORMED);
        const entries = {
            // kind           resend collided numbered own whole segment inside alone
            // A worker's contribution. Where it may go in is the switch's to say, not the worker's.
            (kind_t.GRADIENT,  _,     0,       1,       1,  _,    0,      _,     _): pass(outcome_t.BYPASSED);
            (kind_t.GRADIENT,  _,     0,       1,       1,  _,    1,      0,     _): refuse(outcome_t.OUTSIDE);
            (kind_t.GRADIENT,  _,     0,       1,       1,  _,    1,      1,     1): pass(outcome_t.BYPASSED);
            (kind_t.GRADIENT,  _,     0,       1,       1,  _,    1,      1,     0): touch(access_t.CLAIM);
            // A result that a worker hands over to a server that lacks it.
            (kind_t.GRADIENT,  1,     1,       1,       1,  _,    _,      _,     _): pass(outcome_t.RESENT);
            // A result of the parameter server.
            (kind_t.PARAMETER, 0,     0,       1,       _,  _,    0,      _,     _): distribute(copy_access_t.NONE);
            (kind_t.REPLY,     0,     0,       1,       _,  _,    0,      _,     _): pass(outcome_t.REPLIED);
            (kind_t.PARAMETER, 0,     0,       1,       _,  1,    1,      0,     _): refuse(outcome_t.OUTSIDE);
            (kind_t.REPLY,     0,     0,       1,       _,  1,    1,      0,     _): refuse(outcome_t.OUTSIDE);
            (kind_t.PARAMETER, 0,     0,       1,       _,  1,    1,      1,     _): touch(access_t.FREE);
            (kind_t.REPLY,     0,     0,       1,       _,  1,    1,      1,     _): touch(access_t.FREE);
            // Its question to a worker.
            (kind_t.QUERY,     0,     0,       1,       _,  _,    _,      _,     _): pass(outcome_t.QUERIED);
        }
    }

    // --- What becomes of it -------------------------------------------------------------------

    #include "../include/p4inc/rules.p4"

    // --- The two together ---------------------------------------------------------------------

    action drop() {
        mark_to_drop(standard);
    }

    apply {
        screening.apply(hdr, standard, protocol_t.P4INC, meta);
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
                if (hdr.aggregation.bitmap == meta.everyone) {
                    whole = 1;
                }
                if (meta.group != 0 && meta.members == meta.everyone) {
                    meta.local = 1;
                } else if (meta.unit == meta.members) {
                    alone = 1;
                }
                intents.apply();
            }
        } else if (meta.access == access_t.SWEEP && meta.inside == 0) {
            // A sweep goes through the segment that is the job's, and no further.
            meta.access = access_t.NONE;
            meta.outcome = meta.segment == 1 ? outcome_t.OUTSIDE : outcome_t.REJECTED;
        }

        if (meta.access != access_t.NONE) {
            if (hdr.ipv4.ecn == ECN_CONGESTION_EXPERIENCED || hdr.aggregation.congested == 1) {
                meta.mark = 1;
            }
            meta.overflow = hdr.aggregation.overflow;
            rounds.apply(hdr.aggregation.sequence, hdr.aggregation.index, meta);
            copied.apply(hdr.aggregation.sequence, hdr.aggregation.index, meta);
            rules.apply();
            flags.apply(hdr.aggregation.index, meta);
            values.apply(hdr, meta);
            copies.apply(hdr, meta);
        }
        outcomes.apply(meta);

        if (meta.outcome == outcome_t.REPEATED || meta.outcome == outcome_t.ASYNCHRONOUS) {
            turn_back.apply(hdr);
        }
        // What is in no need of an aggregator here passes untouched.
        if (meta.access != access_t.NONE && (meta.forward == 1 || meta.result == 1)) {
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
            forwarding.apply(hdr, standard);
        } else if (meta.outcome != outcome_t.DISTRIBUTED) {
            drop();
        }
    }
}

V1Switch(PacketParser(), VerifyChecksums(), P4incIngress(), AggregationEgress(), UpdateChecksums(),
         PacketDeparser()) main;
