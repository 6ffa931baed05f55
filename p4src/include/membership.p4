// Which packets a port may send for a job, and what this switch is to that job. A packet that finds
// no entry is dropped: it names an unknown job, or comes from where none of that kind should.
#ifndef MEMBERSHIP_P4
#define MEMBERSHIP_P4

#include "headers.p4"
#include "metadata.p4"

control Membership(in headers_t hdr, inout metadata_t meta) {
    // Gradients from a port below which the workers `unit` are; `members` meet in this switch.
    action contribute(bitmap_t unit, bitmap_t members, job_slot_t slot) {
        meta.member = 1;
        meta.unit = unit;
        meta.members = members;
        meta.slot = slot;
    }

    // Results from the port of the parameter server, for the workers below this switch.
    action distribute(group_t group, job_slot_t slot) {
        meta.member = 1;
        meta.group = group;
        meta.slot = slot;
    }

    // Replies and queries from the port of the parameter server, each for one worker.
    action answer(job_slot_t slot) {
        meta.member = 1;
        meta.slot = slot;
    }

    // Packets of a job that has no aggregators in this switch.
    action pass(job_slot_t slot) {
        meta.member = 1;
        meta.transit = 1;
        meta.slot = slot;
    }

    table memberships {
        key = {
            hdr.aggregation.job: exact @name("job");
            meta.port: exact @name("port");
            hdr.aggregation.kind: exact @name("kind");
        }
        actions = { contribute; distribute; answer; pass; @defaultonly NoAction; }
        const default_action = NoAction();
        size = MEMBERSHIPS;
    }

    apply {
        memberships.apply();
    }
}

#endif
