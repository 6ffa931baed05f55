// What is known of a packet on its way through the switch.
#ifndef METADATA_P4
#define METADATA_P4

#include "../states.p4"

// What a packet does to the values of its round's aggregator.
enum bit<3> deed_t {
    NONE  = 0,
    PUT   = 1, // replaces the sum, which becomes the copy
    ADD   = 2,
    READ  = 3, // takes the sum along
    OLDER = 4  // takes the copy along, if it is of the packet's round
}

struct metadata_t {
    bool           damaged;    // the checksum of the IPv4 header is wrong
    bit<1>         barred;     // plain traffic in which a host could find a packet of ours
    port_t         port;       // where the packet came in
    bit<1>         ours;       // a packet of the program's protocol, right as far as it shows
    bit<1>         sweep;      // or one of the controller's sweeps
    bit<1>         entering;   // or such a sweep that has just come, maybe to another pipe
    pass_t         pass;       // which time the packet goes through, and why

    // From the membership table.
    bit<1>         member;     // the job, the kind and the port belong together
    bit<1>         transit;    // this switch only forwards the job
    bitmap_t       unit;       // the workers that one fresh packet from this port speaks for
    bitmap_t       members;    // the workers whose packets meet in this switch
    group_t        group;      // where results go; 0: nowhere
    job_slot_t     slot;
    bitmap_t       difference; // of the packet's bitmap and the unit
    bitmap_t       foreign;    // those in the packet's bitmap who are not below its port
    bitmap_t       others;     // difference of the packet's bitmap and the members

    bit<1>         one;        // the packet's bitmap names one worker

    // From the table of services.
    bit<1>         served;     // the job has this service
    bit<1>         segment;    // which gives it a segment of the aggregators
    bitmap_t       everyone;   // all workers of the job
    bitmap_t       strangers;  // difference of the packet's bitmap and everyone
    bitmap_t       workers;    // to cross off: the unit; or for a new round to wait for: the others
    bit<1>         local;      // they are all below this switch, which gives the results
    bit<1>         alone;      // they are not, and here is only the packet's
    index_t        before;     // from the packet's aggregator to the segment's first: not above zero …
    bit<1>         begun;      // … is in the segment or behind it
    index_t        places;     // in the segment
    index_t        room;       // from the packet's aggregator to the segment's end: above zero is not behind

    // From the aggregator.
    epoch_t        whose;      // what the identity says where the aggregator is the packet's own
    access_t       access;
    bit<32>        found;      // what the identity's register says
    bit<1>         joined;     // the aggregator is the packet's own, or was free
    bitmap_t       held;       // bitmap before this packet
    bitmap_t       common;     // what that and the packet's have in common
    bitmap_t       together;   // both
    holder_t       holder;
    epoch_t        held_epoch;
    sequence_t     held_sequence;
    bit<1>         overlap;
    bit<1>         last;       // with the packet's, of the same task, there are all members' values
    bit<32>        now;        // ns
    bit<32>        last_use;   // ns
    bit<32>        age;        // ns
    bit<32>        overtime;   // of the age, ns
    bit<1>         idle;
    bit<32>        priority;   // the packet's, as wide as a register's cell
    bit<32>        challenge;  // the priority of a holder, and how often it was challenged
    priority_t     rank;       // that priority, as it is by now
    priority_t     excess;     // of the packet's priority over it
    bit<1>         stronger;   // the packet may take the aggregator from its holder
    bit<1>         mark;       // congestion met by any packet of the task so far
    bit<8>         marked;     // the same, as wide as a register's cell
    bit<8>         spilled;    // and that for the overflow below
    bit<8>         old_marks;
    bit<8>         flags;      // any packet of the task met congestion (2), had values too large (1)
    bit<8>         old_flags;
    sequence_t     round;      // the packet's, plus one
    sequence_t     found_round;
    sequence_t     ahead;      // of that the packet's
    bitmap_t       left;       // the workers that the round lacks after this packet
    bitmap_t       left_here;  // of these, those below this switch
    deed_t         deed;
    turn_t         turn;
    bit<1>         kept;       // the result of the packet's round is in the copy
    value_access_t value_access;
    copy_access_t  copy_access;

    bit<1>         forward;
    bit<1>         result;     // the packet has become the result, for all workers
    bit<1>         again;      // another pass is wanted
    outcome_t      outcome;
    bit<13>        counter;
}

#endif
