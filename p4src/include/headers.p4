// Headers. docs/concepts/atp.md draws the aggregation header bit by bit; crates/wire is its Rust side.
#ifndef HEADERS_P4
#define HEADERS_P4

#include "types.p4"

header ethernet_t {
    mac_t   destination;
    mac_t   source;
    bit<16> ethertype;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  header_words;
    bit<6>  dscp;
    bit<2>  ecn;
    bit<16> total_length;
    bit<16> identification;
    bit<1>  reserved;
    bit<1>  dont_fragment;
    bit<1>  more_fragments;
    bit<13> fragment_offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    ipv4_address_t source;
    ipv4_address_t destination;
}

header udp_t {
    bit<16> source_port;
    bit<16> destination_port;
    bit<16> datagram_length;
    bit<16> checksum; // zero: not used, as the switch changes the payload
}

header aggregation_t {
    protocol_t protocol;
    kind_t     kind;
    bit<4>     unused;
    bit<1>     congested;
    bit<1>     overflow;
    bit<1>     collided;
    bit<1>     resend;
    priority_t priority;
    job_t      job;
    bit<16>    values;
    epoch_t    epoch;
    sequence_t sequence;
    bitmap_t   bitmap;
    rack_t     rack;     // of the workers in the bitmap; 0: it names positions of the job
    audience_t audience; // who needs the values of the result
    bit<16>    reserved; // zero
    index_t    index;
}

#define VALUE_FIELD(i) bit<32> v##i;

header values_t {
    FOR_EACH_LANE(VALUE_FIELD)
}

#define VALUES_HEADER(n) values_t values##n;

struct headers_t {
    TARGET_HEADERS
    ethernet_t    ethernet;
    ipv4_t        ipv4;
    udp_t         udp;
    aggregation_t aggregation;
    FOR_EACH_BLOCK(VALUES_HEADER)
}

#endif
