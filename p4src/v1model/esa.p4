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
#include "../include/headers.p4"
#include "../include/metadata.p4"
#include "../include/parser.p4"
#include "../include/deparser.p4"
#include "../include/screening.p4"
#include "../include/egress.p4"
#include "../include/forwarding.p4"
#include "../include/membership.p4"
#include "../include/servers.p4"
#include "../include/groups.p4"
#include "../include/outcomes.p4"
#include "../include/aggregator/identity.p4"
#include "../include/aggregator/priority.p4"
#include "../include/aggregator/bitmap.p4"
#include "../include/aggregator/marks.p4"
#include "../include/aggregator/values.p4"

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

    // Stays here.
    action absorb(value_access_t value_access, outcome_t outcome) {
        meta.value_access = value_access;
        meta.outcome = outcome;
    }

    // Its values are in; another pass frees the aggregator.
    action complete() {
        meta.value_access = value_access_t.ADD;
        meta.pass = pass_t.COMPLETE;
        meta.again = 1;
    }

    // Leaves with the sum of all that meet here, as a fresh packet or as the result.
    action carry(value_access_t value_access) {
        meta.value_access = value_access;
        meta.outcome = outcome_t.COMPLETED;
        meta.forward = ~top;
        meta.result = top;
        hdr.aggregation.bitmap = meta.members;
    }

    // Leaves with a sum that is not whole.
    action flush(value_access_t value_access) {
        meta.value_access = value_access;
        meta.outcome = outcome_t.FLUSHED;
        meta.forward = 1;
        hdr.aggregation.bitmap = meta.held | hdr.aggregation.bitmap;
        hdr.aggregation.collided = 1;
    }

    action collide() {
        meta.outcome = outcome_t.COLLIDED;
        meta.forward = 1;
        hdr.aggregation.collided = 1;
    }

    action take_over() {
        meta.pass = pass_t.TAKE_OVER;
        meta.again = 1;
    }

    // Packet swapping (§6): the packet's contribution is in the aggregator, and the packet is the
    // partial sum of the task that was there. Its own mark stays in the aggregator, too.
    action evict() {
        meta.value_access = value_access_t.SWAP;
        meta.outcome = outcome_t.PREEMPTED;
        hdr.aggregation.job = meta.held_job;
        hdr.aggregation.sequence = meta.held_sequence;
        hdr.aggregation.bitmap = meta.held;
        hdr.aggregation.priority = 0;
        hdr.aggregation.collided = 1;
        hdr.aggregation.congested = meta.mark;
        hdr.ipv4.ecn = hdr.ipv4.ecn == ECN_CONGESTION_EXPERIENCED ? ECN_CAPABLE : hdr.ipv4.ecn;
    }

    action distribute() {
        meta.outcome = outcome_t.DISTRIBUTED;
        standard.mcast_grp = meta.group;
    }

    // A reminder goes back to the agent with the sum …
    action fetch() {
        meta.value_access = value_access_t.FETCH;
        meta.outcome = outcome_t.REMINDED;
        hdr.aggregation.kind = kind_t.GRADIENT;
        hdr.aggregation.resend = 1;
        hdr.aggregation.bitmap = meta.held;
        meta.forward = 1;
    }

    // … or without.
    action deny() {
        meta.outcome = outcome_t.ABSENT;
        hdr.aggregation.kind = kind_t.ABSENT;
        meta.forward = 1;
    }

    // ESA, rule by rule.
    table rules {
        key = {
            meta.access:          exact;
            meta.holder:          exact;
            hdr.aggregation.kind: exact;
            meta.overlap:         ternary;
            meta.last:            ternary;
            meta.stronger:        ternary;
        }
        actions = { absorb; complete; carry; flush; collide; take_over; evict; distribute; fetch; deny; NoAction; }
        const default_action = NoAction();
        const entries = {
            // A fresh gradient.                                      overlap last stronger
            (access_t.CLAIM, holder_t.NOBODY, kind_t.GRADIENT,        _,      _,   _): absorb(value_access_t.STORE, outcome_t.ABSORBED);
            (access_t.CLAIM, holder_t.MINE,   kind_t.GRADIENT,        1,      _,   _): absorb(value_access_t.NONE, outcome_t.DUPLICATE);
            (access_t.CLAIM, holder_t.MINE,   kind_t.GRADIENT,        0,      0,   _): absorb(value_access_t.ADD, outcome_t.ADDED);
            (access_t.CLAIM, holder_t.MINE,   kind_t.GRADIENT,        0,      1,   _): complete();
            (access_t.CLAIM, holder_t.OTHER,  kind_t.GRADIENT,        _,      _,   0): collide();
            (access_t.CLAIM, holder_t.OTHER,  kind_t.GRADIENT,        _,      _,   1): take_over();

            // In the pass that takes over, the packet goes in, whoever holds the aggregator by then.
            // The task that was to be evicted: what it gained meanwhile is in the sum and the bitmap
            // that leave together. A third task, even one of higher priority: it is evicted with all
            // that it has, as it might have been a packet later. Nobody, for that task was
            // completed, fetched or swept: the packet is the first of its own. Its own task, for
            // another of its packets was faster: it joins, as it would have in its first pass, and
            // may even be the last; then a third pass follows.
            (access_t.SWAP,  holder_t.OTHER,  kind_t.GRADIENT,        _,      _,   _): evict();
            (access_t.SWAP,  holder_t.NOBODY, kind_t.GRADIENT,        _,      _,   _): absorb(value_access_t.STORE, outcome_t.ABSORBED);
            (access_t.SWAP,  holder_t.MINE,   kind_t.GRADIENT,        1,      _,   _): absorb(value_access_t.NONE, outcome_t.DUPLICATE);
            (access_t.SWAP,  holder_t.MINE,   kind_t.GRADIENT,        0,      0,   _): absorb(value_access_t.ADD, outcome_t.ADDED);
            (access_t.SWAP,  holder_t.MINE,   kind_t.GRADIENT,        0,      1,   _): complete();

            // In the pass that frees, the aggregator is most often as the packet left it. It is not
            // its task's any more: whoever freed it or took it found the sum with this packet's
            // contribution in it and sent it to the server or the agent, so the packet has done
            // its part. Late copies of packets have begun the task anew there: what they left is as
            // exact as any sum, and goes with this packet, which adds itself if it is not in it: to
            // all workers if it is whole after all, else to the server, which takes it or knows it.
            (access_t.FLUSH, holder_t.MINE,   kind_t.GRADIENT,        1,      1,   _): carry(value_access_t.FETCH);
            (access_t.FLUSH, holder_t.MINE,   kind_t.GRADIENT,        0,      1,   _): carry(value_access_t.ADD);
            (access_t.FLUSH, holder_t.MINE,   kind_t.GRADIENT,        1,      0,   _): flush(value_access_t.FETCH);
            (access_t.FLUSH, holder_t.MINE,   kind_t.GRADIENT,        0,      0,   _): flush(value_access_t.ADD);
            (access_t.FLUSH, holder_t.NOBODY, kind_t.GRADIENT,        _,      _,   _): absorb(value_access_t.NONE, outcome_t.ADDED);
            (access_t.FLUSH, holder_t.OTHER,  kind_t.GRADIENT,        _,      _,   _): absorb(value_access_t.NONE, outcome_t.ADDED);

            // A reminder.
            (access_t.FLUSH, holder_t.MINE,   kind_t.REMINDER,        _,      _,   _): fetch();
            (access_t.FLUSH, holder_t.NOBODY, kind_t.REMINDER,        _,      _,   _): deny();
            (access_t.FLUSH, holder_t.OTHER,  kind_t.REMINDER,        _,      _,   _): deny();

            // A result.
            (access_t.FREE,  holder_t.NOBODY, kind_t.PARAMETER,       _,      _,   _): distribute();
            (access_t.FREE,  holder_t.MINE,   kind_t.PARAMETER,       _,      _,   _): distribute();
            (access_t.FREE,  holder_t.OTHER,  kind_t.PARAMETER,       _,      _,   _): distribute();
        }
    }

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
            identity.apply(hdr.aggregation.job, hdr.aggregation.sequence, hdr.aggregation.index,
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
