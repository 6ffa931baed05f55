// Macros of objects and functions, `##` and `#`, conditionals, includes within includes.

#include <core.p4>
#include <v1model.p4>
#include "lib/shift.p4"
#include "lib/shift.p4"

#define FIELD(n) bit<8> f##n;
#define STEP 3
#define TWICE(x) (2 * (x))
#define LONG_MACRO(to, from) \
    to = from; \
    to = to + 1
#define NAMED(action_name) @name(#action_name) action action_name() { hdr.h.f2 = 0x22; }

header h_t { FIELD(0) FIELD(1) FIELD(2) FIELD(3) }
struct headers_t { h_t h; }
struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control IngressImpl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    NAMED(second)
    apply {
        sm.egress_spec = 1;
        LONG_MACRO(hdr.h.f1, hdr.h.f0);
        second();
#if defined(INCLUDED_TWICE) && TWICE(STEP + 1) == 8
        hdr.h.f0 = SHIFT(hdr.h.f0 + 1, STEP);
#elif STEP > 2
        hdr.h.f0 = 0xEE;
#else
        this is not even P4
#endif
#undef STEP
#ifdef STEP
        hdr.h.f3 = 0xDD;
#endif
    }
}

#include "lib/rest.p4"
