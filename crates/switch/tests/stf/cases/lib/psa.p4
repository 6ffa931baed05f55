// What a case for PSA does not say itself: parsers that extract `hdr.h`, an egress that does nothing,
// deparsers that emit all headers, and the package. A case includes psa_start.p4 and defines
// `headers_t`, `metadata_t` and `IngressImpl` before it includes this, with the types of metadata that travels
// where it has some (WITH_NORMAL and so on), and OWN_PARSE, OWN_DEPARSE, OWN_EGRESS_PARSE, OWN_EGRESS or OWN_EGRESS_DEPARSE where it has those too.

#ifndef WITH_NORMAL
#define WITH_NORMAL empty_t
#endif
#ifndef WITH_CLONE_I2E
#define WITH_CLONE_I2E empty_t
#endif
#ifndef WITH_CLONE_E2E
#define WITH_CLONE_E2E empty_t
#endif
#ifndef WITH_RESUBMIT
#define WITH_RESUBMIT empty_t
#endif
#ifndef WITH_RECIRCULATE
#define WITH_RECIRCULATE empty_t
#endif

#ifndef OWN_PARSE
parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             in psa_ingress_parser_input_metadata_t istd, in WITH_RESUBMIT resubmit_meta, in WITH_RECIRCULATE recirculate_meta) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}
#endif

#ifndef OWN_DEPARSE
control Deparse(packet_out packet, out WITH_CLONE_I2E clone_i2e_meta, out WITH_RESUBMIT resubmit_meta, out WITH_NORMAL normal_meta,
                inout headers_t hdr, in metadata_t meta, in psa_ingress_output_metadata_t istd) {
    apply {
        packet.emit(hdr);
    }
}
#endif

#ifndef OWN_EGRESS_PARSE
parser EgressParse(packet_in packet, out headers_t hdr, inout metadata_t meta,
                   in psa_egress_parser_input_metadata_t istd,
                   in WITH_NORMAL normal_meta, in WITH_CLONE_I2E clone_i2e_meta, in WITH_CLONE_E2E clone_e2e_meta) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}
#endif

#ifndef OWN_EGRESS
control EgressImpl(inout headers_t hdr, inout metadata_t meta,
                   in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) {
    apply {}
}
#endif

#ifndef OWN_EGRESS_DEPARSE
control EgressDeparse(packet_out packet, out WITH_CLONE_E2E clone_e2e_meta, out WITH_RECIRCULATE recirculate_meta,
                      inout headers_t hdr, in metadata_t meta,
                      in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply {
        packet.emit(hdr);
    }
}
#endif

IngressPipeline(Parse(), IngressImpl(), Deparse()) ingress_pipeline;
EgressPipeline(EgressParse(), EgressImpl(), EgressDeparse()) egress_pipeline;
PSA_Switch(ingress_pipeline, PacketReplicationEngine(), egress_pipeline, BufferingQueueingEngine()) main;
