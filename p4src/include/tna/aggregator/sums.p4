// The sums of an aggregator: a register, a stateful ALU and a table for each value, as a table can
// use one stateful ALU and a stage has four.
#ifndef SUMS_P4
#define SUMS_P4

#include "../../headers.p4"

control Value(inout bit<32> value, in index_t index, in metadata_t meta) {
    Register<bit<32>, index_t>(POOL, 0) sums;

    RegisterAction<bit<32>, index_t, bit<32>>(sums) store_sum = {
        void apply(inout bit<32> sum) {
            sum = value;
        }
    };

    RegisterAction<bit<32>, index_t, bit<32>>(sums) add_sum = {
        void apply(inout bit<32> sum, out bit<32> result) {
            sum = sum + value;
            result = sum;
        }
    };

    RegisterAction<bit<32>, index_t, bit<32>>(sums) fetch_sum = {
        void apply(inout bit<32> sum, out bit<32> result) {
            result = sum;
        }
    };

    action store() {
        store_sum.execute(index);
    }

    action add() {
        value = add_sum.execute(index);
    }

    action fetch() {
        value = fetch_sum.execute(index);
    }

    table access {
        key = { meta.deed: exact; }
        actions = { store; add; fetch; NoAction; }
        const default_action = NoAction();
        const entries = {
            deed_t.PUT:  store();
            deed_t.ADD:  add();
            deed_t.READ: fetch();
        }
        size = 4;
    }

    apply {
        access.apply();
    }
}

#include "blocks.p4"

#endif
