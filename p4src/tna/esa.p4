// ESA: preemptive aggregators with priorities for Tofino (docs/p4/esa.md, docs/p4/tofino.md; the paper's §5.2
// and §6).
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

#define PROTOCOL (bit<8>)protocol_t.ESA

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
#include "../include/servers.p4"
#include "../include/groups.p4"
#include "../include/tna/outcomes.p4"
#include "../include/tna/aggregator/bitmap.p4"
#include "../include/tna/aggregator/priority.p4"
#include "../include/tna/aggregator/marks.p4"
#include "../include/tna/aggregator/values.p4"

control EsaIngress(inout headers_t hdr, inout metadata_t meta,
                   in ingress_intrinsic_metadata_t intrinsic,
                   in ingress_intrinsic_metadata_from_parser_t from_parser,
                   inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                   inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    Screening() screening;
    Workers() workers;
    Membership() membership;
    Contributions() contributions;
    Priorities() priorities;
    Marks() marks;
    Values() values;
    Servers() servers;
    Forwarding() forwarding;
    Outcomes() outcomes;

    // --- What the packet wants of its aggregator, and whose that is ---------------------------

    #include "../include/tna/aggregator/identity.p4"

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

    action pass(outcome_t outcome) {
        meta.forward = 1;
        meta.outcome = outcome;
    }

    // What it brings is the result.
    action publish() {
        meta.outcome = outcome_t.COMPLETED;
        meta.result = 1;
    }

    action refuse(outcome_t outcome) {
        meta.outcome = outcome;
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

    // --- What becomes of it -------------------------------------------------------------------

    bit<1> top = 0; // the packet's workers are all of the job, and this is the switch that says so

    #include "../include/esa/rules.p4"

    // --- The two together ---------------------------------------------------------------------

    // In a table of its own, as what is worked out in one stage is compared in the
    // next, and a condition works nothing out.

    action unite() {
        meta.together = meta.held | hdr.aggregation.bitmap;
    }

    table union {
        actions = { unite; }
        const default_action = unite();
        size = 1;
    }

    // To whom it came from.
    action turn_back() {
        mac_t mac = hdr.ethernet.source;
        hdr.ethernet.source = hdr.ethernet.destination;
        hdr.ethernet.destination = mac;
        ipv4_address_t address = hdr.ipv4.source;
        hdr.ipv4.source = hdr.ipv4.destination;
        hdr.ipv4.destination = address;
    }

    // Straight to all workers; the sender of the last contribution stays the source.
    action announce() {
        hdr.ethernet.destination = GROUP_MAC ++ hdr.aggregation.job;
        hdr.ipv4.destination = GROUP_IPV4 ++ hdr.aggregation.job;
        hdr.aggregation.kind = kind_t.PARAMETER;
        hdr.aggregation.priority = 0;
        hdr.aggregation.congested = meta.mark;
        for_tm.mcast_grp_a = meta.group;
    }

    action drop() {
        for_deparser.drop_ctl = 1;
    }

    action join_marks() {
        meta.marked = meta.marked | meta.old_marks;
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
            workers.apply(hdr, meta);
        }
        if (hdr.aggregation.congested == 1 || hdr.ipv4.ecn == ECN_CONGESTION_EXPERIENCED) {
            meta.marked = 1;
        }
        meta.priority = (bit<32>)hdr.aggregation.priority;

        if (meta.ours == 1 && meta.member == 0) {
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

        if (meta.group != 0) {
            top = 1;
        }
        contributions.apply(hdr.aggregation.bitmap, hdr.aggregation.index, meta);
        priorities.apply(hdr.aggregation.sequence, hdr.aggregation.priority,
                         hdr.aggregation.index, meta);
        marks.apply(hdr.aggregation.index, meta);
        values.apply(hdr, meta);

        // In the terms of the rules.
        if (meta.joined == 0) {
            meta.holder = holder_t.OTHER;
        } else if (meta.held != 0) {
            meta.holder = holder_t.MINE;
        }
        if (meta.common != 0) {
            meta.overlap = 1;
        }
        union.apply();
        if (meta.together == meta.members) {
            meta.last = 1;
        }
        meta.held_epoch = meta.found;
        join_marks();
        meta.mark = meta.marked[0:0];
        rules.apply();

        // A packet that comes again is counted then.
        outcomes.apply(meta);
        if (meta.again == 1) {
            ask_again();
        }

        if (meta.outcome == outcome_t.PREEMPTED) {
            // Of its mark, the sum has a flag.
            hdr.aggregation.congested = meta.mark;
            if (hdr.ipv4.ecn == ECN_CONGESTION_EXPERIENCED) {
                hdr.ipv4.ecn = ECN_CAPABLE;
            }
            servers.apply(hdr, meta);
        } else if (meta.outcome == outcome_t.REMINDED || meta.outcome == outcome_t.ABSENT) {
            turn_back();
        }

        if (meta.access == access_t.SWEEP) {
            if (meta.joined == 1) {
                hdr.aggregation.bitmap = hdr.aggregation.bitmap + 1;
            }
            if (hdr.aggregation.index == POOL - 1) {
                for_tm.ucast_egress_port = CPU_PORT;
            } else {
                for_tm.ucast_egress_port = RECIRCULATION_PORT;
            }
            step();
        } else if (meta.entering == 1) {
            for_tm.ucast_egress_port = RECIRCULATION_PORT;
        } else if (meta.result == 1) {
            announce();
        } else if (meta.forward == 1) {
            // What is in no need of an aggregator here passes untouched.
            if (meta.access != access_t.NONE && meta.mark == 1) {
                hdr.aggregation.congested = 1;
            }
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
Pipeline(IngressParser(), EsaIngress(), IngressDeparser(),
         EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
