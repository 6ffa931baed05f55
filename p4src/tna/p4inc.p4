// P4INC-AOI: segments of aggregators, whole offload of local jobs for Tofino (docs/concepts/p4inc.md,
// docs/reference/tofino.md; the paper's §VI).
//
// A job has a segment of the aggregators to itself, so no packet meets another job's. A contribution
// takes its aggregator if the round before is finished there, joins it if it is of the round that is
// under way, and else is of a round that is over, or comes too early. Where all workers of the job are
// below this switch, the last contribution becomes the result, and a copy of it answers whoever missed
// it. Where they are not, the sum of those that are goes to the parameter server, whose answer
// finishes the round and fills the copy.
//
// A packet that starts a round takes two passes: docs/reference/tofino.md says why.
//
// The ingress control is SwitchML's too, except for the tables of intents and rules and for the hooks below:
// declarations.p4 and apply.p4 in include/tna/segments/ are its common part.

// Packets of the kind ASYNCHRONOUS pass the screening; aggregators have shadow copies: for the fields of
// the metadata.
#define ASYNCHRONOUS_ERRORS
#define COPIES
#define PROTOCOL protocol_t.P4INC

#include <core.p4>
#include <tna.p4>

#include "../include/tna/segments/parts.p4"
#include "../include/tna/aggregator/copies.p4"
#include "../include/circuits.p4"

control P4incIngress(inout headers_t hdr, inout metadata_t meta,
                     in ingress_intrinsic_metadata_t intrinsic,
                     in ingress_intrinsic_metadata_from_parser_t from_parser,
                     inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                     inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    #include "../include/tna/segments/declarations.p4"
    Circuits() circuits;
    Copied() copied;

    // --- Intents: what a packet does to its aggregator ---------------------------------------

    // A result that is for all workers below this switch.
    action distribute(copy_access_t copy_access) {
        meta.copy_access = copy_access;
        meta.outcome = outcome_t.DISTRIBUTED;
        SEND_TO_GROUP(meta.group)
    }

    // Whether the aggregator is inside the segment is known a stage later.
    table intents {
        key = {
            hdr.aggregation.kind:     ternary;
            hdr.aggregation.resend:   ternary;
            hdr.aggregation.collided: ternary;
            hdr.aggregation.sequence: ternary;
            meta.difference:          ternary;
            meta.one:                 ternary;
            meta.strangers:           ternary;
            meta.segment:             ternary;
        }
        actions = { touch; pass; distribute; refuse; }
        const default_action = refuse(outcome_t.MALFORMED);
        const entries = {
            // kind           resend collided sequence difference one strangers segment
            // A sweep goes through the segment that is the job's, and no further.
            (kind_t.SWEEP,     _,     _,       _,       _,         _,  _,        1): touch(access_t.SWEEP);
            (kind_t.SWEEP,     _,     _,       _,       _,         _,  _,        0): refuse(outcome_t.REJECTED);
            (_,                _,     _,       NO_ROUND, _,        _,  _,        _): refuse(outcome_t.MALFORMED);
            // A worker's contribution. Where it may go in is the switch's to say, not the worker's.
            (kind_t.GRADIENT,  _,     0,       _,       0,         1,  _,        0): pass(outcome_t.BYPASSED);
            (kind_t.GRADIENT,  _,     0,       _,       0,         1,  _,        1): touch(access_t.CLAIM);
            // A result that a worker hands over to a server that lacks it.
            (kind_t.GRADIENT,  1,     1,       _,       0,         1,  _,        _): pass(outcome_t.RESENT);
            // A result of the parameter server.
            (kind_t.PARAMETER, 0,     0,       _,       _,         _,  _,        0): distribute(copy_access_t.NONE);
            (kind_t.REPLY,     0,     0,       _,       _,         _,  _,        0): pass(outcome_t.REPLIED);
            (kind_t.PARAMETER, 0,     0,       _,       _,         _,  0,        1): touch(access_t.FREE);
            (kind_t.REPLY,     0,     0,       _,       _,         _,  0,        1): touch(access_t.FREE);
            // Its question to a worker.
            (kind_t.QUERY,     0,     0,       _,       _,         _,  _,        _): pass(outcome_t.QUERIED);
        }
        size = 16;
    }

    // --- Rules: what happens to the packet ---------------------------------------------------

    #include "../include/p4inc/rules.p4"

    // --- Hooks: what the common part of the ingress leaves to the program --------------------

    // In a job over several units, the only contribution here leaves as it came, for the server.
    #define ELSEWHERE \
        else if (meta.others == 0) { \
            meta.alone = 1; \
        }
    #define UNSUITED meta.alone == 1
    #define UNTOUCHED \
        meta.outcome = outcome_t.BYPASSED; \
        meta.forward = 1;
    #define CHOOSES circuits.apply(hdr, meta);
    #define AFTER_ROUNDS copied.apply(hdr.aggregation.index, meta);
    #define TAKES_FLAGS meta.deed == deed_t.READ || (meta.deed == deed_t.OLDER && meta.kept == 1)

    #include "../include/tna/segments/apply.p4"
}

// Kind and flags, which one action may write, in containers of their own.
@pa_container_size("ingress", "hdr.aggregation.kind", 8)
@pa_container_size("ingress", "hdr.aggregation.resend", 8)
@pa_auto_init_metadata
Pipeline(IngressParser(), P4incIngress(), IngressDeparser(),
         EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
