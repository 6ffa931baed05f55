// P4INC-AOI: segments of aggregators, whole offload of local jobs for Tofino (docs/p4/p4inc.md,
// docs/p4/tofino.md; the paper's §VI).
//
// A job has a segment of the aggregators to itself, so no packet meets another job's. A contribution
// takes its aggregator if the round before is finished there, joins it if it is of the round that is
// under way, and else is of a round that is over, or comes too early. Where all workers of the job are
// below this switch, the last contribution becomes the result, and a copy of it answers whoever missed
// it. Where they are not, the sum of those that are goes to the parameter server, whose answer
// finishes the round and fills the copy.
//
// A packet that starts a round takes two passes: docs/p4/tofino.md says why.

#define ASYNCHRONOUS_ERRORS
#define PROTOCOL (bit<8>)protocol_t.P4INC

// As many as one pass through the stages can add.
#ifndef VALUES
#define VALUES 32
#endif

#include <core.p4>
#include <tna.p4>

#include "../include/sizes.p4"
#include "../include/types.p4"
#include "../include/tna/headers.p4"
#include "../include/tna/target.p4"
#include "../include/headers.p4"
#include "../include/tna/metadata.p4"
#include "../include/tna/parser.p4"
#include "../include/tna/deparser.p4"
#include "../include/tna/screening.p4"
#include "../include/tna/egress.p4"
#include "../include/forwarding.p4"
#include "../include/membership.p4"
#include "../include/tna/workers.p4"
#include "../include/services.p4"
#include "../include/answers.p4"
#include "../include/tna/outcomes.p4"
#include "../include/tna/aggregator/rounds.p4"
#include "../include/tna/aggregator/flags.p4"
#include "../include/tna/aggregator/copies.p4"

