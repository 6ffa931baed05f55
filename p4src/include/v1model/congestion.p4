// Marks congestion experienced in packets that allow it, when their queue was long.
#ifndef CONGESTION_P4
#define CONGESTION_P4

#include "../headers.p4"

control CongestionMark(inout headers_t hdr, in standard_metadata_t standard) {
    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.header_words == 5 && hdr.ipv4.ecn != ECN_NOT_CAPABLE
            && standard.enq_qdepth > ECN_THRESHOLD) {
            hdr.ipv4.ecn = ECN_CONGESTION_EXPERIENCED;
        }
    }
}

#endif
