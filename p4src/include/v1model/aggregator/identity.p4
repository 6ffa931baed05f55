// Whose an aggregator is: the run of a job and the sequence in one word, zero when it is free.
//
// One read-modify-write a pass decides who holds it from now on and tells who held it before.
#ifndef IDENTITY_P4
#define IDENTITY_P4

control Identity(in epoch_t epoch, in sequence_t sequence, in index_t index, inout metadata_t meta) {
    register<bit<64>>(POOL) tasks;
    bit<64> task = epoch ++ sequence;
    bit<64> old = 0;

    action claim() {
        tasks.read(old, index);
        tasks.write(index, old == 0 ? task : old);
    }

    action seize() {
        tasks.read(old, index);
        tasks.write(index, task);
        old = old == task ? task : 0;
    }

    action swap() {
        tasks.read(old, index);
        tasks.write(index, task);
        meta.held_epoch = old[63:32];
        meta.held_sequence = old[31:0];
    }

    action free() {
        tasks.read(old, index);
        tasks.write(index, old == task ? 0 : old);
    }

    action sweep() {
        tasks.read(old, index);
        tasks.write(index, old[63:32] == epoch ? 0 : old);
        old = old[63:32] == epoch ? task : 0;
    }

    table access {
        key = { meta.access: exact; }
        actions = { claim; seize; swap; free; sweep; NoAction; }
        const default_action = NoAction();
        const entries = {
            access_t.CLAIM: claim();
            access_t.SEIZE: seize();
            access_t.SWAP:  swap();
            access_t.FLUSH: free();
            access_t.FREE:  free();
            access_t.SWEEP: sweep();
        }
    }

    apply {
        access.apply();
        if (old == task) {
            meta.holder = holder_t.MINE;
        } else if (old == 0) {
            meta.holder = holder_t.NOBODY;
        } else {
            meta.holder = holder_t.OTHER;
        }
    }
}

#endif
