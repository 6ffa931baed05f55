// Functions of a word by the leading bits of it, in register actions.
#include "tna/egress.p4"

header request_t { bit<8> op; bit<32> value; }
struct headers_t { request_t request; }
struct metadata_t {}

parser IngressParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                     out ingress_intrinsic_metadata_t ig) {
    state start {
        packet.extract(ig);
        packet.advance(PORT_METADATA_SIZE);
        packet.extract(hdr.request);
        transition accept;
    }
}

control Ingress(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig,
                in ingress_intrinsic_metadata_from_parser_t prsr,
                inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    MathUnit<bit<32>>(MathOp_t.SQR, 1) square;
    MathUnit<bit<32>>(MathOp_t.SQRT, 1) root;
    MathUnit<bit<32>>(MathOp_t.DIV, 1 << 16) inverse;
    // The operand's leading bits doubled: 2^(e + 1 - 3) for each eighth.
    MathUnit<bit<32>>(false, 0, -2, { 15, 14, 13, 12, 11, 10, 9, 8, 0, 0, 0, 0, 0, 0, 0, 0 }) twice;

    Register<bit<32>, bit<1>>(1) squares;
    RegisterAction<bit<32>, bit<1>, bit<32>>(squares) store_square = {
        void apply(inout bit<32> cell, out bit<32> rv) { cell = square.execute(hdr.request.value); rv = cell; }
    };
    Register<bit<32>, bit<1>>(1) roots;
    RegisterAction<bit<32>, bit<1>, bit<32>>(roots) store_root = {
        void apply(inout bit<32> cell, out bit<32> rv) { cell = root.execute(hdr.request.value); rv = cell; }
    };
    Register<bit<32>, bit<1>>(1) inverses;
    RegisterAction<bit<32>, bit<1>, bit<32>>(inverses) store_inverse = {
        void apply(inout bit<32> cell, out bit<32> rv) { cell = inverse.execute(hdr.request.value); rv = cell; }
    };
    Register<bit<32>, bit<1>>(1) sums;
    RegisterAction<bit<32>, bit<1>, bit<32>>(sums) add_twice = {
        void apply(inout bit<32> cell, out bit<32> rv) { cell = cell + twice.execute(hdr.request.value); rv = cell; }
    };

    apply {
        tm.ucast_egress_port = 2;
        if (hdr.request.op == 0) {
            hdr.request.value = store_square.execute(0);
        } else if (hdr.request.op == 1) {
            hdr.request.value = store_root.execute(0);
        } else if (hdr.request.op == 2) {
            hdr.request.value = store_inverse.execute(0);
        } else {
            hdr.request.value = add_twice.execute(0);
        }
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { packet.emit(hdr); }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), KeepParser(), Keep(), KeepDeparser()) pipe;
Switch(pipe) main;
