// Egress: floods do not go back, long queues leave marks, and results have values for those who need them.
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
#ifdef AUDIENCES
    udp_t         udp;         // of a result without values
    aggregation_t aggregation;
#endif
}

struct egress_metadata_t {
#ifdef AUDIENCES
    bridge_t   shortened;  // in front of what the mirror sends
    MirrorId_t session;
#endif
}

#ifdef AUDIENCES
// The only kind of mirroring that there is: one session for each port sends the headers of a result to it.
const MirrorType_t SHORTEN = 1;

#define ONLY_WORKER(i) (1 + i, 1 + i): NoAction();
#define ALL_BUT_WORKER(i) (ALL_BUT + 1 + i, 1 + i): shorten();
#endif

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
#ifdef AUDIENCES
        transition select(hdr.bridge.shortened) {
            1: shortened;
            default: accept;
        }
    }

    state shortened {
        packet.extract(hdr.udp);
        packet.extract(hdr.aggregation);
#endif
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

#ifdef AUDIENCES
    // No egress can cut off the values, as its parser does not reach their end; but the mirror can.
    action shorten() {
        for_deparser.drop_ctl = 1;
        for_deparser.mirror_type = SHORTEN;
        meta.session = (MirrorId_t)intrinsic.egress_port + 1;
        meta.shortened.unused = 0;
        meta.shortened.shortened = 1;
        meta.shortened.flooded = 0;
        meta.shortened.port = 0;
        meta.shortened.audience = 0;
    }

    // Which copies of a result lose their values.
    table audiences {
        key = {
            hdr.bridge.audience:  ternary;
            intrinsic.egress_rid: ternary;
        }
        actions = { shorten; NoAction; }
        const default_action = shorten();
        const entries = {
            (0, _): NoAction();
            FOR_EACH_OF_31(ONLY_WORKER) ONLY_WORKER(31)
            FOR_EACH_OF_31(ALL_BUT_WORKER) ALL_BUT_WORKER(31)
            (ALL_BUT, 0): shorten();
            (ALL_BUT &&& ALL_BUT, _): NoAction();
        }
        size = 67;
    }

    // The headers of what the mirror has cut off.
    action correct() {
        hdr.aggregation.values = 0;
        hdr.udp.datagram_length = UDP_LENGTH_BARE;
        hdr.ipv4.total_length = IPV4_BYTES + UDP_LENGTH_BARE;
    }
#endif

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
#ifdef AUDIENCES
            if (hdr.aggregation.isValid()) {
                correct();
            } else {
                audiences.apply();
            }
#endif
        }
    }
}

control EgressDeparser(packet_out packet, inout egress_headers_t hdr, in egress_metadata_t meta,
                       in egress_intrinsic_metadata_for_deparser_t for_deparser) {
    Checksum() checksum;
#ifdef AUDIENCES
    Mirror() mirror;
#endif

    apply {
#ifdef AUDIENCES
        if (for_deparser.mirror_type == SHORTEN) {
            mirror.emit<bridge_t>(meta.session, {
                meta.shortened.unused, meta.shortened.shortened, meta.shortened.flooded,
                meta.shortened.port, meta.shortened.audience });
        }
#endif
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.checksum = checksum.update({
                hdr.ipv4.version, hdr.ipv4.header_words, hdr.ipv4.dscp, hdr.ipv4.ecn,
                hdr.ipv4.total_length, hdr.ipv4.identification, hdr.ipv4.reserved,
                hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset,
                hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.source, hdr.ipv4.destination });
        }
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
#ifdef AUDIENCES
        packet.emit(hdr.udp);
        packet.emit(hdr.aggregation);
#endif
    }
}

#endif
