// Where each job's parameter server is: an evicted partial sum travels in a packet of another job,
// which is addressed to that job's own server.
#ifndef SERVERS_P4
#define SERVERS_P4

#include "headers.p4"

control Servers(inout headers_t hdr, inout metadata_t meta) {
    // Partial sums evicted, by the job that lost the aggregator.
    DIRECT_COUNTER(evictions)

    action to_server(mac_t mac, ipv4_address_t ipv4) {
        COUNT(evictions)
        hdr.ethernet.destination = mac;
        hdr.ipv4.destination = ipv4;
        meta.forward = 1;
    }

    // A job without a server has left: nobody waits for its sums.
    table servers {
        key = { hdr.aggregation.job: exact @name("job"); }
        actions = { to_server; @defaultonly NoAction; }
        const default_action = NoAction();
        counters = evictions;
        size = JOB_SLOTS;
    }

    apply {
        servers.apply();
    }
}

#endif
