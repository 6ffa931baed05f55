// Clones of PSA, from ingress and from egress, each with metadata of its own.

#include "lib/psa_start.p4"

header h_t { bit<8> kind; bit<8> a; bit<8> b; bit<8> path; bit<8> instance; bit<8> class; }
struct headers_t { h_t h; }
struct metadata_t { bit<8> from_ingress; bit<16> from_egress; }
struct i2e_t { bit<8> value; }
struct e2e_t { bit<16> value; }

#define WITH_CLONE_I2E i2e_t
#define WITH_CLONE_E2E e2e_t

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    apply {
        send_to_port(ostd, (PortId_t) 1);
        hdr.h.a = hdr.h.a + 1;
        meta.from_ingress = 0x40;
        if (hdr.h.kind[0:0] == 1) {
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t) (CloneSessionIdUint_t) hdr.h.b;
        }
        if (hdr.h.kind[1:1] == 1) { ingress_drop(ostd); }
    }
}

#define OWN_DEPARSE
control Deparse(packet_out packet, out i2e_t clone_i2e_meta, out empty_t resubmit_meta, out empty_t normal_meta,
                inout headers_t hdr, in metadata_t meta, in psa_ingress_output_metadata_t istd) {
    apply {
        if (psa_clone_i2e(istd)) { clone_i2e_meta.value = hdr.h.a + meta.from_ingress; }
        packet.emit(hdr);
    }
}

#define OWN_EGRESS_PARSE
parser EgressParse(packet_in packet, out headers_t hdr, inout metadata_t meta,
                   in psa_egress_parser_input_metadata_t istd,
                   in empty_t normal_meta, in i2e_t clone_i2e_meta, in e2e_t clone_e2e_meta) {
    state start {
        packet.extract(hdr.h);
        transition select(istd.packet_path) {
            PSA_PacketPath_t.CLONE_I2E: of_ingress;
            PSA_PacketPath_t.CLONE_E2E: of_egress;
            default: accept;
        }
    }
    state of_ingress {
        meta.from_ingress = clone_i2e_meta.value;
        transition accept;
    }
    state of_egress {
        meta.from_egress = clone_e2e_meta.value;
        transition accept;
    }
}

#define OWN_EGRESS
control EgressImpl(inout headers_t hdr, inout metadata_t meta,
                   in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) {
    apply {
        hdr.h.instance = (bit<8>) (EgressInstanceUint_t) istd.instance;
        hdr.h.class = (bit<8>) (ClassOfServiceUint_t) istd.class_of_service;
        if (istd.packet_path == PSA_PacketPath_t.CLONE_I2E) {
            hdr.h.path = 3;
            hdr.h.b = meta.from_ingress;
        } else if (istd.packet_path == PSA_PacketPath_t.CLONE_E2E) {
            hdr.h.path = 4;
            hdr.h.a = meta.from_egress[15:8];
            hdr.h.b = meta.from_egress[7:0];
        } else {
            hdr.h.path = 1;
            if (hdr.h.kind[2:2] == 1) {
                ostd.clone = true;
                ostd.clone_session_id = (CloneSessionId_t) 5;
            }
            if (hdr.h.kind[3:3] == 1) { egress_drop(ostd); }
        }
    }
}

#define OWN_EGRESS_DEPARSE
control EgressDeparse(packet_out packet, out e2e_t clone_e2e_meta, out empty_t recirculate_meta,
                      inout headers_t hdr, in metadata_t meta,
                      in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply {
        if (psa_clone_e2e(istd)) {
            clone_e2e_meta.value = 0xc0de;
            // Visible in the packet and its clone.
            hdr.h.kind[7:7] = 1;
        }
        packet.emit(hdr);
    }
}

#include "lib/psa.p4"
