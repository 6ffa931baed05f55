// What P4INC and SwitchML know of a packet on its way through the switch.
#ifndef METADATA_P4
#define METADATA_P4

#include "../../states.p4"

struct metadata_t {
    #include "../fields.p4"

    // From the table of services.
    bit<1>         served;   // the job has this service
    bit<1>         segment;  // which gives it a segment of the aggregators
    bit<1>         inside;   // the packet's aggregator is in there
    bitmap_t       everyone; // all whose contributions a round waits for
    bitmap_t       total;    // all positions of the job
    bit<1>         local;    // they are all below this switch, which gives the results
    bit<1>         bare;     // the packet left out zeros
    bitmap_t       giver;    // of a gathered fragment
    bit<1>         owner;    // the packet is the giver's

    // From the aggregator.
    turn_t         turn;
    bit<1>         overflow; // any packet of the task had values too large for its scale
    bit<1>         result;   // the packet has become the result, for all workers
    bit<1>         chosen;   // several circuits lead to the packet's server, and its flow has this one
    port_t         way;
#ifdef COPIES
    bit<1>         kept;     // the result of the packet's round is in the copy
    copy_access_t  copy_access;
#endif
}

#endif
