// What this switch does for a job: the service that the job's packets must name, and the segment of
// the aggregators that goes with it. A job that changes the way in which it is aggregated gets a new
// number, so that its late packets, of the old way, find no entry and are dropped.
#ifndef SERVICES_P4
#define SERVICES_P4

#include "headers.p4"

control Services(in headers_t hdr, inout metadata_t meta) {
    PLACE_VARIABLES

    // The job has `size` aggregators from `offset` on, for the contributions of `everyone`. In a rack
    // these are its workers, and bit 31 for all others, whom only the server hears. A result is that of
    // the positions `total`.
    action aggregate(index_t offset, index_t size, bitmap_t everyone, bitmap_t total) {
        meta.served = 1;
        meta.segment = 1;
        meta.everyone = everyone;
        meta.total = total;
        PLACE(offset, size, total)
    }

    // The job has none here.
    action forward() {
        meta.served = 1;
    }

    table services {
        key = {
            hdr.aggregation.job: exact @name("job");
            hdr.aggregation.priority: exact @name("service");
        }
        actions = { aggregate; forward; @defaultonly NoAction; }
        const default_action = NoAction();
        size = SERVICES;
    }

    apply {
        services.apply();
        CHECK_PLACE
    }
}

#endif
