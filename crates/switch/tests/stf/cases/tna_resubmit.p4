// Resubmission with two formats of data, and the metadata of a port.
#include "tna/egress.p4"

header request_t { bit<8> op; bit<8> value; }
header count_t { bit<8> kind; bit<8> left; }
header words_t { bit<8> kind; bit<24> high; bit<32> low; }
header port_t { bit<16> base; bit<8> step; }
struct headers_t { request_t request; }
struct metadata_t { port_t port; count_t count; words_t words; }

parser IngressParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                     out ingress_intrinsic_metadata_t ig) {
    state start {
        packet.extract(ig);
        transition select(ig.resubmit_flag) {
            0: first;
            1: again;
        }
    }
    state first {
        meta.port = port_metadata_unpack<port_t>(packet);
        transition request;
    }
    state again {
        transition select(packet.lookahead<bit<8>>()) {
            1: counts;
            2: words;
        }
    }
    // Data is always eight bytes long.
    state counts { packet.extract(meta.count); packet.advance(48); transition request; }
    state words { packet.extract(meta.words); transition request; }
    state request { packet.extract(hdr.request); transition accept; }
}

control Ingress(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig,
                in ingress_intrinsic_metadata_from_parser_t prsr,
                inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    Counter<bit<32>, bit<1>>(2, CounterType_t.PACKETS) passes;

    apply {
        tm.ucast_egress_port = 2;
        passes.count(ig.resubmit_flag);
        if (ig.resubmit_flag == 0) {
            // Lost if the packet is resubmitted.
            hdr.request.value = 0xEE;
            if (hdr.request.op == 1) {
                meta.count.kind = 1;
                meta.count.left = 3;
                dprsr.resubmit_type = 0;
            } else if (hdr.request.op == 2) {
                meta.words.kind = 2;
                meta.words.high = (bit<24>)meta.port.base;
                meta.words.low = (bit<32>)meta.port.step;
                dprsr.resubmit_type = 2;
            }
        } else if (meta.count.isValid()) {
            if (meta.count.left == 0) {
                hdr.request.value = hdr.request.value + 1;
            } else {
                meta.count.left = meta.count.left - 1;
                dprsr.resubmit_type = 0;
            }
        } else {
            hdr.request.op = meta.words.high[7:0];
            hdr.request.value = meta.words.low[7:0];
        }
    }
}

control IngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    Resubmit() count;
    Resubmit(2) words;

    apply {
        // Zero is a type, too, for packets that ask for it.
        if (dprsr.resubmit_type == 0) {
            count.emit(meta.count);
        }
        words.emit(meta.words);
        packet.emit(hdr);
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), KeepParser(), Keep(), KeepDeparser()) pipe;
Switch(pipe) main;
