// Registers of odd widths: read, changed, written.
#include "common.p4"

header cell_t { bit<8> index; bit<8> what; bit<48> wide; bit<8> narrow; bit<32> total; }
struct headers_t { ethernet_t ethernet; cell_t cell; }
struct meta_t { }

PARSER {
    state start {
        p.extract(hdr.ethernet);
        transition select(hdr.ethernet.kind) { TEST: cell; default: accept; }
    }
    state cell { p.extract(hdr.cell); transition accept; }
}
VERIFY { apply { } }
INGRESS {
    register<bit<48>>(8) wides;
    register<bit<7>>(8) narrows;
    register<bit<32>>(1) total;
    apply {
        if (IS_MARKER) { PASS_MARKER }
        else if (hdr.cell.isValid()) {
            sm.egress_spec = 1;
            bit<32> at = (bit<32>) hdr.cell.index & 7;
            bit<48> wide;
            bit<7> narrow;
            bit<32> sum;
            wides.read(wide, at);
            narrows.read(narrow, at);
            total.read(sum, 0);
            if (hdr.cell.what[0:0] == 1) { wides.write(at, wide + hdr.cell.wide); }
            if (hdr.cell.what[1:1] == 1) { narrows.write(at, narrow + 100); }
            sum = sum + 1;
            total.write(0, sum);
            if (hdr.cell.what[2:2] == 1) {
                // Twice in one pass, the second time with what the first wrote.
                wides.read(wide, 7 - at);
                wides.write(7 - at, wide | 1);
                wides.read(wide, 7 - at);
            }
            hdr.cell.wide = wide;
            hdr.cell.narrow = (bit<8>) narrow;
            hdr.cell.total = sum;
        } else { mark_to_drop(sm); }
    }
}
EGRESS { apply { } }
COMPUTE { apply { } }
DEPARSER { apply { p.emit(hdr.ethernet); p.emit(hdr.cell); } }
MAIN
