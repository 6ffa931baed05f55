// The sums of an aggregator: a register, a stateful ALU and a table for each value, as a table can
// use one stateful ALU and a stage has four.
//
// What is done with a value must be known in the first stage of values, and the rules, which say it in
// v1model, come later: so it is said here, in the same terms.
#ifndef VALUES_P4
#define VALUES_P4

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

    RegisterAction<bit<32>, index_t, bit<32>>(sums) swap_sum = {
        void apply(inout bit<32> sum, out bit<32> result) {
            result = sum;
            sum = value;
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

    action swap() {
        value = swap_sum.execute(index);
    }

    table access {
        key = {
            meta.access: exact;
            meta.joined: exact;
            meta.held:   ternary;
            meta.common: ternary;
        }
        actions = { store; add; fetch; swap; NoAction; }
        const default_action = NoAction();
        const entries = {
            // Nobody was there.
            (access_t.CLAIM, 1, 0, _): store();
            (access_t.SEIZE, 1, 0, _): store();
            (access_t.SWAP,  1, 0, _): store();
            // The packet's task, without it.
            (access_t.CLAIM, 1, _, 0): add();
            (access_t.SEIZE, 1, _, 0): add();
            (access_t.SWAP,  1, _, 0): add();
            (access_t.FLUSH, 1, _, 0): add();
            // The same, with it.
            (access_t.FLUSH, 1, _, _): fetch();
            // Another's.
            (access_t.SEIZE, 0, _, _): store();
            (access_t.SWAP,  0, _, _): swap();
        }
        size = 16;
    }

    apply {
        access.apply();
    }
}

#include "blocks.p4"

#endif
