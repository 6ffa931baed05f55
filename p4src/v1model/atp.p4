// ATP: statistical aggregation, first come, first served (docs/concepts/atp.md).
//
// A fresh gradient takes its aggregator if that is free, joins it if it is its own task's, and else
// goes to the parameter server as it is. The last contribution leaves with the sum. The aggregator
// stays taken until the result passes on its way from the parameter server to the workers.
//
// The ingress control is ESA's too, except for the tables of intents and rules and for the hooks below:
// declarations.p4 and apply.p4 in include/v1model/pool/ are its common part.

#include <core.p4>
#include <v1model.p4>

#include "../include/v1model/pool/parts.p4"
#include "../include/v1model/aggregator/recency.p4"

control AtpIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard) {
    #include "../include/v1model/pool/declarations.p4"
    Recency() recency;

    // --- Intents: what a packet does to its aggregator ---------------------------------------

    bit<1> fresh_whole = 0;   // bitmap is exactly what a fresh packet of this port must hold
    bit<1> within = 0;        // bitmap is not empty and holds nobody that is not below this port
    bit<1> alone = 0;         // that is all that meets here: nothing to add

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

    // --- Rules: what happens to the packet ---------------------------------------------------

    #include "../include/atp/rules.p4"

    // --- Hooks: what the common part of the ingress leaves to the program --------------------

    #define PROTOCOL protocol_t.ATP

    #define EXAMINE \
        if (hdr.aggregation.bitmap == meta.unit) { \
            fresh_whole = 1; \
        } \
        if (hdr.aggregation.bitmap != 0 && (hdr.aggregation.bitmap & ~meta.unit) == 0) { \
            within = 1; \
        } \
        if (meta.unit == meta.members) { \
            alone = 1; \
        }

    #define AFTER_BITMAP \
        recency.apply(standard.ingress_global_timestamp, hdr.aggregation.index, meta);

    #include "../include/v1model/pool/apply.p4"
}

V1Switch(PacketParser(), VerifyChecksums(), AtpIngress(), AggregationEgress(), UpdateChecksums(),
         PacketDeparser()) main;
