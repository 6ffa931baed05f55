// A parser counter that skips options, and the priority of packets.
#include "tna/egress.p4"

header head_t { bit<4> kind; bit<4> words; bit<8> value; }
header option_t { bit<16> data; }
struct headers_t { head_t head; option_t first; }
struct metadata_t { bit<8> skipped; }

parser IngressParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                     out ingress_intrinsic_metadata_t ig) {
    ParserCounter() counter;
    ParserPriority() priority;

    state start {
        packet.extract(ig);
        packet.advance(PORT_METADATA_SIZE);
        packet.extract(hdr.head);
        transition select(hdr.head.kind) {
            1: by_number;
            2: by_field;
            3: negative;
            default: accept;
        }
    }
    state by_number {
        counter.set(8w2);
        transition skip;
    }
    // Of at most six words, two are the head itself.
    state by_field {
        priority.set(3);
        counter.set(hdr.head.words, 6, 0, 2, 254);
        transition skip;
    }
    state negative {
        counter.set(8w1);
        counter.decrement(2);
        transition select(counter.is_negative()) {
            true: below;
            false: accept;
        }
    }
    state below {
        counter.increment(3);
        transition skip;
    }
    state skip {
        transition select(counter.is_zero()) {
            true: accept;
            false: option;
        }
    }
    state option {
        packet.extract(hdr.first);
        meta.skipped = meta.skipped + 1;
        counter.decrement(1);
        transition skip;
    }
}

control Ingress(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig,
                in ingress_intrinsic_metadata_from_parser_t prsr,
                inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    apply {
        hdr.first.setInvalid();
        hdr.head.value = meta.skipped;
        tm.ucast_egress_port = 2;
        if (prsr.parser_err == PARSER_ERROR_CTR_RANGE) {
            tm.ucast_egress_port = 3;
        }
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { packet.emit(hdr); }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), KeepParser(), Keep(), KeepDeparser()) pipe;
Switch(pipe) main;
