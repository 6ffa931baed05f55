// Headers that never leave the switch.
#ifndef TARGET_HEADERS_P4
#define TARGET_HEADERS_P4

#include "../states.p4"

// Eight bytes, which is what a resubmitted packet can bring along on Tofino.
header passed_t {
    bit<6>  empty;
    pass_t  pass;
    color_t color;
    bit<48> unused;
}

// From ingress to egress: where a frame must not go, as it is flooded and came from there, and who needs
// its values.
header bridge_t {
#ifdef AUDIENCES
    bit<5> unused;
    bit<1> shortened; // without the values of a result
#else
    bit<6> unused;
#endif
    bit<1> flooded;
    port_t port;
#ifdef AUDIENCES
    audience_t audience; // of a result
#endif
}

// Whose an aggregator is, in a cell of two words.
struct task_t {
    sequence_t sequence;
    epoch_t    epoch; // the run of a job; zero where it is nobody's
}

#endif
