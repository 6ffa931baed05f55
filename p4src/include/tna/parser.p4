// Parser: what the switch itself says of a packet, then as in v1model. Lengths and counts are looked
// at by the screening table, as the parser of a Tofino compares four bytes a state.
#ifndef PARSER_P4
#define PARSER_P4

#include "../headers.p4"

#define EXTRACT_BLOCK(n) packet.extract(hdr.values##n);

parser IngressParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                     out ingress_intrinsic_metadata_t intrinsic) {
    Checksum() checksum;

    state start {
        packet.extract(intrinsic);
        meta.port = intrinsic.ingress_port;
        transition select(intrinsic.resubmit_flag) {
            1: resubmitted;
            default: arrived;
        }
    }

    state arrived {
        packet.advance(PORT_METADATA_SIZE);
        transition ethernet;
    }

    state resubmitted {
        packet.extract(hdr.passed);
        meta.color = hdr.passed.color;
        transition select(hdr.passed.pass) {
            pass_t.TAKE_OVER: take_over;
            pass_t.COMPLETE: complete;
            default: ethernet;
        }
    }

    state take_over {
        meta.pass = pass_t.TAKE_OVER;
        transition ethernet;
    }

    state complete {
        meta.pass = pass_t.COMPLETE;
        transition ethernet;
    }

    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: internet;
            ETHERTYPE_ARP: accept;
            ETHERTYPE_IPV6: accept;
            default: barred;
        }
    }

    // Of what has options, the switch does not know the checksum.
    state internet {
        transition select(packet.lookahead<bit<8>>()) {
            0x45: ipv4;
            default: ipv4_with_options;
        }
    }

    state ipv4_with_options {
        packet.extract(hdr.ipv4_with_options);
        transition select(hdr.ipv4_with_options.version, hdr.ipv4_with_options.protocol) {
            (4, IP_PROTOCOL_UDP): barred;
            (4, IP_PROTOCOL_IPIP): barred;
            (4, IP_PROTOCOL_IPV6): barred;
            (4, IP_PROTOCOL_GRE): barred;
            (4, IP_PROTOCOL_ETHERIP): barred;
            (4, IP_PROTOCOL_MPLS): barred;
            (4, _): accept;
            default: barred;
        }
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        checksum.add(hdr.ipv4);
        meta.damaged = checksum.verify();
        // A host could reassemble fragments into an aggregation packet.
        transition select(hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (0, 0, IP_PROTOCOL_UDP): udp;
            (_, _, IP_PROTOCOL_UDP): barred;
            (_, _, IP_PROTOCOL_IPIP): barred;
            (_, _, IP_PROTOCOL_IPV6): barred;
            (_, _, IP_PROTOCOL_GRE): barred;
            (_, _, IP_PROTOCOL_ETHERIP): barred;
            (_, _, IP_PROTOCOL_MPLS): barred;
            default: accept;
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

    state aggregation {
        packet.extract(hdr.aggregation);
        meta.payer = hdr.aggregation.job;
        transition select(hdr.aggregation.kind, hdr.aggregation.values) {
            (kind_t.GRADIENT, VALUES): values;
            (kind_t.PARAMETER, VALUES): values;
            (kind_t.REPLY, VALUES): values;
            (kind_t.REMINDER, VALUES): values;
            (kind_t.ABSENT, VALUES): values;
            (kind_t.ASYNCHRONOUS, VALUES): values;
            default: accept;
        }
    }

    state values {
        FOR_EACH_BLOCK(EXTRACT_BLOCK)
        transition accept;
    }
}

#endif
