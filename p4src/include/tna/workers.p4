// Whether the packet's bitmap names one worker, and no more.
#ifndef WORKERS_P4
#define WORKERS_P4

#include "../headers.p4"

#define ONE_WORKER(i) (1 << i): one();

control Workers(in headers_t hdr, inout metadata_t meta) {
    action one() {
        meta.one = 1;
    }

    table singles {
        key = { hdr.aggregation.bitmap: exact; }
        actions = { one; NoAction; }
        const default_action = NoAction();
        const entries = {
            FOR_EACH_OF_31(ONE_WORKER) ONE_WORKER(31)
        }
        size = 32;
    }

    apply {
        singles.apply();
    }
}

#endif
