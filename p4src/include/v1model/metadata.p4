// What is known of a packet on its way through the switch.
#ifndef METADATA_P4
#define METADATA_P4

#include "../states.p4"

// The field list that survives a resubmit or a recirculation.
const bit<8> KEPT = 1;

struct metadata_t {
    bit<1>         well_formed;
    bit<1>         barred;   // plain traffic in which a host could find a packet of ours
    bit<1>         ours;     // a packet of the program's protocol, right as far as it shows

    // From the membership table.
    bit<1>         member;   // the job, the kind and the port belong together
    bit<1>         transit;  // this switch only forwards the job
    bitmap_t       unit;     // the workers that one fresh packet from this port speaks for
    bitmap_t       members;  // the workers whose packets meet in this switch
    group_t        group;    // where results go; 0: nowhere
    job_slot_t     slot;

    // From the table of services.
    bit<1>         served;   // the job has this service
    bit<1>         segment;  // which gives it a segment of the aggregators
    bit<1>         inside;   // the packet's aggregator is in there
    bitmap_t       everyone; // all workers of the job
    bit<1>         local;    // they are all below this switch, which gives the results

    // From the aggregator.
    access_t       access;
    turn_t         turn;
    bit<1>         kept;     // the result of the packet's round is in the copy
    holder_t       holder;
    epoch_t        held_epoch; // the task before this packet, where the two were swapped
    sequence_t     held_sequence;
    bitmap_t       held;     // bitmap before this packet
    bit<1>         overlap;  // held and the packet, of the same task, have a worker in common
    bit<1>         last;     // with the packet's, of the same task, there are all members' values
    bit<1>         idle;
    bit<1>         stronger; // the packet may take the aggregator from its holder
    bit<1>         mark;     // congestion met by any packet of the task so far
    bit<1>         overflow; // any packet of the task had values too large for its scale
    value_access_t value_access;
    copy_access_t  copy_access;
    index_t        end;      // behind the last aggregator of a sweep

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
