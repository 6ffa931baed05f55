// Circuits between the same two units (P4INC-AOI). A flow is what comes from one port for one job. Each flow takes one
// circuit, so that its packets stay in their order.
#ifndef CIRCUITS_P4
#define CIRCUITS_P4

#include "headers.p4"

control Circuits(in headers_t hdr, inout metadata_t meta) {
    action take(port_t circuit) {
        meta.chosen = 1;
        meta.way = circuit;
    }

    // Flows towards a server to which more than one circuit leads.
    table circuits {
        key = {
            hdr.aggregation.job: exact @name("job");
            meta.port:           exact @name("port");
        }
        actions = { take; NoAction; }
        const default_action = NoAction();
        size = FLOWS;
    }

    apply {
        if (hdr.aggregation.isValid()) {
            circuits.apply();
        }
    }
}

#endif
