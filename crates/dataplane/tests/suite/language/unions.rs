//! Header unions.

use super::Source;

const TYPES: &str =
    "header a_t { bit<8> v; } header b_t { bit<16> v; } header_union u_t { a_t a; b_t b; }";

/// Stores the validity of the union, `a` and `b` as bits in `hdr.h.d`.
const REPORT: &str = "hdr.h.d = 0;
    if (hdr.u.isValid()) { hdr.h.d = hdr.h.d + 4; }
    if (hdr.u.a.isValid()) { hdr.h.d = hdr.h.d + 2; }
    if (hdr.u.b.isValid()) { hdr.h.d = hdr.h.d + 1; }";

#[track_caller]
fn union_gives(meta: &str, locals: &str, apply: &str, frames: &[(&[u8], &[u8])]) {
    let mut program = Source {
        types: TYPES,
        headers: "u_t u;",
        meta,
        states:
            "state next { transition select(hdr.h.a) { 0: a; 1: b; 2: both; default: accept; } }
            state a { p.extract(hdr.u.a); transition accept; }
            state b { p.extract(hdr.u.b); transition accept; }
            state both { p.extract(hdr.u.a); p.extract(hdr.u.b); transition accept; }",
        locals,
        apply: &format!("{apply} {REPORT}"),
        ..Source::default()
    }
    .load();
    for (frame, expected) in frames {
        program.gives(frame, expected);
    }
}

#[test]
fn at_most_one_header_of_a_union_is_valid() {
    union_gives(
        "",
        "",
        "if (hdr.h.b == 1) { hdr.u.a.setValid(); hdr.u.a.v = 9; }
         if (hdr.h.b == 2) { hdr.u.b.setInvalid(); }",
        &[
            (&[0, 0, 0, 0, 7], &[0, 0, 0, 6, 7]),
            (&[1, 0, 0, 0, 7, 8], &[1, 0, 0, 5, 7, 8]),
            // The second extraction wins.
            (&[2, 0, 0, 0, 5, 6, 7], &[2, 0, 0, 5, 6, 7]),
            (&[3, 0, 0, 0, 5], &[3, 0, 0, 0, 5]),
            (&[1, 1, 0, 0, 7, 8, 5], &[1, 1, 0, 6, 9, 5]),
            (&[0, 2, 0, 0, 7], &[0, 2, 0, 6, 7]),
            (&[1, 2, 0, 0, 7, 8], &[1, 2, 0, 0]),
        ],
    );
}

#[test]
fn unions_are_copied_whole_and_by_member() {
    union_gives(
        "u_t u;",
        "u_t spare;",
        "spare.b.setValid(); spare.b.v = 0x0102;
         if (hdr.h.b == 0) { meta.u = hdr.u; hdr.u = spare; spare = meta.u; }
         if (hdr.h.b == 1) { hdr.u.b = spare.b; }
         if (hdr.h.b == 2) { hdr.u.a = spare.a; }
         if (spare.a.isValid()) { hdr.h.c = spare.a.v; }",
        &[
            (&[0, 0, 0, 0, 7], &[0, 0, 7, 5, 1, 2]),
            (&[0, 1, 0, 0, 7], &[0, 1, 0, 5, 1, 2]),
            // The copy of an invalid header leaves the other one unchanged.
            (&[1, 2, 0, 0, 7, 8], &[1, 2, 0, 5, 7, 8]),
        ],
    );
}

#[test]
fn unions_are_equal_if_the_same_header_is() {
    union_gives(
        "",
        "u_t other;",
        "other.a.setValid(); other.a.v = 7;
         if (hdr.h.b == 1) { other = {#}; }
         hdr.h.c = hdr.u == other ? 8w1 : 2;",
        &[
            (&[0, 0, 0, 0, 7], &[0, 0, 1, 6, 7]),
            (&[0, 0, 0, 0, 8], &[0, 0, 2, 6, 8]),
            (&[1, 0, 0, 0, 0, 7], &[1, 0, 2, 5, 0, 7]),
            (&[3, 1, 0, 0], &[3, 1, 1, 0]),
            (&[3, 0, 0, 0], &[3, 0, 2, 0]),
        ],
    );
}

#[test]
fn a_control_and_a_function_change_unions_passed_to_them() {
    union_gives(
        "",
        "action set(inout u_t u, in bit<16> v) { u.b.setValid(); u.b.v = v; }",
        "set(hdr.u, 0x0a0b); if (hdr.u.b.v == 0x0a0b) { hdr.h.c = 1; }",
        &[(&[0, 0, 0, 0, 7], &[0, 0, 1, 5, 10, 11])],
    );
}

#[test]
fn stacks_of_unions_are_parsed_shifted_and_indexed() {
    let mut program = Source {
        types: TYPES,
        headers: "u_t[3] s;",
        states: "state next { transition select(p.lookahead<bit<8>>()) {
                0 .. 15: a; 16 .. 31: b; default: accept; } }
            state a { p.extract(hdr.s.next.a); transition next; }
            state b { p.extract(hdr.s.next.b); transition select(hdr.s.last.b.v[7:0]) { 0: accept; default: next; } }",
        apply: "bit<8> i = hdr.h.a;
            if (hdr.h.b == 1) { hdr.s.push_front(1); hdr.s[0].a.setValid(); hdr.s[0].a.v = 99; }
            if (hdr.h.b == 2) { hdr.s.pop_front(1); }
            if (hdr.h.b == 3) { hdr.s[i].b.setValid(); hdr.s[i].b.v = 0x6364; }
            if (hdr.h.b == 4) { hdr.s[2] = hdr.s[i]; }
            if (hdr.s[i].isValid()) { hdr.h.c = 1; }
            if (hdr.s[i].b.isValid()) { hdr.h.d = hdr.s[i].b.v[7:0]; }",
        ..Source::default()
    }
    .load();
    program.gives(&[1, 0, 0, 0, 1, 16, 2, 3, 99], &[1, 0, 1, 2, 1, 16, 2, 3, 99]);
    program.gives(&[1, 0, 0, 0, 1, 16, 0], &[1, 0, 1, 0, 1, 16, 0]);
    program.gives(&[0, 1, 0, 0, 1, 16, 2, 99], &[0, 1, 1, 0, 99, 1, 16, 2, 99]);
    program.gives(&[0, 2, 0, 0, 1, 16, 2, 99], &[0, 2, 1, 2, 16, 2, 99]);
    program.gives(&[0, 3, 0, 0, 1, 16, 2, 99], &[0, 3, 1, 100, 99, 100, 16, 2, 99]);
    program.gives(&[1, 4, 0, 0, 1, 16, 2, 99], &[1, 4, 1, 2, 1, 16, 2, 16, 2, 99]);
    program.gives(&[9, 3, 0, 0, 1, 99], &[9, 3, 0, 0, 1, 99]);
    // A fourth element is too many: parsed ones stay, the rest is payload.
    program.gives(&[0, 0, 0, 0, 1, 2, 3, 4, 5], &[0, 0, 1, 0, 1, 2, 3, 4, 5]);
}
