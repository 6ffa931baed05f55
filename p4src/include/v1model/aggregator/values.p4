// The sums of 32 values of an aggregator, and the blocks of them that make up a packet's payload.
#ifndef VALUES_P4
#define VALUES_P4

#include "../../headers.p4"

#define SUM_REGISTER(i) register<bit<32>>(POOL) sums##i;
#define SUM_STORE(i) sums##i.write(index, values.v##i);
#define SUM_ADD(i) \
    sums##i.read(sum, index); \
    sum = sum + values.v##i; \
    sums##i.write(index, sum); \
    values.v##i = sum;
#define SUM_FETCH(i) sums##i.read(values.v##i, index);
#define SUM_SWAP(i) \
    sums##i.read(sum, index); \
    sums##i.write(index, values.v##i); \
    values.v##i = sum;

control ValueBlock(inout values_t values, in index_t index, in value_access_t wanted) {
    FOR_EACH_LANE(SUM_REGISTER)
    bit<32> sum = 0;

    action store() {
        FOR_EACH_LANE(SUM_STORE)
    }

    action add() {
        FOR_EACH_LANE(SUM_ADD)
    }

    action fetch() {
        FOR_EACH_LANE(SUM_FETCH)
    }

    action swap() {
        FOR_EACH_LANE(SUM_SWAP)
    }

    table access {
        key = { wanted: exact; }
        actions = { store; add; fetch; swap; NoAction; }
        const default_action = NoAction();
        const entries = {
            value_access_t.STORE: store();
            value_access_t.ADD:   add();
            value_access_t.FETCH: fetch();
            value_access_t.SWAP:  swap();
        }
    }

    apply {
        access.apply();
    }
}

#define BLOCK_INSTANCE(n) ValueBlock() block##n;
#define BLOCK_APPLY(n) block##n.apply(hdr.values##n, hdr.aggregation.index, meta.value_access);

control Values(inout headers_t hdr, in metadata_t meta) {
    FOR_EACH_BLOCK(BLOCK_INSTANCE)

    apply {
        FOR_EACH_BLOCK(BLOCK_APPLY)
    }
}

#endif
