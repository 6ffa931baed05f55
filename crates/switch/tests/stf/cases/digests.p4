// digest: a message to the control plane that the packet does not feel.

#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; }
struct headers_t { h_t h; }
struct metadata_t {}
struct learned_t { bit<8> a; bit<9> port; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        digest<learned_t>(1, { hdr.h.a, sm.ingress_port });
        hdr.h.b = 1;
    }
}

#include "lib/rest.p4"
