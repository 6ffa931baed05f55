// The values of a packet, each with what Value does with one.
#ifndef BLOCKS_P4
#define BLOCKS_P4

#define VALUE_INSTANCE(i) Value() value##i;
#define VALUE_APPLY(i) value##i.apply(values.v##i, index, meta);

control ValueBlock(inout values_t values, in index_t index, in metadata_t meta) {
    FOR_EACH_LANE(VALUE_INSTANCE)

    apply {
        FOR_EACH_LANE(VALUE_APPLY)
    }
}

#define BLOCK_INSTANCE(n) ValueBlock() block##n;
#define BLOCK_APPLY(n) block##n.apply(hdr.values##n, hdr.aggregation.index, meta);

control Values(inout headers_t hdr, in metadata_t meta) {
    FOR_EACH_BLOCK(BLOCK_INSTANCE)

    apply {
        FOR_EACH_BLOCK(BLOCK_APPLY)
    }
}

#endif