control P4incIngress(inout headers_t hdr, inout metadata_t meta,
                     in ingress_intrinsic_metadata_t intrinsic,
                     in ingress_intrinsic_metadata_from_parser_t from_parser,
                       inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                       inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    Screening() screening;
    Membership() membership;
    Workers() workers;
    Services() services;
    Rounds() rounds;
    Copied() copied;
    Flags() flags;
    Values() values;
    TurnBack() turn_back;
    Announce() announce;
    Forwarding() forwarding;
    Outcomes() outcomes;

    // --- What the packet wants of its aggregator ---------------------------------------------

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
        SEND_TO_GROUP(meta.group)
    }

    action refuse(outcome_t outcome) {
        meta.outcome = outcome;
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

    // --- What becomes of it -------------------------------------------------------------------

    #include "../include/p4inc/rules.p4"

    // --- The two together ---------------------------------------------------------------------

    // Each of the following in a table of its own: what is worked out in one stage is compared in the
    // next, and a condition works nothing out.

    action measure_room() {
        meta.room = meta.places + meta.before;
    }

    table rooms {
        actions = { measure_room; }
        const default_action = measure_room();
        size = 1;
    }

    action take_lead() {
        meta.ahead = meta.round |-| meta.found_round;
    }

    table leads {
        actions = { take_lead; }
        const default_action = take_lead();
        size = 1;
    }

    action look_here() {
        meta.left_here = meta.left & meta.members;
    }

    table remainders {
        actions = { look_here; }
        const default_action = look_here();
        size = 1;
    }

    action drop() {
        for_deparser.drop_ctl = 1;
    }

    action join_flags() {
        meta.flags = meta.marked | meta.spilled;
    }

    action add_flags() {
        meta.flags = meta.flags | meta.old_flags;
    }

    // The values are the aggregator's alone; the way of the packet that takes them is its own.
    action take_flags() {
        meta.flags = meta.marked | meta.old_flags;
    }

    action say(bit<1> congested, bit<1> overflow) {
        hdr.aggregation.congested = congested;
        hdr.aggregation.overflow = overflow;
    }

    // What the packet says of the sum that it has. An asynchronous error is always marked.
    table statements {
        key = {
            meta.flags: exact;
            meta.mark:  exact;
        }
        actions = { say; NoAction; }
        const default_action = NoAction();
        const entries = {
            (0, 0): say(0, 0);
            (1, 0): say(0, 1);
            (2, 0): say(1, 0);
            (3, 0): say(1, 1);
            (0, 1): say(1, 0);
            (1, 1): say(1, 1);
            (2, 1): say(1, 0);
            (3, 1): say(1, 1);
        }
        size = 8;
    }

    action ask_again() {
        for_deparser.resubmit_type = AGAIN;
        hdr.passed.setValid();
        hdr.passed.empty = 0;
        hdr.passed.pass = meta.pass;
        hdr.passed.unused = 0;
    }

    action step() {
        hdr.aggregation.index = hdr.aggregation.index + 1;
    }

    apply {
        // For the egress.
        hdr.bridge.setValid();
        hdr.bridge.unused = 0;
        hdr.bridge.flooded = 0;
        hdr.bridge.port = meta.port;

        screening.apply(hdr, from_parser, meta);
        if (hdr.aggregation.isValid()) {
            membership.apply(hdr, meta);
            services.apply(hdr, meta);
            workers.apply(hdr, meta);
        }
        if (hdr.aggregation.congested == 1 || hdr.ipv4.ecn == ECN_CONGESTION_EXPERIENCED) {
            meta.marked = 2;
        }
        if (hdr.aggregation.overflow == 1) {
            meta.spilled = 1;
        }

        rooms.apply();
        if (meta.before == 0 || meta.before[31:31] == 1) {
            meta.begun = 1;
        }
        if (meta.pass == pass_t.TAKE_OVER) {
            meta.workers = meta.everyone & ~meta.unit;
        } else {
            meta.workers = meta.unit;
        }
        if (meta.group != 0 && meta.others == meta.strangers) {
            meta.local = 1;
        } else if (meta.others == 0) {
            meta.alone = 1;
        }

        if (meta.ours == 1 && (meta.member == 0 || meta.served == 0)) {
            meta.outcome = outcome_t.REJECTED;
        } else if (meta.ours == 1 && meta.transit == 1) {
            meta.outcome = outcome_t.BYPASSED;
            meta.forward = 1;
        } else if (meta.ours == 1 || meta.sweep == 1) {
            intents.apply();
        } else {
            // What is wrong with itself is counted for no job, whatever it names.
            meta.slot = 0;
        }

        if (meta.access != access_t.NONE) {
            if (meta.begun == 0 || meta.room == 0 || meta.room[31:31] == 1) {
                meta.access = access_t.NONE;
                meta.outcome = outcome_t.OUTSIDE;
            } else if (meta.access == access_t.CLAIM && meta.alone == 1) {
                meta.access = access_t.NONE;
                meta.outcome = outcome_t.BYPASSED;
                meta.forward = 1;
            } else {
                rounds.apply(hdr.aggregation.index, meta);
            }
        }
        join_flags();
        copied.apply(hdr.aggregation.index, meta);
        flags.apply(hdr.aggregation.index, meta);
        values.apply(hdr, meta);

        // In the terms of the rules.
        leads.apply();
        remainders.apply();
        if (meta.left_here == 0) {
            meta.last = 1;
        }
        if (meta.deed == deed_t.ADD) {
            add_flags();
        } else if (meta.deed == deed_t.READ || (meta.deed == deed_t.OLDER && meta.kept == 1)) {
            take_flags();
        }
        if (meta.access == access_t.CLAIM || meta.access == access_t.FREE) {
            if (meta.deed == deed_t.ADD) {
                meta.turn = turn_t.JOINS;
            } else if (meta.deed == deed_t.READ) {
                meta.turn = turn_t.AGAIN;
            } else if (meta.deed == deed_t.PUT) {
                meta.turn = turn_t.STARTS;
            } else if (meta.found_round == meta.round) {
                // Another packet was faster and has started the round: this one joins it.
                meta.pass = pass_t.FIRST;
                meta.again = 1;
            } else if (meta.ahead == 0) {
                meta.turn = turn_t.LATE;
            } else if (meta.pass == pass_t.FIRST && meta.held == 0) {
                // The round before is finished: this one is to be started.
                meta.pass = pass_t.TAKE_OVER;
                meta.again = 1;
            } else {
                meta.turn = turn_t.EARLY;
            }
        }
        if (meta.again == 0) {
            rules.apply();
        }

        // A packet that comes again is counted then.
        outcomes.apply(meta);
        if (meta.again == 1) {
            ask_again();
        }

        if (meta.outcome == outcome_t.REPEATED || meta.outcome == outcome_t.ASYNCHRONOUS) {
            turn_back.apply(hdr);
        }
        // What is in no need of an aggregator here passes untouched.
        if (meta.access != access_t.NONE && (meta.forward == 1 || meta.result == 1)) {
            statements.apply();
        }

        if (meta.access == access_t.SWEEP) {
            if (meta.held != 0) {
                hdr.aggregation.bitmap = hdr.aggregation.bitmap + 1;
            }
            if (meta.room == 1) {
                for_tm.ucast_egress_port = CPU_PORT;
            } else {
                for_tm.ucast_egress_port = RECIRCULATION_PORT;
            }
            step();
        } else if (meta.entering == 1) {
            for_tm.ucast_egress_port = RECIRCULATION_PORT;
        } else if (meta.result == 1) {
            announce.apply(hdr);
            for_tm.mcast_grp_a = meta.group;
        } else if (meta.forward == 1) {
            forwarding.apply(hdr, for_deparser, for_tm);
        } else if (meta.outcome != outcome_t.DISTRIBUTED && meta.again == 0) {
            drop();
        }
    }
}

// Kind and flags, which one action may write, in containers of their own.
@pa_container_size("ingress", "hdr.aggregation.kind", 8)
@pa_container_size("ingress", "hdr.aggregation.resend", 8)
@pa_auto_init_metadata
Pipeline(IngressParser(), P4incIngress(), IngressDeparser(),
         EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
