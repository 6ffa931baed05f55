// Where the parameter server of each run of a job is: an evicted partial sum travels in a packet of
// another job, which is addressed to that job's own server. An aggregator names the run, and the run
// names the job.
#ifndef SERVERS_P4
#define SERVERS_P4

#include "headers.p4"

control Servers(inout headers_t hdr, inout metadata_t meta) {
    // Partial sums evicted, by the job that lost the aggregator.
    DIRECT_COUNTER(evictions)

    // In one switch, all contributions to a run name workers of the same rack, or positions.
    action to_server(job_t job, rack_t rack, mac_t mac, ipv4_address_t ipv4) {
        COUNT(evictions)
        hdr.aggregation.job = job;
        hdr.aggregation.rack = rack;
        hdr.ethernet.destination = mac;
        hdr.ipv4.destination = ipv4;
        meta.forward = 1;
    }

    // A run without a server is over: nobody waits for its sums.
    table servers {
        key = { hdr.aggregation.epoch: exact @name("epoch"); }
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
