// Egress: floods do not go back, long queues leave marks.
#ifndef EGRESS_P4
#define EGRESS_P4

#include "../headers.p4"
#include "headers.p4"

// A queue is as long as ECN_THRESHOLD packets with values, in the cells of 80 bytes that it is made of.
const bit<19> ECN_CELLS =
    ECN_THRESHOLD * ((14 + 20 + 8 + 28 + 4 * VALUES + 79) / 80);

struct egress_headers_t {
    bridge_t   bridge;
    ethernet_t ethernet;
    ipv4_t     ipv4;
}

struct egress_metadata_t {}

parser EgressParser(packet_in packet, out egress_headers_t hdr, out egress_metadata_t meta,
                    out egress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        packet.extract(hdr.bridge);
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: internet;
            default: accept;
        }
    }

    state internet {
        transition select(packet.lookahead<bit<8>>()) {
            0x05 &&& 0x0f: ipv4;
            default: accept;
        }
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control Egress(inout egress_headers_t hdr, inout egress_metadata_t meta,
               in egress_intrinsic_metadata_t intrinsic,
               in egress_intrinsic_metadata_from_parser_t from_parser,
               inout egress_intrinsic_metadata_for_deparser_t for_deparser,
               inout egress_intrinsic_metadata_for_output_port_t for_port) {
    action drop() {
        for_deparser.drop_ctl = 1;
    }

    action mark() {
        hdr.ipv4.ecn = ECN_CONGESTION_EXPERIENCED;
    }

    // Marks congestion experienced in packets that allow it, when their queue was long.
    table congestion {
        key = {
            hdr.ipv4.ecn:         exact;
            intrinsic.enq_qdepth: range;
        }
        actions = { mark; NoAction; }
        const default_action = NoAction();
        const entries = {
            (1, ECN_CELLS + 1 .. 0x7ffff): mark();
            (2, ECN_CELLS + 1 .. 0x7ffff): mark();
        }
        size = 2;
    }

    apply {
        if (hdr.bridge.flooded == 1 && hdr.bridge.port == intrinsic.egress_port) {
            // A flooded frame does not go back where it came from.
            drop();
        } else if (hdr.ipv4.isValid()) {
            congestion.apply();
        }
    }
}

control EgressDeparser(packet_out packet, inout egress_headers_t hdr, in egress_metadata_t meta,
                       in egress_intrinsic_metadata_for_deparser_t for_deparser) {
    Checksum() checksum;

    apply {
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.checksum = checksum.update({
                hdr.ipv4.version, hdr.ipv4.header_words, hdr.ipv4.dscp, hdr.ipv4.ecn,
                hdr.ipv4.total_length, hdr.ipv4.identification, hdr.ipv4.reserved,
                hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset,
                hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.source, hdr.ipv4.destination });
        }
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

#endif
