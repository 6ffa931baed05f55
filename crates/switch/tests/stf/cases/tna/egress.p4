// An egress that changes nothing, for TNA cases that are about ingress.
#include <core.p4>
#include <tna.p4>

struct none_t {}

parser KeepParser(packet_in packet, out none_t hdr, out none_t meta,
                  out egress_intrinsic_metadata_t eg) {
    state start {
        packet.extract(eg);
        transition accept;
    }
}

control Keep(inout none_t hdr, inout none_t meta, in egress_intrinsic_metadata_t eg,
             in egress_intrinsic_metadata_from_parser_t prsr,
             inout egress_intrinsic_metadata_for_deparser_t dprsr,
             inout egress_intrinsic_metadata_for_output_port_t oport) {
    apply {}
}

control KeepDeparser(packet_out packet, inout none_t hdr, in none_t meta,
                     in egress_intrinsic_metadata_for_deparser_t dprsr) {
    apply {}
}
