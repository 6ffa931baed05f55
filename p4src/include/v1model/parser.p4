// Parser: Ethernet, IPv4, UDP, and our packets on their UDP port. Whatever else comes along stays
// payload and is forwarded, unless a host could find a packet of ours in it: only what comes by itself
// is looked at here, so nothing may come in disguise.
#ifndef PARSER_P4
#define PARSER_P4

#include "../headers.p4"

#define EXTRACT_BLOCK(n) packet.extract(hdr.values##n);

parser PacketParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        // Behind any other type, tags among them, there may be a packet that a host unwraps.
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: ipv4;
            ETHERTYPE_ARP: accept;
            ETHERTYPE_IPV6: accept;
            default: barred;
        }
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        // A host could turn options and fragments into an aggregation packet.
        transition select(hdr.ipv4.version, hdr.ipv4.header_words, hdr.ipv4.more_fragments,
                          hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (4, 5, 0, 0, IP_PROTOCOL_UDP): udp;
            (4, _, _, _, IP_PROTOCOL_UDP): barred;
            (4, _, _, _, IP_PROTOCOL_IPIP): barred;
            (4, _, _, _, IP_PROTOCOL_IPV6): barred;
            (4, _, _, _, IP_PROTOCOL_GRE): barred;
            (4, _, _, _, IP_PROTOCOL_ETHERIP): barred;
            (4, _, _, _, IP_PROTOCOL_MPLS): barred;
            (4, _, _, _, _): accept;
            default: barred;
        }
    }

    state udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.destination_port) {
            AGGREGATION_PORT: aggregation;
            VXLAN_PORT: barred;
            VXLAN_PORT_LINUX: barred;
            GENEVE_PORT: barred;
            default: accept;
        }
    }

    state barred {
        meta.barred = 1;
        transition accept;
    }

    // Kind, count and lengths must agree; only then is the packet taken apart further.
    state aggregation {
        packet.extract(hdr.aggregation);
        meta.payer = hdr.aggregation.job;
        transition select(hdr.aggregation.protocol, hdr.aggregation.kind, hdr.aggregation.values,
                          hdr.udp.datagram_length, hdr.ipv4.total_length) {
            (_, kind_t.GRADIENT,  VALUES, UDP_LENGTH_FULL, IPV4_BYTES + UDP_LENGTH_FULL): values;
#ifdef AUDIENCES
            (_, kind_t.GRADIENT,  0,      UDP_LENGTH_BARE, IPV4_BYTES + UDP_LENGTH_BARE): bare;
#endif
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
