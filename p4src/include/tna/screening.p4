// Sorts packets by what their headers say: plain traffic, sweeps of the controller, packets of the
// program's protocol, and what is wrong with itself. One table does what the parser and a few
// comparisons do in v1model.
#ifndef SCREENING_P4
#define SCREENING_P4

#include "../headers.p4"

// Kind, count and lengths must agree; and an index is below the pool.
#define FULL VALUES, UDP_LENGTH_FULL, IPV4_BYTES + UDP_LENGTH_FULL
#define BARE 0, UDP_LENGTH_BARE, IPV4_BYTES + UDP_LENGTH_BARE
#define IN_POOL 0 &&& ~(32w0 + (POOL - 1))

control Screening(in headers_t hdr, in ingress_intrinsic_metadata_from_parser_t from_parser,
                  inout metadata_t meta) {
    action plain() {
        meta.outcome = outcome_t.FORWARDED;
        meta.forward = 1;
    }

    action accept() {
        meta.ours = 1;
        meta.whose = hdr.aggregation.epoch;
        meta.round = hdr.aggregation.sequence + 1;
    }

#ifdef AUDIENCES
    action accept_bare() {
        accept();
        meta.bare = 1;
    }
#endif

    action sweep() {
        meta.sweep = 1;
        meta.outcome = outcome_t.SWEPT;
        meta.whose = hdr.aggregation.epoch;
        meta.round = hdr.aggregation.sequence + 1;
    }

    // Registers are a pipe's own, and the controller's port may be another pipe's than the workers': a
    // sweep has to change over before it looks at a cell.
    action enter() {
        meta.entering = 1;
        meta.chosen = 1;
        meta.way = RECIRCULATION_PORT;
        meta.outcome = outcome_t.SWEPT;
    }

    action refuse(outcome_t outcome) {
        meta.outcome = outcome;
    }

    table shapes {
        key = {
            hdr.aggregation.kind:     ternary;
            hdr.aggregation.values:   ternary;
            hdr.udp.datagram_length:  ternary;
            hdr.ipv4.total_length:    ternary;
            hdr.udp.checksum:         ternary;
            hdr.aggregation.unused:   ternary;
            hdr.aggregation.reserved: ternary;
            hdr.aggregation.audience: ternary;
            hdr.aggregation.protocol: ternary;
            hdr.aggregation.index:    ternary;
            meta.port:                ternary;
        }
        actions = {
            accept; enter; sweep; refuse;
#ifdef AUDIENCES
            accept_bare;
#endif
        }
        const default_action = refuse(outcome_t.MALFORMED);
        const entries = {
#ifdef AUDIENCES
            (kind_t.GRADIENT,     FULL, 0, 0, 0, _, PROTOCOL, IN_POOL, _): accept();
            // Only in a gather do workers have nothing to add.
            (kind_t.GRADIENT,     BARE, 0, 0, 0, ALL_BUT &&& ALL_BUT, PROTOCOL, IN_POOL, _): accept_bare();
#else
            (kind_t.GRADIENT,     FULL, 0, 0, 0, 0, PROTOCOL, IN_POOL, _): accept();
#endif
            (kind_t.PARAMETER,    FULL, 0, 0, 0, 0, PROTOCOL, IN_POOL, _): accept();
            (kind_t.REPLY,        FULL, 0, 0, 0, 0, PROTOCOL, IN_POOL, _): accept();
            (kind_t.REMINDER,     FULL, 0, 0, 0, 0, PROTOCOL, IN_POOL, _): accept();
            (kind_t.ABSENT,       FULL, 0, 0, 0, 0, PROTOCOL, IN_POOL, _): accept();
#ifdef ASYNCHRONOUS_ERRORS
            (kind_t.ASYNCHRONOUS, FULL, 0, 0, 0, 0, PROTOCOL, IN_POOL, _): accept();
#endif
            (kind_t.QUERY,        BARE, 0, 0, 0, 0, PROTOCOL, IN_POOL, _): accept();
            // From the controller, and then from ourselves, cell by cell.
            (kind_t.SWEEP,        BARE, 0, 0, 0, 0, PROTOCOL, IN_POOL, CPU_PORT): enter();
            (kind_t.SWEEP,        BARE, 0, 0, 0, 0, PROTOCOL, IN_POOL, RECIRCULATION_PORT): sweep();
            (kind_t.SWEEP,        BARE, 0, 0, 0, 0, PROTOCOL, IN_POOL, _): refuse(outcome_t.REJECTED);
        }
        size = 16;
    }

    apply {
        if (from_parser.parser_err != PARSER_ERROR_OK || meta.damaged) {
            refuse(outcome_t.MALFORMED);
        } else if (meta.barred == 1) {
            refuse(outcome_t.BARRED);
        } else if (!hdr.aggregation.isValid()) {
            plain();
        } else {
            shapes.apply();
        }
    }
}

#endif
