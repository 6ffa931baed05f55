// Sorts packets by what their headers say: plain traffic, sweeps of the controller, packets of the
// program's protocol, and what is wrong with itself.
#ifndef SCREENING_P4
#define SCREENING_P4

#include "../headers.p4"

control Screening(in headers_t hdr, in standard_metadata_t standard, in protocol_t protocol,
                  inout metadata_t meta) {
    apply {
        if (meta.pass == pass_t.FIRST) {
            meta.port = standard.ingress_port;
        }

        if (standard.parser_error != error.NoError || standard.checksum_error == 1) {
            meta.outcome = outcome_t.MALFORMED;
        } else if (meta.barred == 1) {
            meta.outcome = outcome_t.BARRED;
        } else if (!hdr.aggregation.isValid()) {
            meta.outcome = outcome_t.FORWARDED;
            meta.forward = 1;
        } else if (meta.well_formed == 0 || hdr.udp.checksum != 0
                   || hdr.aggregation.unused != 0
                   || hdr.aggregation.reserved != 0
#ifdef AUDIENCES
                   || (hdr.aggregation.audience != 0 && hdr.aggregation.kind != kind_t.GRADIENT)
                   // Only in a gather do workers have nothing to add.
                   || (hdr.aggregation.kind == kind_t.GRADIENT && hdr.aggregation.values == 0
                       && hdr.aggregation.audience & ALL_BUT == 0)
#else
                   || hdr.aggregation.audience != 0
#endif
                   || hdr.aggregation.protocol != protocol
                   || hdr.aggregation.index >= POOL) {
            meta.outcome = outcome_t.MALFORMED;
        } else if (hdr.aggregation.kind == kind_t.SWEEP) {
            // From the controller, and then from ourselves, cell by cell.
            if (meta.port == CPU_PORT || standard.instance_type == RECIRCULATED) {
                meta.access = access_t.SWEEP;
                meta.end = POOL;
                meta.outcome = outcome_t.SWEPT;
            } else {
                meta.outcome = outcome_t.REJECTED;
            }
        } else {
            meta.ours = 1;
        }
    }
}

#endif
