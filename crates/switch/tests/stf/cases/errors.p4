// A program's own errors come first here: what has no error says `NoError` even so.

error { TooOld }

#include <core.p4>
#include <v1model.p4>

error { TooNew }

header h_t { bit<8> version; bit<8> seen; bit<8> fresh; }
struct headers_t { h_t h; }
struct metadata_t { error kept; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        verify(hdr.h.version > 3, error.TooOld);
        verify(hdr.h.version < 5, error.TooNew);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (sm.parser_error == error.NoError) {
            hdr.h.seen = 1;
        } else if (sm.parser_error == error.TooOld) {
            hdr.h.seen = 2;
        } else if (sm.parser_error == error.TooNew) {
            hdr.h.seen = 3;
        } else if (sm.parser_error == error.PacketTooShort) {
            hdr.h.setValid();
            hdr.h.version = 0;
            hdr.h.seen = 4;
        }
        if (meta.kept == error.NoError) {
            meta.kept = error.TooOld;
        }
        hdr.h.fresh = meta.kept == error.TooOld ? 8w1 : 0;
    }
}

#include "lib/rest.p4"
