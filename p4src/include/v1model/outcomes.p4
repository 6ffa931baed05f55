// Counts every packet once, by job and by what became of it.
#ifndef OUTCOMES_P4
#define OUTCOMES_P4

control Outcomes(in metadata_t meta) {
    // Index: job slot above, outcome below.
    counter(JOB_SLOTS * 32, CounterType.packets_and_bytes) outcomes;

    apply {
        outcomes.count(19w0 ++ meta.slot ++ (bit<5>)meta.outcome);
    }
}

#endif
