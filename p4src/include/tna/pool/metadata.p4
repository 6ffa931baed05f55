// What ATP and ESA know of a packet on its way through the switch.
#ifndef METADATA_P4
#define METADATA_P4

#include "../../states.p4"

// How wide the level of a priority is: aggregator/priority.p4.
#if LINEAR_PRIORITIES == 0
#define LEVEL_BITS 8
#else
#define LEVEL_BITS 16
#endif

struct metadata_t {
    #include "../fields.p4"

#ifdef PRIORITIES
    bit<1>         one;        // the packet's bitmap names one worker
#endif

    // From the aggregator.
    epoch_t        whose;      // what the identity says where the aggregator is the packet's own
    access_t       access;
    bit<32>        found;      // what the identity's register says
    bit<1>         joined;     // the aggregator is the packet's own, or was free
    bitmap_t       held;       // bitmap before this packet
    bitmap_t       common;     // what that and the packet's have in common
    bitmap_t       together;   // both
    holder_t       holder;
#ifdef PRIORITIES
    epoch_t        held_epoch; // the task before this packet, where the two were swapped
    sequence_t     held_sequence;
#endif
    bit<1>         overlap;    // held and the packet, of the same task, have a worker in common
    bit<1>         last;       // with the packet's, of the same task, there are all members' values
#ifdef PRIORITIES
    bit<32>        level;      // of the packet's priority
    bit<32>        held_level; // of the aggregator's; where the packet has joined, at least that of its own
    bit<LEVEL_BITS> excess;    // of the packet's level over it
    priority_t     raised;     // the priority of held_level
    bit<1>         stronger;   // the packet may take the aggregator from its holder
    bit<1>         mark;       // congestion met by any packet of the task so far
#else
    bit<32>        now;        // ns
    bit<32>        last_use;   // ns
    bit<32>        age;        // ns
    bit<32>        overtime;   // of the age, ns
    bit<1>         idle;       // nobody used the aggregator for IDLE_US
#endif
    bit<8>         marked;     // congestion, as wide as a register's cell
    bit<8>         old_marks;
    sequence_t     round;      // the screening writes it; only P4INC and SwitchML read it
    value_access_t value_access; // the rules write it: values.p4 decides before them

    bit<1>         forward;
#ifdef PRIORITIES
    bit<1>         result;     // the packet has become the result, for all workers
#endif
    bit<1>         again;      // another pass is wanted
    outcome_t      outcome;
    bit<13>        counter;
}

#endif
