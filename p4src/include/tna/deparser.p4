// Deparser of the ingress.
#ifndef DEPARSER_P4
#define DEPARSER_P4

#include "../headers.p4"

#define EMIT_BLOCK(n) packet.emit(hdr.values##n);

// The only kind of resubmission that there is.
const ResubmitType_t AGAIN = 1;

control IngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    Resubmit(AGAIN) resubmit;
    Checksum() checksum;

    apply {
        if (for_deparser.resubmit_type == AGAIN) {
            resubmit.emit(hdr.passed);
        }
        // The switch changes the time to live, and addresses.
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.checksum = checksum.update({
                hdr.ipv4.version, hdr.ipv4.header_words, hdr.ipv4.dscp, hdr.ipv4.ecn,
                hdr.ipv4.total_length, hdr.ipv4.identification, hdr.ipv4.reserved,
                hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset,
                hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.source, hdr.ipv4.destination });
        }
        packet.emit(hdr.bridge);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4_with_options);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.aggregation);
        FOR_EACH_BLOCK(EMIT_BLOCK)
    }
}

#endif
