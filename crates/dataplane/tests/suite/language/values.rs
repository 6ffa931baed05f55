//! Types, functions and values.

use super::{Source, apply_gives};

#[test]
fn generic_structs_and_functions_are_instantiated_for_their_arguments() {
    let mut program = Source {
        types: "struct pair_t<A, B> { A first; B second; }
            T one<T>(in bool first, in T a, in T b) { T result; if (first) { result = a; } else { result = b; } return result; }
            A left<A, B>(in pair_t<A, B> pair) { return pair.first; }
            bit<8> count() { return 1; }
            bit<8> count(in bit<8> a) { return a + 2; }
            bit<8> count(in bit<8> a, in bit<8> b) { return a + b; }
            bit<8> count(in bit<8> c, in bit<8> d) { return c - d; }",
        meta: "pair_t<bit<8>, bit<16>> pair;",
        apply: "pair_t<int<8>, bool> other = { -1, true };
            meta.pair = { first = hdr.h.a, ... };
            int<8> b = (int<8>)hdr.h.b;
            hdr.h.a = one(hdr.h.a > 10, hdr.h.a, 10);
            hdr.h.b = one<int<8>>(left(other) > b, left(other), b) == -1 ? 8w1 : 0;
            hdr.h.c = left(meta.pair) + (bit<8>)meta.pair.second;
            hdr.h.d = count() + count(10) + count(a = 3, b = 4) + count(c = 9, d = 8);",
        ..Source::default()
    }
    .load();
    program.gives(&[3, 0xf0, 0, 0], &[10, 1, 3, 1 + 12 + 7 + 1]);
    program.gives(&[20, 1, 0, 0], &[20, 0, 20, 21]);
}

#[test]
fn slices_of_values_begin_where_the_packet_says() {
    apply_gives(
        "",
        "bit<32> all = hdr.h.a ++ hdr.h.b ++ hdr.h.c ++ 8w0x5a;
         hdr.h.d = all[hdr.h.a +: 8];
         hdr.h.b = all[8 +: 8];
         hdr.h.c[4 +: 4] = 4w9;",
        &[
            (&[4, 0x12, 0x34, 0], &[4, 0x34, 0x94, 0x45]),
            (&[40, 0x12, 0x34, 0], &[40, 0x34, 0x94, 0]),
        ],
    );
}

#[test]
fn lists_initialise_stacks_structs_and_what_is_emitted() {
    let mut program = Source {
        types: "header e_t { bit<8> v; } struct all_t { bit<8> a; bool b; error e; e_t h; tuple<bit<8>, bit<8>> t; }",
        headers: "e_t[3] s;",
        apply: "hdr.s = { { hdr.h.a }, {#}, { v = 3 } };
            all_t all = { 7, ... };
            if (!all.b && all.e == error.NoError && !all.h.isValid() && all.t == { 0, 0 }) { hdr.h.b = all.a; }
            all = hdr.h.c == 1 ? { 1, true, error.NoMatch, {#}, { 2, 3 } } : { 4, ... };
            hdr.h.d = all.a + all.t[1];",
        ..Source::default()
    }
    .load();
    program.gives(&[9, 0, 1, 0], &[9, 7, 1, 4, 9, 3]);
    program.gives(&[9, 0, 2, 0], &[9, 7, 2, 4, 9, 3]);
}

#[test]
fn a_local_may_hide_a_parameter_and_enums_their_own_members_name() {
    let mut program = Source {
        types: "enum bit<8> k_t { A = 4, B = A + 1, C = B }
            control Hidden(inout bit<8> x) { bit<16> y = (bit<16>)x; bool x = y == 5; apply { if (x) { y = 1; } } }",
        apply: "hdr.h.a = k_t.B + k_t.C;
            switch (hdr.h.b) { 1: 2: { hdr.h.c = 1; } 3: { hdr.h.c = 2; } 4: }",
        ..Source::default()
    }
    .load();
    program.gives(&[0, 2, 0, 0], &[10, 2, 1, 0]);
    program.gives(&[0, 3, 0, 0], &[10, 3, 2, 0]);
    program.gives(&[0, 4, 7, 0], &[10, 4, 7, 0]);
}
