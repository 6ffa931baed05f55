// InternetChecksum of PSA: verified by the parser, updated by the deparser with what has changed.

#include "lib/psa_start.p4"

header h_t { bit<8> kind; bit<8> ttl; bit<16> sum; bit<32> address; }
header wrong_t { bit<8> flag; }
struct headers_t { h_t h; wrong_t wrong; }
struct metadata_t { bit<16> rest; bit<8> wrong; }

#define OWN_PARSE
parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             in psa_ingress_parser_input_metadata_t istd, in empty_t resubmit_meta, in empty_t recirculate_meta) {
    InternetChecksum() check;
    state start {
        packet.extract(hdr.h);
        meta.wrong = 0;
        check.clear();
        check.add({ hdr.h.kind, hdr.h.ttl, hdr.h.sum, hdr.h.address });
        verify(check.get() == 0, error.ParserInvalidArgument);
        // Without ttl and address, for the deparser.
        check.subtract({ hdr.h.kind, hdr.h.ttl });
        check.subtract(hdr.h.address);
        meta.rest = check.get_state();
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    in psa_ingress_input_metadata_t istd, inout psa_ingress_output_metadata_t ostd) {
    apply {
        send_to_port(ostd, (PortId_t) 1);
        if (istd.parser_error != error.NoError) {
            hdr.wrong.setValid();
            hdr.wrong.flag = istd.parser_error == error.ParserInvalidArgument ? 8w0xff : 0x11;
        }
    }
}

#define OWN_DEPARSE
control Deparse(packet_out packet, out empty_t clone_i2e_meta, out empty_t resubmit_meta, out empty_t normal_meta,
                inout headers_t hdr, in metadata_t meta, in psa_ingress_output_metadata_t istd) {
    InternetChecksum() check;
    apply {
        if (hdr.h.kind == 1) {
            // From the whole header.
            hdr.h.ttl = hdr.h.ttl - 1;
            check.add({ hdr.h.kind, hdr.h.ttl, hdr.h.address });
            hdr.h.sum = check.get();
        } else if (hdr.h.kind == 2) {
            // From the old sum and what has changed (RFC 1624).
            check.subtract(hdr.h.sum);
            check.subtract({ hdr.h.kind, hdr.h.ttl });
            hdr.h.ttl = hdr.h.ttl - 1;
            check.add({ hdr.h.kind, hdr.h.ttl });
            hdr.h.sum = check.get();
        } else if (hdr.h.kind == 3) {
            // What is left of the parser's sum is the old sum itself.
            check.set_state(meta.rest);
            hdr.h.sum = check.get_state();
        }
        packet.emit(hdr);
    }
}

#include "lib/psa.p4"
