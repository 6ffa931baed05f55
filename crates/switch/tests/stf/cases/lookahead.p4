// lookahead, advance, and packets that end too early.

#include <core.p4>
#include <v1model.p4>

header kind_t { bit<8> kind; }
header halves_t { bit<4> high; bit<4> low; }
header long_t { bit<8> kind; bit<24> rest; }
struct peek_t { bit<4> high; bit<4> low; }
struct headers_t { kind_t short; long_t long; kind_t res; }
struct metadata_t { bit<8> seen; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        meta.seen = packet.lookahead<bit<8>>();
        transition select(meta.seen) {
            1: take_short;
            2: take_long;
            3: skip;
            0x90 &&& 0xF0: header_low;
            default: halves;
        }
    }
    state take_short {
        packet.extract(hdr.short);
        transition accept;
    }
    state take_long {
        packet.extract(hdr.long);
        transition accept;
    }
    state skip {
        packet.advance(16);
        packet.extract(hdr.short);
        transition accept;
    }
    state header_low {
        meta.seen = (bit<8>)packet.lookahead<halves_t>().low;
        transition accept;
    }
    state halves {
        peek_t peek = packet.lookahead<peek_t>();
        meta.seen = (bit<8>)peek.low;
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.res.setValid();
        hdr.res.kind = meta.seen;
        if (sm.parser_error == error.PacketTooShort) {
            hdr.res.kind = 0xEE;
        }
    }
}

#include "lib/rest.p4"
