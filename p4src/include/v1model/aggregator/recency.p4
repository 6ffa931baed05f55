// When an aggregator was last used by its task. A packet of another task that finds it idle for
// longer than IDLE_US asks for a second pass to take it over: identity was read already.
#ifndef RECENCY_P4
#define RECENCY_P4

control Recency(in bit<48> now_us, in index_t index, inout metadata_t meta) {
    register<bit<32>>(POOL) last_uses;
    bit<32> now = now_us[31:0];
    bit<32> last_use = now;

    action touch() {
        last_uses.write(index, now);
    }

    action look() {
        last_uses.read(last_use, index);
    }

    table access {
        key = {
            meta.access: exact;
            meta.holder: exact;
        }
        actions = { touch; look; NoAction; }
        const default_action = NoAction();
        const entries = {
            (access_t.CLAIM, holder_t.NOBODY): touch();
            (access_t.CLAIM, holder_t.MINE):   touch();
            (access_t.CLAIM, holder_t.OTHER):  look();
            (access_t.SEIZE, holder_t.NOBODY): touch();
            (access_t.SEIZE, holder_t.MINE):   touch();
        }
    }

    apply {
        access.apply();
        // Modulo 2^32 microseconds: the clock wraps every 71 minutes.
        if (now - last_use > IDLE_US) {
            meta.idle = 1;
        }
    }
}

#endif
