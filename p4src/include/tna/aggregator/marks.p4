// Whether any packet of an aggregator's task met congestion on its way here.
#ifndef MARKS_P4
#define MARKS_P4

control Marks(in index_t index, inout metadata_t meta) {
    Register<bit<8>, index_t>(POOL, 0) marks;

    RegisterAction<bit<8>, index_t, bit<8>>(marks) start_marks = {
        void apply(inout bit<8> cell, out bit<8> old) {
            old = cell;
            cell = meta.marked;
        }
    };

    RegisterAction<bit<8>, index_t, bit<8>>(marks) join_marks = {
        void apply(inout bit<8> cell, out bit<8> old) {
            old = cell;
            cell = cell | meta.marked;
        }
    };

    action start() {
        start_marks.execute(index);
    }

    // What was there before stays true of the packet that takes the sum along.
    action join() {
        meta.old_marks = join_marks.execute(index);
    }

    // What the packet brought stays behind.
    action swap() {
        meta.old_marks = start_marks.execute(index);
        meta.marked = 0;
    }

    table access {
        key = {
            meta.access: exact;
            meta.joined: exact;
            meta.held:   ternary;
            meta.common: ternary;
        }
        actions = { start; join; swap; NoAction; }
        const default_action = NoAction();
        const entries = {
            (access_t.CLAIM, 1, 0, _): start();
            (access_t.CLAIM, 1, _, 0): join();
            (access_t.SEIZE, 1, 0, _): start();
            (access_t.SEIZE, 1, _, 0): join();
            (access_t.SEIZE, 0, _, _): start();
            (access_t.SWAP,  1, 0, _): start();
            (access_t.SWAP,  1, _, 0): join();
            (access_t.SWAP,  0, _, _): swap();
            (access_t.FLUSH, 1, _, _): join();
        }
        size = 16;
    }

    apply {
        access.apply();
    }
}

#endif
