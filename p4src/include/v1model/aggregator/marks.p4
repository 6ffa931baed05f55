// Whether any packet of an aggregator's task met congestion on its way here.
#ifndef MARKS_P4
#define MARKS_P4

control Marks(in index_t index, inout metadata_t meta) {
    register<bit<1>>(POOL) marks;
    bit<1> old = 0;

    action start() {
        marks.write(index, meta.mark);
    }

    action join() {
        marks.read(old, index);
        meta.mark = meta.mark | old;
        marks.write(index, meta.mark);
    }

    action read() {
        marks.read(old, index);
        meta.mark = meta.mark | old;
    }

    action swap() {
        marks.read(old, index);
        marks.write(index, meta.mark);
        meta.mark = old;
    }

    table access {
        key = {
            meta.access: exact;
            meta.holder: exact;
        }
        actions = { start; join; read; swap; NoAction; }
        const default_action = NoAction();
        const entries = {
            (access_t.CLAIM, holder_t.NOBODY): start();
            (access_t.CLAIM, holder_t.MINE):   join();
            (access_t.SEIZE, holder_t.NOBODY): start();
            (access_t.SEIZE, holder_t.MINE):   join();
            (access_t.FLUSH, holder_t.MINE):   read();
            (access_t.SWAP,  holder_t.NOBODY): start();
            (access_t.SWAP,  holder_t.MINE):   join();
            (access_t.SWAP,  holder_t.OTHER):  swap();
        }
    }

    apply {
        access.apply();
    }
}

#endif
