// ATP: statistical aggregation, first come, first served (docs/p4/atp.md), for Tofino (docs/p4/tofino.md).
//
// A fresh gradient takes its aggregator if that is free, joins it if it is its own task's, and else
// goes to the parameter server as it is. The last contribution leaves with the sum. The aggregator
// stays taken until the result passes on its way from the parameter server to the workers.

#define PROTOCOL (bit<8>)protocol_t.ATP

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
#include "../include/tna/outcomes.p4"
#include "../include/tna/aggregator/bitmap.p4"
#include "../include/tna/aggregator/recency.p4"
#include "../include/tna/aggregator/marks.p4"
#include "../include/tna/aggregator/values.p4"

control AtpIngress(inout headers_t hdr, inout metadata_t meta,
                   in ingress_intrinsic_metadata_t intrinsic,
                   in ingress_intrinsic_metadata_from_parser_t from_parser,
                   inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                   inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    Screening() screening;
    Membership() membership;
    Contributions() contributions;
    Recency() recency;
    Marks() marks;
    Values() values;
    Forwarding() forwarding;
    Outcomes() outcomes;

    // --- What the packet wants of its aggregator, and whose that is ---------------------------

    #include "../include/tna/aggregator/identity.p4"

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

    action pass(outcome_t outcome) {
        meta.forward = 1;
        meta.outcome = outcome;
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

    // --- What becomes of it -------------------------------------------------------------------

    #include "../include/atp/rules.p4"

    // --- The two together ---------------------------------------------------------------------

    // Each of the following in a table of its own: what is worked out in one stage is compared in the
    // next, and a condition works nothing out.

    action unite() {
        meta.together = meta.held | hdr.aggregation.bitmap;
    }

    table union {
        actions = { unite; }
        const default_action = unite();
        size = 1;
    }

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
        }
        if (hdr.aggregation.congested == 1 || hdr.ipv4.ecn == ECN_CONGESTION_EXPERIENCED) {
            meta.marked = 1;
        }
        meta.now = from_parser.global_tstamp[31:0];

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

        contributions.apply(hdr.aggregation.bitmap, hdr.aggregation.index, meta);
        recency.apply(hdr.aggregation.index, meta);
        marks.apply(hdr.aggregation.index, meta);
        values.apply(hdr, meta);

        // In the terms of the rules.
        if (meta.joined == 0) {
            if (meta.access == access_t.SEIZE) {
                meta.holder = holder_t.NOBODY;
            } else {
                meta.holder = holder_t.OTHER;
            }
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
        ages.apply();
        overtimes.apply();
        if (meta.overtime != 0) {
            meta.idle = 1;
        }
        join_marks();
        rules.apply();

        // A packet that comes again is counted then.
        outcomes.apply(meta);
        if (meta.again == 1) {
            ask_again();
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
        } else if (meta.forward == 1) {
            if (meta.access != access_t.NONE && meta.marked == 1) {
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
Pipeline(IngressParser(), AtpIngress(), IngressDeparser(),
         EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
