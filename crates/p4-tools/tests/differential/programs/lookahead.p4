// What a parser may do: look ahead, skip, select by masks, ranges and several keys at once, verify.
#include "common.p4"

error { Refused, TooDeep }

header one_t { bit<8> kind; bit<24> value; }
header two_t { bit<8> kind; bit<56> value; }
header report_t { bit<8> parser_error; bit<8> path; }
struct headers_t { ethernet_t ethernet; report_t report; one_t one; two_t two; }
struct meta_t { bit<8> path; bit<4> depth; }

PARSER {
    state start {
        p.extract(hdr.ethernet);
        meta.path = 0;
        transition select(hdr.ethernet.kind) { TEST: report; default: accept; }
    }
    state report { p.extract(hdr.report); transition look; }
    state look {
        bit<8> ahead = p.lookahead<bit<8>>();
        transition select(ahead, ahead[3:0]) {
            (0x00 &&& 0xf0, 0): accept;
            (0x10 &&& 0xf0, _): one;
            (0x20 .. 0x4f, 5 .. 15): two;
            (0x20 .. 0x4f, _): skip;
            (0x80 &&& 0x80, 1): refuse;
            default: tail;
        }
    }
    state one {
        p.extract(hdr.one);
        meta.path = meta.path | 1;
        transition select(hdr.one.value[1:0]) { 0: look_two; default: accept; }
    }
    state look_two {
        two_t ahead = p.lookahead<two_t>();
        meta.path = meta.path | ahead.kind;
        transition two;
    }
    state two {
        p.extract(hdr.two);
        meta.path = meta.path | 2;
        verify(hdr.two.value[7:0] != 0, error.Refused);
        transition accept;
    }
    state skip {
        p.advance(24);
        meta.path = meta.path | 4;
        transition two;
    }
    state refuse {
        verify(false, error.TooDeep);
        transition accept;
    }
    state tail {
        meta.path = meta.path | 8;
        verify(p.lookahead<bit<8>>() != 0xff, error.TooDeep);
        transition accept;
    }
}
VERIFY { apply { } }
INGRESS {
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else {
            sm.egress_spec = 1;
            if (hdr.report.isValid()) {
                hdr.report.path = meta.path;
                if (sm.parser_error == error.NoError) { hdr.report.parser_error = 0; }
                else if (sm.parser_error == error.PacketTooShort) { hdr.report.parser_error = 1; }
                else if (sm.parser_error == error.Refused) { hdr.report.parser_error = 2; }
                else if (sm.parser_error == error.TooDeep) { hdr.report.parser_error = 3; }
                else { hdr.report.parser_error = 4; }
            }
        }
    }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.report); p.emit(hdr.two); p.emit(hdr.one); } }
MAIN
