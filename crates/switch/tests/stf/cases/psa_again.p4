// Resubmission and recirculation of PSA, each with metadata.

#include "lib/psa_start.p4"

header h_t { bit<8> kind; bit<8> a; bit<8> passes; bit<8> path; bit<32> port; bit<16> meta; }
struct headers_t { h_t h; }
struct metadata_t { bit<8> passes; bit<16> value; }
struct resubmit_t { bit<8> passes; }
struct recirculate_t { bit<16> value; }

#define WITH_RESUBMIT resubmit_t
#define WITH_RECIRCULATE recirculate_t

#define OWN_PARSE
parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             in psa_ingress_parser_input_metadata_t istd, in resubmit_t resubmit_meta, in recirculate_t recirculate_meta) {
    state start {
        packet.extract(hdr.h);
        meta.passes = 0;
        meta.value = 0;
        transition select(istd.packet_path) {
            PSA_PacketPath_t.RESUBMIT: resubmitted;
            PSA_PacketPath_t.RECIRCULATE: recirculated;
            default: accept;
        }
    }
    state resubmitted {
        meta.passes = resubmit_meta.passes;
        transition accept;
    }
    state recirculated {
        meta.value = recirculate_meta.value;
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    apply {
        hdr.h.a = hdr.h.a + 1;
        hdr.h.passes = meta.passes;
        hdr.h.meta = meta.value;
        hdr.h.port = (PortIdUint_t) istd.ingress_port;
        send_to_port(ostd, (PortId_t) 1);
        if (hdr.h.kind == 1 && meta.passes < 3) {
            ostd.resubmit = true;
        } else if (hdr.h.kind == 2 && istd.packet_path == PSA_PacketPath_t.NORMAL) {
            send_to_port(ostd, PSA_PORT_RECIRCULATE);
        } else if (hdr.h.kind == 3) {
            // A dropped packet is not resubmitted.
            ostd.resubmit = true;
            ingress_drop(ostd);
        } else if (hdr.h.kind == 4) {
            // Without end: the switch stops it.
            ostd.resubmit = true;
        } else if (hdr.h.kind == 5 && istd.packet_path == PSA_PacketPath_t.NORMAL) {
            // A clone of each kind goes on as itself.
            ostd.resubmit = true;
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t) 5;
        }
    }
}

#define OWN_DEPARSE
control Deparse(packet_out packet, out empty_t clone_i2e_meta, out resubmit_t resubmit_meta, out empty_t normal_meta,
                inout headers_t hdr, in metadata_t meta, in psa_ingress_output_metadata_t istd) {
    apply {
        if (psa_resubmit(istd)) { resubmit_meta.passes = meta.passes + 1; }
        packet.emit(hdr);
    }
}

#define OWN_EGRESS
control EgressImpl(inout headers_t hdr, inout metadata_t meta,
                   in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) {
    apply {
        if (istd.egress_port == PSA_PORT_RECIRCULATE) { hdr.h.path = 0x33; }
    }
}

#define OWN_EGRESS_DEPARSE
control EgressDeparse(packet_out packet, out empty_t clone_e2e_meta, out recirculate_t recirculate_meta,
                      inout headers_t hdr, in metadata_t meta,
                      in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply {
        if (psa_recirculate(istd, edstd)) { recirculate_meta.value = 0xbeef; }
        packet.emit(hdr);
    }
}

#include "lib/psa.p4"
