// When an aggregator was last used by its task, in nanoseconds modulo 2^32. Where one was idle for
// longer than IDLE_US, a packet of another task asks for a second pass to take it over.
#ifndef RECENCY_P4
#define RECENCY_P4

// Longer than 4.29 s is for ever.
#if IDLE_US > 4294966
#define IDLE_NS 0xffffffff
#else
#define IDLE_NS (IDLE_US * 1000)
#endif

control Recency(in index_t index, inout metadata_t meta) {
    Register<bit<32>, index_t>(POOL, 0) last_uses;

    RegisterAction<bit<32>, index_t, bit<32>>(last_uses) touch_use = {
        void apply(inout bit<32> last_use) {
            last_use = meta.now;
        }
    };

    RegisterAction<bit<32>, index_t, bit<32>>(last_uses) look_use = {
        void apply(inout bit<32> last_use, out bit<32> found) {
            found = last_use;
        }
    };

    action touch() {
        touch_use.execute(index);
    }

    action look() {
        meta.last_use = look_use.execute(index);
    }

    table access {
        key = {
            meta.access: exact;
            meta.joined: exact;
        }
        actions = { touch; look; NoAction; }
        const default_action = NoAction();
        const entries = {
            (access_t.CLAIM, 1): touch();
            (access_t.CLAIM, 0): look();
            (access_t.SEIZE, 0): touch();
            (access_t.SEIZE, 1): touch();
        }
        size = 4;
    }

    apply {
        access.apply();
    }
}

#endif
