// Whose contributions an aggregator holds.
//
// Fresh packets speak for disjoint units (a worker, or all workers of a rack), so a packet's bitmap
// is either wholly inside what the aggregator holds or wholly outside: adding it by "or" is safe.
#ifndef BITMAP_P4
#define BITMAP_P4

control Contributions(in bitmap_t bitmap, in index_t index, inout metadata_t meta) {
    register<bitmap_t>(POOL) bitmaps;

    action start() {
        bitmaps.write(index, bitmap);
    }

    action join() {
        bitmaps.read(meta.held, index);
        bitmaps.write(index, meta.held | bitmap);
    }

    action read() {
        bitmaps.read(meta.held, index);
    }

    action swap() {
        bitmaps.read(meta.held, index);
        bitmaps.write(index, bitmap);
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
        // Between tasks, bitmaps say nothing to each other.
        if (meta.holder == holder_t.MINE) {
            if ((meta.held & bitmap) != 0) {
                meta.overlap = 1;
            }
            if ((meta.held | bitmap) == meta.members) {
                meta.last = 1;
            }
        }
    }
}

#endif
