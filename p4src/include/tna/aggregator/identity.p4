// Whose an aggregator is: sequence in the lower word, job in the upper, which is zero when it is free.
// Part of the ingress control: its table of intents calls the actions.
//
// A stateful ALU compares twice and says one word, so that word must tell the packet's own cases from
// the rest. After a claim it is the packet's job where the aggregator was free, as the job was just
// written, and where both job and sequence are the packet's. Anything else is another's. Which of the
// two it was is seen by the bitmap, which is empty where nobody was.

Register<task_t, index_t>(POOL, { 0, 0 }) tasks;

RegisterAction<task_t, index_t, bit<32>>(tasks) claim_task = {
    void apply(inout task_t task, out bit<32> found) {
        if (task.job == 0 || task.sequence == hdr.aggregation.sequence) {
            if (task.job == 0) {
                task.sequence = hdr.aggregation.sequence;
                task.job = meta.job;
            }
            found = task.job;
        } else {
            found = 0;
        }
    }
};

RegisterAction<task_t, index_t, bit<32>>(tasks) free_task = {
    void apply(inout task_t task, out bit<32> found) {
        if (task.job == meta.job && task.sequence == hdr.aggregation.sequence) {
            found = task.job;
            task.sequence = 0;
            task.job = 0;
        } else {
            found = 0;
        }
    }
};

RegisterAction<task_t, index_t, bit<32>>(tasks) sweep_task = {
    void apply(inout task_t task, out bit<32> found) {
        if (task.job == meta.job) {
            found = task.job;
            task.sequence = 0;
            task.job = 0;
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
