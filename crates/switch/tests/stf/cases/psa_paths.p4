// Unicast, multicast and drops of PSA, and what egress finds: port, path, instance, class of service.

#include "lib/psa_start.p4"

header h_t { bit<8> kind; bit<8> port; bit<8> path; bit<8> instance; bit<8> class; bit<16> seen; }
struct headers_t { h_t h; }
struct metadata_t {}

control Path(in PSA_PacketPath_t path, out bit<8> number) {
    apply {
        number = 0xff;
        if (path == PSA_PacketPath_t.NORMAL) { number = 0; }
        else if (path == PSA_PacketPath_t.NORMAL_UNICAST) { number = 1; }
        else if (path == PSA_PacketPath_t.NORMAL_MULTICAST) { number = 2; }
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    Path() path;
    apply {
        path.apply(istd.packet_path, hdr.h.path);
        ostd.class_of_service = (ClassOfService_t) (ClassOfServiceUint_t) hdr.h.class;
        PortId_t port = (PortId_t) (PortIdUint_t) hdr.h.port;
        // The seventh kind is dropped as at the start: nothing says otherwise.
        switch (hdr.h.kind) {
            1: { send_to_port(ostd, port); }
            2: { multicast(ostd, (MulticastGroup_t) 9); }
            3: { send_to_port(ostd, port); ingress_drop(ostd); }
            4: { multicast(ostd, (MulticastGroup_t) 9); send_to_port(ostd, port); }
            5: { send_to_port(ostd, port); }
            6: { multicast(ostd, (MulticastGroup_t) 10); }
        }
    }
}

#define OWN_EGRESS
control EgressImpl(inout headers_t hdr, inout metadata_t meta,
                   in psa_egress_input_metadata_t istd, inout psa_egress_output_metadata_t ostd) {
    Path() path;
    bit<8> number;
    apply {
        // The path of ingress is in the header by now.
        hdr.h.seen = (bit<16>) hdr.h.path << 8;
        path.apply(istd.packet_path, number);
        hdr.h.path = number;
        hdr.h.port = (bit<8>) (PortIdUint_t) istd.egress_port;
        hdr.h.instance = (bit<8>) (EgressInstanceUint_t) istd.instance;
        hdr.h.class = (bit<8>) (ClassOfServiceUint_t) istd.class_of_service;
        if (istd.parser_error != error.NoError) { hdr.h.seen = 0xdead; }
        if (hdr.h.kind == 5) { egress_drop(ostd); }
    }
}

#include "lib/psa.p4"
