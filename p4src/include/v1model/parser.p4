// Parser: Ethernet, IPv4, UDP, and our packets on their UDP port. Whatever else comes along stays
// payload and is forwarded.
#ifndef PARSER_P4
#define PARSER_P4

#include "../headers.p4"

#define EXTRACT_BLOCK(n) packet.extract(hdr.values##n);

parser PacketParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: ipv4;
            default: accept;
        }
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        // Options and fragments are never ours.
        transition select(hdr.ipv4.version, hdr.ipv4.header_words, hdr.ipv4.more_fragments,
                          hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (4, 5, 0, 0, IP_PROTOCOL_UDP): udp;
            default: accept;
        }
    }

    state udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.destination_port) {
            AGGREGATION_PORT: aggregation;
            default: accept;
        }
    }

    // Kind, count and lengths must agree; only then is the packet taken apart further.
    state aggregation {
        packet.extract(hdr.aggregation);
        transition select(hdr.aggregation.protocol, hdr.aggregation.kind, hdr.aggregation.values,
                          hdr.udp.datagram_length, hdr.ipv4.total_length) {
            (_, kind_t.GRADIENT,  VALUES, UDP_LENGTH_FULL, IPV4_BYTES + UDP_LENGTH_FULL): values;
            (_, kind_t.PARAMETER, VALUES, UDP_LENGTH_FULL, IPV4_BYTES + UDP_LENGTH_FULL): values;
            (_, kind_t.REPLY,     VALUES, UDP_LENGTH_FULL, IPV4_BYTES + UDP_LENGTH_FULL): values;
            (_, kind_t.REMINDER,  VALUES, UDP_LENGTH_FULL, IPV4_BYTES + UDP_LENGTH_FULL): values;
            (_, kind_t.ABSENT,    VALUES, UDP_LENGTH_FULL, IPV4_BYTES + UDP_LENGTH_FULL): values;
            (_, kind_t.QUERY,     0,      UDP_LENGTH_BARE, IPV4_BYTES + UDP_LENGTH_BARE): bare;
            (_, kind_t.SWEEP,     0,      UDP_LENGTH_BARE, IPV4_BYTES + UDP_LENGTH_BARE): bare;
            (protocol_t.P4INC, kind_t.ASYNCHRONOUS,
                                  VALUES, UDP_LENGTH_FULL, IPV4_BYTES + UDP_LENGTH_FULL): values;
            default: accept;
        }
    }

    state values {
        FOR_EACH_BLOCK(EXTRACT_BLOCK)
        transition bare;
    }

    state bare {
        meta.well_formed = 1;
        transition accept;
    }
}

#endif
