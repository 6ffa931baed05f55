// Counts every packet once, in its last pass, by job and by what became of it.
#ifndef OUTCOMES_P4
#define OUTCOMES_P4

control Outcomes(inout metadata_t meta) {
    // Index: job slot above, outcome below.
    Counter<bit<64>, bit<13>>(JOB_SLOTS * 32, CounterType_t.PACKETS_AND_BYTES) outcomes;

    apply {
        meta.counter = meta.slot ++ (bit<5>)meta.outcome;
        if (meta.again == 0 && meta.entering == 0) {
            outcomes.count(meta.counter);
        }
    }
}

#endif
