// Egress: floods do not go back, sweeps go on to the next aggregator, long queues leave marks.
#ifndef EGRESS_P4
#define EGRESS_P4

#include "../headers.p4"
#include "congestion.p4"

control AggregationEgress(inout headers_t hdr, inout metadata_t meta,
                          inout standard_metadata_t standard) {
    CongestionMark() congestion_mark;

    action drop() {
        mark_to_drop(standard);
    }

    apply {
        if (standard.mcast_grp == FLOOD_GROUP && standard.egress_port == meta.port) {
            // A flooded frame does not go back where it came from.
            drop();
        } else if (meta.access == access_t.SWEEP && hdr.aggregation.index < meta.end) {
            recirculate_preserving_field_list(KEPT);
        } else {
            congestion_mark.apply(hdr, standard);
        }
    }
}

#endif
