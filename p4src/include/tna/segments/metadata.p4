// What P4INC and SwitchML know of a packet on its way through the switch.
#ifndef METADATA_P4
#define METADATA_P4

#include "../../states.p4"

// What a packet does to the values of its round's aggregator.
enum bit<3> deed_t {
    NONE  = 0,
    PUT   = 1, // replaces the sum, which becomes the copy
    ADD   = 2,
    READ  = 3, // takes the sum along
    OLDER = 4  // takes the copy along, if it is of the packet's round
}

struct metadata_t {
    #include "../fields.p4"

    bit<1>         one;        // the packet's bitmap names one worker

    // From the table of services.
    bit<1>         served;     // the job has this service
    bit<1>         segment;    // which gives it a segment of the aggregators
    bitmap_t       everyone;   // all whose contributions a round waits for
    bitmap_t       total;      // all positions of the job
    bitmap_t       strangers;  // difference of the packet's bitmap and the total
    bitmap_t       workers;    // to cross off: the unit; or for a new round to wait for: the others
    bit<1>         local;      // they are all below this switch, which gives the results
    bit<1>         bare;       // the packet left out zeros
    bitmap_t       giver;      // of a gathered fragment
    bit<1>         owner;      // the packet is the giver's
#ifdef COPIES
    bit<1>         alone;      // they are not, and here is only the packet's
#endif
    index_t        before;     // from the packet's aggregator to the segment's first: not above zero …
    bit<1>         begun;      // … is in the segment or behind it
    index_t        places;     // in the segment
    index_t        room;       // from the packet's aggregator to the segment's end: above zero is not behind

    // From the aggregator.
    epoch_t        whose;      // the screening writes it; only ATP and ESA read it
    access_t       access;
    bitmap_t       held;       // the workers that the round lacked before this packet
    bit<1>         last;       // with the packet's, of the same task, there are all members' values
    bit<1>         mark;       // an asynchronous error: the packet leaves marked, whatever it met
    bit<8>         marked;     // congestion met by the packet: 2, as in the flags
    bit<8>         spilled;    // it had values too large for the round's scale: 1
    bit<8>         flags;      // any packet of the task met congestion (2), had values too large (1)
    bit<8>         old_flags;
    sequence_t     round;      // the packet's, plus one
    sequence_t     found_round;
    sequence_t     ahead;      // of that the packet's
    bitmap_t       left;       // the workers that the round lacks after this packet
    bitmap_t       left_here;  // of these, those below this switch
    deed_t         deed;
    turn_t         turn;
#ifdef COPIES
    bit<1>         kept;       // the result of the packet's round is in the copy
#endif
    value_access_t value_access; // the rules write it: flags.p4 decides before them
#ifdef COPIES
    copy_access_t  copy_access; // likewise
#endif

    bit<1>         forward;
    bit<1>         result;     // the packet has become the result, for all workers
    bit<1>         again;      // another pass is wanted
    outcome_t      outcome;
    bit<13>        counter;
}

#endif
