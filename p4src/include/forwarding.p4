// Plain forwarding: routed where a frame is addressed to the switch, else bridged; unknown and
// group destinations are flooded.
#ifndef FORWARDING_P4
#define FORWARDING_P4

#include "headers.p4"

control Forwarding(inout headers_t hdr, SENDING) {
    action drop() {
        DROP
    }

    action to_port(port_t port) {
        SEND(port)
    }

    action flood() {
        FLOOD
    }

    action to_next_hop(port_t port, mac_t source, mac_t destination) {
        SEND(port)
        hdr.ethernet.source = source;
        hdr.ethernet.destination = destination;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    // MAC addresses of the switch itself.
    table own_address {
        key = { hdr.ethernet.destination: exact; }
        actions = { NoAction; }
        const default_action = NoAction();
        size = 16;
    }

    table routes {
        key = { hdr.ipv4.destination: lpm; }
        actions = { to_next_hop; drop; }
        const default_action = drop();
        size = ROUTES;
    }

    table hosts {
        key = { hdr.ethernet.destination: exact; }
        actions = { to_port; flood; drop; }
        const default_action = flood();
        size = HOSTS;
    }

    apply {
        if (own_address.apply().hit) {
            // Headers with options would need a checksum over more than the parser knows.
            if (hdr.ipv4.isValid() && hdr.ipv4.header_words == 5 && hdr.ipv4.ttl > 1) {
                routes.apply();
            } else {
                drop();
            }
        } else {
            hosts.apply();
        }
    }
}

#endif
