// ATP: statistical aggregation, first come, first served (docs/p4/atp.md).
//
// A fresh gradient takes its aggregator if that is free, joins it if it is its own task's, and else
// goes to the parameter server as it is. The last contribution leaves with the sum. The aggregator
// stays taken until the result passes on its way from the parameter server to the workers.

#include <core.p4>
#include <v1model.p4>

#include "../include/sizes.p4"
#include "../include/types.p4"
#include "../include/v1model/target.p4"
#include "../include/headers.p4"
#include "../include/v1model/metadata.p4"
#include "../include/v1model/parser.p4"
#include "../include/v1model/deparser.p4"
#include "../include/forwarding.p4"
#include "../include/membership.p4"
#include "../include/v1model/screening.p4"
#include "../include/v1model/egress.p4"
#include "../include/v1model/outcomes.p4"
#include "../include/v1model/aggregator/identity.p4"
#include "../include/v1model/aggregator/bitmap.p4"
#include "../include/v1model/aggregator/recency.p4"
#include "../include/v1model/aggregator/marks.p4"
#include "../include/v1model/aggregator/values.p4"

control AtpIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard) {
    Screening() screening;
    Membership() membership;
    Identity() identity;
    Contributions() contributions;
    Recency() recency;
    Marks() marks;
    Values() values;
    Forwarding() forwarding;
    Outcomes() outcomes;

    // --- What the packet wants of its aggregator ---------------------------------------------

    bit<1> fresh_whole = 0;   // bitmap is exactly what a fresh packet of this port must hold
    bit<1> within = 0;        // bitmap is not empty and holds nobody that is not below this port
    bit<1> alone = 0;         // that is all that meets here: nothing to add

    action touch(access_t access) {
        meta.access = access;
    }

    action pass(outcome_t outcome) {
        meta.access = access_t.NONE;
        meta.forward = 1;
        meta.outcome = outcome;
    }

    action refuse() {
        meta.access = access_t.NONE;
        meta.outcome = outcome_t.MALFORMED;
    }

    table intents {
        key = {
            hdr.aggregation.kind:     exact;
            hdr.aggregation.resend:   ternary;
            hdr.aggregation.collided: ternary;
            hdr.aggregation.overflow: ternary;
            fresh_whole:              ternary;
            within:                   ternary;
            alone:                    ternary;
            meta.pass:                ternary;
        }
        actions = { touch; pass; refuse; }
        const default_action = refuse();
        const entries = {
            // kind           resend collided overflow whole within alone pass
            (kind_t.GRADIENT,  0,     0,       0,       1,    _,     0,    pass_t.FIRST):     touch(access_t.CLAIM);
            (kind_t.GRADIENT,  0,     0,       0,       1,    _,     0,    pass_t.TAKE_OVER): touch(access_t.SEIZE);
            (kind_t.GRADIENT,  0,     0,       0,       1,    _,     1,    _):                pass(outcome_t.BYPASSED);
            (kind_t.GRADIENT,  1,     0,       0,       _,    1,     _,    _):                touch(access_t.FLUSH);
            (kind_t.GRADIENT,  _,     1,       0,       _,    1,     _,    _):                pass(outcome_t.BYPASSED);
            (kind_t.GRADIENT,  _,     _,       1,       _,    1,     _,    _):                pass(outcome_t.BYPASSED);
            (kind_t.PARAMETER, 0,     _,       _,       _,    _,     _,    _):                touch(access_t.FREE);
            (kind_t.REPLY,     0,     _,       _,       _,    _,     _,    _):                touch(access_t.FREE);
            (kind_t.QUERY,     0,     _,       _,       _,    _,     _,    _):                pass(outcome_t.QUERIED);
        }
    }

    // --- What becomes of it -------------------------------------------------------------------

    #include "../include/atp/rules.p4"

    // --- The two together ---------------------------------------------------------------------

    action drop() {
        mark_to_drop(standard);
    }

    apply {
        screening.apply(hdr, standard, protocol_t.ATP, meta);
        if (meta.ours == 1) {
            membership.apply(hdr, meta);
            if (meta.member == 0) {
                meta.outcome = outcome_t.REJECTED;
            } else if (meta.transit == 1) {
                meta.outcome = outcome_t.BYPASSED;
                meta.forward = 1;
            } else {
                if (hdr.aggregation.bitmap == meta.unit) {
                    fresh_whole = 1;
                }
                if (hdr.aggregation.bitmap != 0
                    && (hdr.aggregation.bitmap & ~meta.unit) == 0) {
                    within = 1;
                }
                if (meta.unit == meta.members) {
                    alone = 1;
                }
                intents.apply();
            }
        }

        if (meta.access != access_t.NONE) {
            if (hdr.ipv4.ecn == ECN_CONGESTION_EXPERIENCED || hdr.aggregation.congested == 1) {
                meta.mark = 1;
            }
            identity.apply(hdr.aggregation.epoch, hdr.aggregation.sequence, hdr.aggregation.index,
                           meta);
            contributions.apply(hdr.aggregation.bitmap, hdr.aggregation.index, meta);
            recency.apply(standard.ingress_global_timestamp, hdr.aggregation.index, meta);
            if (meta.overlap == 0 || meta.access == access_t.FLUSH) {
                marks.apply(hdr.aggregation.index, meta);
            }
            rules.apply();
            values.apply(hdr, meta);
        }

        if (meta.again == 1) {
            // Counted in the second pass.
            resubmit_preserving_field_list(KEPT);
        } else {
            outcomes.apply(meta);
        }

        if (meta.access == access_t.SWEEP) {
            if (meta.holder == holder_t.MINE) {
                hdr.aggregation.bitmap = hdr.aggregation.bitmap + 1;
            }
            hdr.aggregation.index = hdr.aggregation.index + 1;
            standard.egress_spec = CPU_PORT;
        } else if (meta.forward == 1) {
            if (meta.mark == 1) {
                hdr.aggregation.congested = 1;
            }
            forwarding.apply(hdr, standard);
        } else if (meta.outcome != outcome_t.DISTRIBUTED) {
            drop();
        }
    }
}

V1Switch(PacketParser(), VerifyChecksums(), AtpIngress(), AggregationEgress(), UpdateChecksums(),
         PacketDeparser()) main;
