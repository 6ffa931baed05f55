// Egress: floods do not go back, sweeps go on to the next aggregator, long queues leave marks, and results
// have values for those who need them.
#ifndef EGRESS_P4
#define EGRESS_P4

#include "../headers.p4"
#include "congestion.p4"

#ifdef AUDIENCES
#define DROP_BLOCK(n) hdr.values##n.setInvalid();

// A result without its values, for a worker that does not need them.
control Shorten(inout headers_t hdr, in bit<16> replica) {
    @hidden
    action shorten() {
        FOR_EACH_BLOCK(DROP_BLOCK)
        hdr.aggregation.values = 0;
        hdr.udp.datagram_length = UDP_LENGTH_BARE;
        hdr.ipv4.total_length = IPV4_BYTES + UDP_LENGTH_BARE;
    }

    apply {
        bit<16> named = (bit<16>)(hdr.aggregation.audience & ~ALL_BUT);
        if ((hdr.aggregation.audience & ALL_BUT != 0) == (named == replica)) {
            shorten();
        }
    }
}
#endif

control AggregationEgress(inout headers_t hdr, inout metadata_t meta,
                          inout standard_metadata_t standard) {
    CongestionMark() congestion_mark;
#ifdef AUDIENCES
    Shorten() shorten;
#endif

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
#ifdef AUDIENCES
            if (meta.result == 1 && hdr.aggregation.audience != 0) {
                shorten.apply(hdr, standard.egress_rid);
            }
#endif
        }
    }
}

#endif
