// P4INC-AOI: segments of aggregators, whole offload of local jobs (docs/concepts/p4inc.md; the paper's §VI).
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
//
// The ingress control is SwitchML's too, except for the tables of intents and rules and for the hooks below:
// declarations.p4 and apply.p4 in include/v1model/segments/ are its common part.

// Aggregators have shadow copies: for the fields of the metadata.
#define COPIES

#include <core.p4>
#include <v1model.p4>

#include "../include/v1model/segments/parts.p4"
#include "../include/v1model/aggregator/copies.p4"
#include "../include/circuits.p4"

control P4incIngress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard) {
    #include "../include/v1model/segments/declarations.p4"
    Circuits() circuits;
    Copied() copied;
    Copies() copies;

    // --- Intents: what a packet does to its aggregator ---------------------------------------

    bit<1> whole = 0;    // bitmap is all positions of the job
    bit<1> alone = 0;    // the worker is the only one here, and others are elsewhere: nothing to add

    // A result that is for all workers below this switch.
    action distribute(copy_access_t copy_access) {
        meta.copy_access = copy_access;
        meta.outcome = outcome_t.DISTRIBUTED;
        standard.mcast_grp = meta.group;
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

    // --- Rules: what happens to the packet ---------------------------------------------------

    #include "../include/p4inc/rules.p4"

    // --- Hooks: what the common part of the ingress leaves to the program --------------------

    #define PROTOCOL protocol_t.P4INC

    #define EXAMINE \
        if (hdr.aggregation.bitmap == meta.total) { \
            whole = 1; \
        }
    #define ELSEWHERE \
        else if (meta.unit == meta.members) { \
            alone = 1; \
        }

    #define CHOOSES circuits.apply(hdr, meta);
    #define AFTER_ROUNDS copied.apply(hdr.aggregation.sequence, hdr.aggregation.index, meta);
    #define AFTER_VALUES copies.apply(hdr, meta);

    #include "../include/v1model/segments/apply.p4"
}

V1Switch(PacketParser(), VerifyChecksums(), P4incIngress(), AggregationEgress(), UpdateChecksums(),
         PacketDeparser()) main;
