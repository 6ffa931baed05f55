// A stack of labels: parsed in a loop that may run over its end, pushed, popped, indexed.
#include "common.p4"

header label_t { bit<20> value; bit<3> class; bit<1> bottom; bit<8> left; }
header report_t { bit<8> parser_error; bit<8> operation; }
struct headers_t { ethernet_t ethernet; report_t report; label_t[4] labels; }
struct meta_t { }

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: report; default: accept; }
    }
    state report { p.extract(hdr.report); transition labels; }
    state labels {
        p.extract(hdr.labels.next);
        transition select(hdr.labels.last.bottom) { 1: accept; default: labels; }
    }
}
VERIFY { apply { } }
INGRESS {
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else {
            sm.egress_spec = 3;
            if (hdr.report.isValid()) {
                if (sm.parser_error == error.NoError) { hdr.report.parser_error = 0; }
                else if (sm.parser_error == error.StackOutOfBounds) { hdr.report.parser_error = 1; }
                else if (sm.parser_error == error.PacketTooShort) { hdr.report.parser_error = 2; }
                else { hdr.report.parser_error = 3; }
                bit<3> what = hdr.report.operation[2:0];
                if (what == 1) {
                    hdr.labels.pop_front(1);
                } else if (what == 2) {
                    hdr.labels.pop_front(2);
                } else if (what == 3) {
                    hdr.labels.push_front(1);
                    hdr.labels[0].setValid();
                    hdr.labels[0].value = 0xabcde;
                    hdr.labels[0].class = 5;
                    hdr.labels[0].bottom = 0;
                    hdr.labels[0].left = 9;
                } else if (what == 4) {
                    if (hdr.labels[1].isValid() && hdr.labels[0].isValid()) {
                        hdr.labels[0].value = hdr.labels[1].value + 1;
                        hdr.labels[1].setInvalid();
                    }
                } else if (what == 5) {
                    if (hdr.labels[0].isValid() && hdr.labels[0].left > 0) {
                        hdr.labels[0].left = hdr.labels[0].left - 1;
                    }
                } else if (what == 6) {
                    hdr.labels.push_front(3);
                    hdr.labels[1] = hdr.labels[3];
                }
            }
        }
    }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.report); p.emit(hdr.labels); } }
MAIN
