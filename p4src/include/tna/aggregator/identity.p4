// Whose an aggregator is: sequence in the lower word, the run of a job in the upper, zero when it is free.
// Part of the ingress control: its table of intents calls the actions.
//
// A stateful ALU compares twice and says one word, so that word must tell the packet's own cases from
// the rest. After a claim it is the packet's run where the aggregator was free, as the run was just
// written, and where both run and sequence are the packet's. Anything else is another's. Which of the
// two it was is seen by the bitmap, which is empty where nobody was.

Register<task_t, index_t>(POOL, { 0, 0 }) tasks;

RegisterAction<task_t, index_t, bit<32>>(tasks) claim_task = {
    void apply(inout task_t task, out bit<32> found) {
        if (task.epoch == 0 || task.sequence == hdr.aggregation.sequence) {
            if (task.epoch == 0) {
                task.sequence = hdr.aggregation.sequence;
                task.epoch = hdr.aggregation.epoch;
            }
            found = task.epoch;
        } else {
            found = 0;
        }
    }
};

RegisterAction<task_t, index_t, bit<32>>(tasks) free_task = {
    void apply(inout task_t task, out bit<32> found) {
        if (task.epoch == hdr.aggregation.epoch && task.sequence == hdr.aggregation.sequence) {
            found = task.epoch;
            task.sequence = 0;
            task.epoch = 0;
        } else {
            found = 0;
        }
    }
};

RegisterAction<task_t, index_t, bit<32>>(tasks) sweep_task = {
    void apply(inout task_t task, out bit<32> found) {
        if (task.epoch == hdr.aggregation.epoch) {
            found = task.epoch;
            task.sequence = 0;
            task.epoch = 0;
        } else {
            found = 0;
        }
    }
};

action touch_claim() {
    meta.access = access_t.CLAIM;
    meta.found = claim_task.execute(hdr.aggregation.index);
}

action touch_flush() {
    meta.access = access_t.FLUSH;
    meta.found = free_task.execute(hdr.aggregation.index);
}

action touch_free() {
    meta.access = access_t.FREE;
    meta.found = free_task.execute(hdr.aggregation.index);
}

action touch_sweep() {
    meta.access = access_t.SWEEP;
    meta.found = sweep_task.execute(hdr.aggregation.index);
}
