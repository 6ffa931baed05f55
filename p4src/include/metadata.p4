// What a packet's journey through one switch is decided by.
#ifndef METADATA_P4
#define METADATA_P4

#include "types.p4"

// The field list that survives a resubmit or a recirculation.
const bit<8> KEPT = 1;

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

// Who held the aggregator when the packet came.
enum bit<2> holder_t {
    NOBODY = 0,
    MINE   = 1,
    OTHER  = 2
}

struct metadata_t {
    bit<1>         well_formed;
    bit<1>         ours;     // a packet of the program's protocol, right as far as it shows

    // From the membership table.
    bit<1>         member;   // the job, the kind and the port belong together
    bit<1>         transit;  // this switch only forwards the job
    bitmap_t       unit;     // the workers that one fresh packet from this port speaks for
    bitmap_t       members;  // the workers whose packets meet in this switch
    group_t        group;    // where results go; 0: nowhere
    job_slot_t     slot;

    // From the aggregator.
    access_t       access;
    holder_t       holder;
    job_t          held_job; // the task before this packet, where the two were swapped
    sequence_t     held_sequence;
    bitmap_t       held;     // bitmap before this packet
    bit<1>         overlap;  // held and the packet, of the same task, have a worker in common
    bit<1>         last;     // held and the packet, of the same task, together are all members
    bit<1>         idle;
    bit<1>         stronger; // the packet may take the aggregator from its holder
    bit<1>         mark;     // congestion met by any packet of the task so far
    value_access_t value_access;

    bit<1>         forward;
    bit<1>         result;   // the packet has become the result, for all workers
    bit<1>         again;    // another pass is wanted
    outcome_t      outcome;

    // Set before a resubmit: what the next pass is for.
    @field_list(KEPT)
    pass_t         pass;
    // Where the packet came in; another pass starts with all standard metadata but this lost.
    @field_list(KEPT)
    port_t         port;
}

#endif
