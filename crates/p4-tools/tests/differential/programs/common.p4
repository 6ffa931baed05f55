// What all programs here share: Ethernet, and a way round everything for markers. The marker of a
// port is a frame of EtherType MARKER whose destination is the port: it goes there and touches
// nothing, so a test can tell when a switch is done with what came before.
#include <core.p4>
#include <v1model.p4>

const bit<16> MARKER = 0x88b5;
const bit<16> TEST = 0x1234;

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> kind;
}

#define IS_MARKER (hdr.ethernet.kind == MARKER)
#define PASS_MARKER sm.egress_spec = (bit<9>) hdr.ethernet.destination;

#define PARSER parser P(packet_in p, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm)
#define VERIFY control V(inout headers_t hdr, inout meta_t meta)
#define INGRESS control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm)
#define EGRESS control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm)
#define COMPUTE control C(inout headers_t hdr, inout meta_t meta)
#define DEPARSER control D(packet_out p, in headers_t hdr)
#define MAIN V1Switch(P(), V(), I(), E(), C(), D()) main;
