// How much a port may send for a job, and how much of other traffic: what its host sends above that is
// dropped, so that it takes no bandwidth and no aggregators from others; and what it sends above a lower rate has
// the lowest priority (ESA), so that it evicts nobody. A port without an entry has no limit.
#ifndef LIMITS_P4
#define LIMITS_P4

#include "headers.p4"

control Limits(in headers_t hdr, inout metadata_t meta) {
    DIRECT_METER(rate)

    action limit() {
        METER(rate, meta.color)
    }

    // Job 0: traffic of no job.
    table limits {
        key = {
            meta.payer: exact @name("job");
            meta.port: exact @name("port");
        }
        actions = { limit; @defaultonly NoAction; }
        const default_action = NoAction();
        meters = rate;
        size = LIMITS;
    }

    // A packet that comes once more was metered before.
    apply {
        if (meta.pass == pass_t.FIRST) {
            limits.apply();
        }
    }
}

#endif
