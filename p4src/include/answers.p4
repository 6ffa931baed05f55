// New addresses for packets that the switch answers itself, in the place of a parameter server. What
// it sends comes from where the gradient was addressed to, so that no bridge learns that a worker is
// behind another port than its own.
#ifndef ANSWERS_P4
#define ANSWERS_P4

#include "groups.p4"
#include "headers.p4"

// Back to whom it came from.
control TurnBack(inout headers_t hdr) {
    @hidden
    action turn_back() {
        mac_t mac = hdr.ethernet.source;
        hdr.ethernet.source = hdr.ethernet.destination;
        hdr.ethernet.destination = mac;
        ipv4_address_t address = hdr.ipv4.source;
        hdr.ipv4.source = hdr.ipv4.destination;
        hdr.ipv4.destination = address;
    }

    apply {
        turn_back();
    }
}

// To all workers of the job.
control Announce(inout headers_t hdr) {
    @hidden
    action announce() {
        hdr.ethernet.source = hdr.ethernet.destination;
        hdr.ethernet.destination = GROUP_MAC ++ hdr.aggregation.job;
        hdr.ipv4.source = hdr.ipv4.destination;
        hdr.ipv4.destination = GROUP_IPV4 ++ hdr.aggregation.job;
    }

    apply {
        announce();
    }
}

#endif
