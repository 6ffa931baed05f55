// Which packets a port may send for a job, and what this switch is to that job. A packet that finds
// no entry is dropped: it names an unknown job, is of another run of the job than the one that is
// admitted, or comes from where none of that kind should.
#ifndef MEMBERSHIP_P4
#define MEMBERSHIP_P4

#include "headers.p4"

control Membership(inout headers_t hdr, inout metadata_t meta) {
    // Gradients from a port below which the workers or positions `unit` are; `members` meet in this
    // switch. Where these are all of the job and the protocol lets the switch give results, it sends
    // them to `group`. Group 0: the sum goes on towards the parameter server, as that of the positions
    // `upward`: the members, or the one position that they share, being a rack's workers.
#ifdef PRIORITIES
    // None has a priority above the job's `ceiling`.
    #define CEILING , priority_t ceiling
    #define LOWER_PRIORITY LOWER(hdr.aggregation.priority, ceiling)
#else
    #define CEILING
    #define LOWER_PRIORITY
#endif
    action contribute(bitmap_t unit, bitmap_t members, bitmap_t upward, group_t group,
                      job_slot_t slot CEILING) {
        LOWER_PRIORITY
        meta.member = 1;
        meta.unit = unit;
        meta.members = members;
        meta.upward = upward;
        meta.group = group;
        meta.slot = slot;
        COMPARE(unit, members)
    }

    // Results from the port of the parameter server, for the workers below this switch.
    action distribute(group_t group, job_slot_t slot) {
        meta.member = 1;
        meta.group = group;
        meta.slot = slot;
        COMPARE(NOBODY_BELOW, NOBODY_BELOW)
    }

    // Reminders from the port of the agent: those for `members` are for this switch, others pass.
    action remind(bitmap_t members, job_slot_t slot) {
        meta.member = 1;
        meta.unit = members;
        meta.members = members;
        meta.slot = slot;
        COMPARE(members, members)
    }

    // Packets that pass to one host: replies and queries, and reminders for switches further on and
    // what these answer.
    action answer(job_slot_t slot) {
        meta.member = 1;
        meta.slot = slot;
        COMPARE(NOBODY_BELOW, NOBODY_BELOW)
    }

    // Packets of a job that has no aggregators in this switch, or not for the packet's rack.
    action pass(job_slot_t slot) {
        meta.member = 1;
        meta.transit = 1;
        meta.slot = slot;
    }

    table memberships {
        key = {
            hdr.aggregation.job: exact @name("job");
            hdr.aggregation.epoch: exact @name("epoch");
            meta.port: exact @name("port");
            hdr.aggregation.kind: exact @name("kind");
            hdr.aggregation.rack: exact @name("rack");
        }
        actions = { contribute; distribute; remind; answer; pass; @defaultonly NoAction; }
        const default_action = NoAction();
        size = MEMBERSHIPS;
    }

    apply {
        memberships.apply();
    }
}

#endif
