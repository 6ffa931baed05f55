// What ATP and ESA know of a packet on its way through the switch.
#ifndef METADATA_P4
#define METADATA_P4

#include "../../states.p4"

struct metadata_t {
    #include "../fields.p4"

    // From the aggregator.
    holder_t       holder;
    epoch_t        held_epoch; // the task before this packet, where the two were swapped
    sequence_t     held_sequence;
    bit<1>         overlap;  // held and the packet, of the same task, have a worker in common
    bit<1>         again;    // another pass is wanted
#ifdef PRIORITIES
    bit<1>         stronger; // the packet may take the aggregator from its holder
    priority_t     raised;   // of the aggregator, at least the packet's own
    bit<1>         result;   // the packet has become the result, for all workers
#else
    bit<1>         idle;     // nobody used the aggregator for IDLE_US
#endif
}

#endif
