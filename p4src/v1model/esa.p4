// ESA: preemptive aggregators with priorities (docs/p4/esa.md; the paper's §5.2 and §6).
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
#include "../include/servers.p4"
#include "../include/groups.p4"
#include "../include/v1model/outcomes.p4"
#include "../include/v1model/aggregator/identity.p4"
#include "../include/v1model/aggregator/priority.p4"
#include "../include/v1model/aggregator/bitmap.p4"
#include "../include/v1model/aggregator/marks.p4"
#include "../include/v1model/aggregator/values.p4"

// ECT(0) of RFC 3168.
const bit<2> ECN_CAPABLE = 2;

control EsaIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard) {
    Screening() screening;
    Membership() membership;
    Identity() identity;
    Priorities() priorities;
    Contributions() contributions;
    Marks() marks;
    Values() values;
    Servers() servers;
    Forwarding() forwarding;
    Outcomes() outcomes;

    // --- What the packet wants of its aggregator ---------------------------------------------

    bit<1> empty = 0;    // bitmap names nobody
    bit<1> whole = 0;    // bitmap is exactly what a fresh packet, or a reminder for us, must hold
    bit<1> within = 0;   // bitmap is not empty and holds nobody that is not below this port
    bit<1> single = 0;   // one worker is below this port: no other switch has held its values
    bit<1> ranked = 0;   // the packet has a priority
    bit<1> alone = 0;    // the packet's workers are all that meet here: nothing to add
    bit<1> top = 0;      // they are all workers of the job, and this is the switch that says so

    action touch(access_t access) {
        meta.access = access;
    }

    action pass(outcome_t outcome) {
        meta.access = access_t.NONE;
        meta.forward = 1;
        meta.outcome = outcome;
    }

    // What it brings is the result.
    action publish() {
        meta.access = access_t.NONE;
        meta.outcome = outcome_t.COMPLETED;
        meta.result = 1;
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
            empty:                    ternary;
            whole:                    ternary;
            within:                   ternary;
            single:                   ternary;
            ranked:                   ternary;
            alone:                    ternary;
            top:                      ternary;
            meta.pass:                ternary;
        }
        actions = { touch; pass; publish; refuse; }
        const default_action = refuse();
        const entries = {
            // kind           resend collided overflow empty whole within single ranked alone top pass
            // A worker's own contribution, or the sum of a rack …
            (kind_t.GRADIENT,  0,     0,       0,       0,    1,    _,     _,     1,     0,    _,  pass_t.FIRST):     touch(access_t.CLAIM);
            (kind_t.GRADIENT,  0,     0,       0,       0,    1,    _,     _,     1,     0,    _,  pass_t.TAKE_OVER): touch(access_t.SWAP);
            (kind_t.GRADIENT,  0,     0,       0,       0,    1,    _,     _,     1,     0,    _,  pass_t.COMPLETE):  touch(access_t.FLUSH);
            (kind_t.GRADIENT,  0,     0,       0,       0,    1,    _,     _,     1,     1,    0,  _):                pass(outcome_t.BYPASSED);
            (kind_t.GRADIENT,  0,     0,       0,       0,    1,    _,     _,     1,     1,    1,  _):                publish();
            // … that failed to preempt, or has values that no switch may add.
            (kind_t.GRADIENT,  0,     1,       0,       _,    _,    1,     _,     1,     _,    _,  _):                pass(outcome_t.BYPASSED);
            (kind_t.GRADIENT,  0,     _,       1,       _,    _,    1,     _,     1,     _,    _,  _):                pass(outcome_t.BYPASSED);
            // A partial sum that another switch evicted, and one that it gave to the agent. Neither
            // comes from where a single worker is.
            (kind_t.GRADIENT,  0,     1,       0,       _,    _,    1,     0,     0,     _,    _,  _):                pass(outcome_t.BYPASSED);
            (kind_t.GRADIENT,  1,     0,       0,       _,    _,    1,     0,     _,     _,    _,  _):                pass(outcome_t.ANSWERED);
            // Results of another switch, or of the parameter server.
            (kind_t.PARAMETER, 0,     _,       _,       _,    _,    _,     _,     _,     _,    _,  _):                touch(access_t.FREE);
            // Reminders for us, reminders for others, and what those answer.
            (kind_t.REMINDER,  0,     0,       0,       0,    1,    _,     _,     _,     _,    _,  _):                touch(access_t.FLUSH);
            (kind_t.REMINDER,  0,     0,       0,       0,    0,    _,     _,     _,     _,    _,  _):                pass(outcome_t.BYPASSED);
            (kind_t.ABSENT,    0,     0,       0,       0,    _,    _,     _,     _,     _,    _,  _):                pass(outcome_t.ANSWERED);
        }
    }

    // --- What becomes of it -------------------------------------------------------------------

    #include "../include/esa/rules.p4"

    // --- The two together ---------------------------------------------------------------------

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
        standard.mcast_grp = meta.group;
    }

    action drop() {
        mark_to_drop(standard);
    }

    apply {
        screening.apply(hdr, standard, protocol_t.ESA, meta);
        if (meta.ours == 1) {
            membership.apply(hdr, meta);
            if (meta.member == 0) {
                meta.outcome = outcome_t.REJECTED;
            } else if (meta.transit == 1) {
                meta.outcome = outcome_t.BYPASSED;
                meta.forward = 1;
            } else {
                if (hdr.aggregation.bitmap == 0) {
                    empty = 1;
                }
                if (hdr.aggregation.bitmap == meta.unit) {
                    whole = 1;
                }
                if (empty == 0 && (hdr.aggregation.bitmap & ~meta.unit) == 0) {
                    within = 1;
                }
                // Only a power of two has no bit in common with its predecessor.
                if ((meta.unit & (meta.unit - 1)) == 0) {
                    single = 1;
                }
                if (hdr.aggregation.priority != 0) {
                    ranked = 1;
                }
                if (meta.unit == meta.members) {
                    alone = 1;
                }
                if (meta.group != 0) {
                    top = 1;
                }
                intents.apply();
            }
        }

        if (meta.access != access_t.NONE || meta.result == 1) {
            if (hdr.ipv4.ecn == ECN_CONGESTION_EXPERIENCED || hdr.aggregation.congested == 1) {
                meta.mark = 1;
            }
        }
        if (meta.access != access_t.NONE) {
            identity.apply(hdr.aggregation.epoch, hdr.aggregation.sequence, hdr.aggregation.index,
                           meta);
            priorities.apply(hdr.aggregation.priority, hdr.aggregation.index, meta);
            contributions.apply(hdr.aggregation.bitmap, hdr.aggregation.index, meta);
            if (meta.overlap == 0 || meta.access == access_t.FLUSH) {
                marks.apply(hdr.aggregation.index, meta);
            }
            rules.apply();
            values.apply(hdr, meta);
        }

        if (meta.again == 1) {
            // Counted in its last pass.
            resubmit_preserving_field_list(KEPT);
        } else {
            outcomes.apply(meta);
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
            if (meta.holder == holder_t.MINE) {
                hdr.aggregation.bitmap = hdr.aggregation.bitmap + 1;
            }
            hdr.aggregation.index = hdr.aggregation.index + 1;
            standard.egress_spec = CPU_PORT;
        } else if (meta.result == 1) {
            announce();
        } else if (meta.forward == 1) {
            // What is in no need of an aggregator here passes untouched.
            if (meta.access != access_t.NONE && meta.mark == 1) {
                hdr.aggregation.congested = 1;
            }
            forwarding.apply(hdr, standard);
        } else if (meta.outcome != outcome_t.DISTRIBUTED) {
            drop();
        }
    }
}

V1Switch(PacketParser(), VerifyChecksums(), EsaIngress(), AggregationEgress(), UpdateChecksums(),
         PacketDeparser()) main;
