//! `varbit`.

use super::{Program, Source};

fn options(meta: &str, parser_locals: &str, locals: &str, apply: &str) -> Program {
    Source {
        types: "header o_t { bit<4> kind; varbit<64> data; bit<12> end; }
            header i_t { bit<8> n; varbit<16> v; }
            header_union u_t { o_t o; i_t i; }",
        headers: "o_t o; o_t spare; u_t u; i_t[2] s;",
        meta,
        parser_locals,
        states: "state next { transition select(hdr.h.a) { 0 .. 64: more; 100: in_union; 101: in_stack; default: accept; } }
            state more { p.extract(hdr.o, (bit<32>)hdr.h.a); transition accept; }
            state in_union { p.extract(hdr.u.i, 8); transition accept; }
            state in_stack { p.extract(hdr.s.next, 8); p.extract(hdr.s.next, 16); transition accept; }",
        locals,
        apply,
    }
    .load()
}

#[test]
fn the_packet_determines_the_length() {
    let mut program = options(
        "",
        "",
        "",
        "hdr.h.b = hdr.o.isValid() ? 8w1 : 0;
         if (sm.parser_error == error.PacketTooShort) { hdr.h.d = 1; }
         if (sm.parser_error == error.ParserInvalidArgument) { hdr.h.d = 6; }",
    );
    program.gives(&[0, 0, 0, 0, 0x12, 0x34, 9], &[0, 1, 0, 0, 0x12, 0x34, 9]);
    program.gives(&[16, 0, 0, 0, 0x12, 3, 4, 0x56, 9], &[16, 1, 0, 0, 0x12, 3, 4, 0x56, 9]);
    let frame = [64, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    let expected = [64, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    program.gives(&frame, &expected);
    // Within a byte, and beyond the end: parser errors.
    program.gives(&[12, 0, 0, 0, 1, 2, 3, 4], &[12, 0, 0, 6, 1, 2, 3, 4]);
    program.gives(&[64, 0, 0, 0, 1, 2, 3], &[64, 0, 0, 1, 1, 2, 3]);
}

#[test]
fn values_are_copied_with_their_length() {
    let mut program = options(
        "varbit<64> kept;",
        "",
        "varbit<64> local;",
        "local = hdr.o.data; meta.kept = local;
         hdr.spare.setValid(); hdr.spare.kind = 0xa; hdr.spare.end = 0xbcd;
         if (hdr.h.b == 1) { hdr.spare.data = meta.kept; }
         if (hdr.h.b == 2) { hdr.spare = hdr.o; hdr.o.setInvalid(); }
         if (hdr.h.b == 3) { hdr.o.data = hdr.spare.data; }",
    );
    program.gives(&[8, 0, 0, 0, 0x11, 0x23, 0x45], &[8, 0, 0, 0, 0x11, 0x23, 0x45, 0xab, 0xcd]);
    program
        .gives(&[8, 1, 0, 0, 0x11, 0x23, 0x45], &[8, 1, 0, 0, 0x11, 0x23, 0x45, 0xa1, 0x2b, 0xcd]);
    program.gives(&[8, 2, 0, 0, 0x11, 0x23, 0x45], &[8, 2, 0, 0, 0x11, 0x23, 0x45]);
    program.gives(&[8, 3, 0, 0, 0x11, 0x23, 0x45], &[8, 3, 0, 0, 0x13, 0x45, 0xab, 0xcd]);
}

#[test]
fn values_are_compared_and_passed_to_functions() {
    let mut program = Source {
        types: "header o_t { varbit<64> data; }
            bool same(in varbit<64> a, in varbit<64> b) { return a == b; }
            void swap(inout varbit<64> a, inout varbit<64> b) { varbit<64> t = a; a = b; b = t; }",
        headers: "o_t x; o_t y;",
        states: "state next { p.extract(hdr.x, 16); p.extract(hdr.y, (bit<32>)hdr.h.a); transition accept; }",
        apply: "if (same(hdr.x.data, hdr.y.data)) { hdr.h.b = 1; }
            if (hdr.x == hdr.y) { hdr.h.c = 1; }
            if (hdr.x.data != hdr.y.data) { swap(hdr.x.data, hdr.y.data); }",
        ..Source::default()
    }
    .load();
    program.gives(&[16, 0, 0, 0, 1, 2, 1, 2], &[16, 1, 1, 0, 1, 2, 1, 2]);
    program.gives(&[16, 0, 0, 0, 1, 2, 1, 3], &[16, 0, 0, 0, 1, 3, 1, 2]);
    program.gives(&[24, 0, 0, 0, 1, 2, 9, 8, 7], &[24, 0, 0, 0, 9, 8, 7, 1, 2]);
    // As in BMv2, the numbers are compared: 2 in two bytes equals 2 in one.
    program.gives(&[8, 0, 0, 0, 0, 2, 2], &[8, 1, 1, 0, 0, 2, 2]);
}

#[test]
fn unions_and_stacks_hold_headers_with_varbits() {
    let mut program = options(
        "",
        "",
        "i_t one;",
        "bit<8> i = hdr.h.b;
         if (hdr.h.a == 101) { one = hdr.s[i]; hdr.s[1 - i].v = hdr.s[i].v; hdr.u.i = one; }
         if (hdr.u.i.isValid()) { hdr.h.c = 1; }",
    );
    program.gives(&[100, 0, 0, 0, 7, 8, 9], &[100, 0, 1, 0, 7, 8, 9]);
    program
        .gives(&[101, 0, 0, 0, 1, 0xaa, 2, 0xbb, 0xcc], &[101, 0, 1, 0, 1, 0xaa, 1, 0xaa, 2, 0xaa]);
    program.gives(
        &[101, 1, 0, 0, 1, 0xaa, 2, 0xbb, 0xcc],
        &[101, 1, 1, 0, 2, 0xbb, 0xcc, 1, 0xbb, 0xcc, 2, 0xbb, 0xcc],
    );
}

#[test]
fn sums_cover_the_actual_number_of_bits() {
    let mut program = options(
        "",
        "",
        "bit<16> sum;",
        "hash(sum, HashAlgorithm.csum16, 16w0, { hdr.o.kind, hdr.o.data, hdr.o.end, hdr.h.d }, 32w0x10000);
         hdr.h.b = sum[15:8]; hdr.h.c = sum[7:0];",
    );
    // The complement of the sum of 16-bit words.
    program.gives(&[0, 0, 0, 5, 1, 2], &[0, 0xf9, 0xfd, 5, 1, 2]);
    program.gives(&[8, 0, 0, 5, 1, 2, 3], &[8, 0xfb, 0xf8, 5, 1, 2, 3]);
}
