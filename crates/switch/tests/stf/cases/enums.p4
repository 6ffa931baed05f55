// Enums without and with values, and errors.

#include <core.p4>
#include <v1model.p4>

enum Mood { Calm, Angry }
enum bit<8> Kind { Small = 1, Large = 0x20 }
error { TooLarge }

header h_t { Kind kind; bit<8> size; bit<8> res; }
struct headers_t { h_t h; }
struct metadata_t { Mood mood; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        verify(hdr.h.size < 100, error.TooLarge);
        transition select(hdr.h.kind) {
            Kind.Small: small;
            Kind.Large: large;
            default: accept;
        }
    }
    state small {
        meta.mood = Mood.Calm;
        transition accept;
    }
    state large {
        meta.mood = Mood.Angry;
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (meta.mood == Mood.Angry) {
            hdr.h.res = 0xFF;
        }
        if (hdr.h.kind == Kind.Small) {
            hdr.h.kind = Kind.Large;
        } else if (hdr.h.kind == Kind.Large) {
            hdr.h.res = hdr.h.res - (bit<8>)Kind.Large;
        }
        if (sm.parser_error == error.TooLarge) {
            hdr.h.res = 0xEE;
        }
    }
}

#include "lib/rest.p4"
