// What a packet's journey through one switch is decided by.
#ifndef STATES_P4
#define STATES_P4

#include "types.p4"

// What a packet wants of its aggregator.
enum bit<3> access_t {
    NONE  = 0, // nothing: it passes
    CLAIM = 1, // take it if empty, join it if it is the packet's own task
    SEIZE = 2, // take it, whoever holds it; what another task had in it is lost
    FLUSH = 3, // free it and take its sum along, if it is the packet's own task
    FREE  = 4, // free it, if it is the packet's own task
    SWEEP = 5, // free it, if it is the packet's own job
    SWAP  = 6  // take it, whoever holds it, and leave with what another task had in it
}

// Which time a packet goes through ingress, and why.
enum bit<2> pass_t {
    FIRST     = 0, // just arrived
    TAKE_OVER = 1, // resubmitted to take the aggregator of another task
    COMPLETE  = 2  // resubmitted to free the aggregator that it made complete
}

// How a packet's round stands to that of its aggregator (P4INC, SwitchML).
enum bit<3> turn_t {
    STARTS = 0, // it follows one that is finished, and takes the aggregator
    JOINS  = 1, // it is that one, which waits for the packet's worker
    AGAIN  = 2, // it is that one, which does not wait for the packet's worker
    LATE   = 3, // the aggregator is at a later one
    EARLY  = 4  // it follows one that is not finished
}

// Who held the aggregator when the packet came.
enum bit<2> holder_t {
    NOBODY = 0,
    MINE   = 1,
    OTHER  = 2
}

#endif
