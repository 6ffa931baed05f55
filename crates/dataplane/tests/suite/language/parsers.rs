//! Parsers: sub-parsers and selects.

use tributary_dataplane::{KeyMatch, Value};
use tributary_p4::ir::ExternId;

use super::Source;

#[test]
fn a_parser_may_be_applied_under_a_condition() {
    let mut program = Source {
        types: "header e_t { bit<8> v; }
            struct two_t { e_t x; e_t y; }
            parser One(packet_in p, out e_t e, inout bit<8> n) {
                state start { p.extract(e); n = n + 1; transition select(e.v) { 9: more; default: accept; } }
                state more { p.extract(e); n = n + 1; transition accept; }
            }",
        headers: "e_t x; e_t y;",
        parser_locals: "One() one;",
        states: "state next {
                meta.x = 0;
                if (hdr.h.a == 1) { one.apply(p, hdr.x, meta.x); meta.x = meta.x + 16; }
                else if (hdr.h.a == 2) { one.apply(p, hdr.x, meta.x); one.apply(p, hdr.y, meta.x); }
                meta.x = meta.x + 32;
                transition accept;
            }",
        apply: "hdr.h.b = meta.x;",
        ..Source::default()
    }
    .load();
    program.gives(&[0, 0, 0, 0, 5], &[0, 32, 0, 0, 5]);
    program.gives(&[1, 0, 0, 0, 5, 6], &[1, 49, 0, 0, 5, 6]);
    program.gives(&[1, 0, 0, 0, 9, 6], &[1, 50, 0, 0, 6]);
    program.gives(&[2, 0, 0, 0, 9, 6, 7], &[2, 35, 0, 0, 6, 7]);
}

#[test]
fn members_of_structs_and_tuples_are_compared_in_selects() {
    let mut program = Source {
        types: "struct in_t { bit<8> x; bit<8> y; } struct pair_t { in_t i; bool z; }",
        parser_locals: "pair_t pair; tuple<bit<8>, bit<8>> t;",
        states: "state next {
                pair = { { hdr.h.a, hdr.h.b }, hdr.h.c == 1 };
                t = { hdr.h.a, hdr.h.d };
                transition select(pair.i.x, pair.i.y, pair.z, t[1]) {
                    (1, 2, true, 5): one;
                    (1, 3, true, 5 .. 9): two;
                    (7, 4, false, _): three;
                    (_, _, _, 200): four;
                    _: accept;
                }
            }
            state one { meta.x = 1; transition accept; }
            state two { meta.x = 2; transition accept; }
            state three { meta.x = 3; transition accept; }
            state four { meta.x = 4; transition accept; }",
        apply: "hdr.h.a = meta.x;",
        ..Source::default()
    }
    .load();
    program.gives(&[1, 2, 1, 5], &[1, 2, 1, 5]);
    program.gives(&[1, 3, 1, 5], &[2, 3, 1, 5]);
    program.gives(&[7, 4, 0, 0], &[3, 4, 0, 0]);
    program.gives(&[7, 0, 0, 200], &[4, 0, 0, 200]);
    program.gives(&[7, 0, 0, 201], &[0, 0, 0, 201]);
}

#[test]
fn value_sets_contain_the_controllers_members() {
    let mut program = Source {
        types: "struct pair_t { bit<8> x; bit<8> y; }",
        parser_locals: "value_set<bit<8>>(4) ones; value_set<pair_t>(4) pairs;",
        states: "state next {
                transition select(hdr.h.a, hdr.h.b) { pairs: two; (ones, 7): one; default: accept; }
            }
            state one { meta.x = 1; transition accept; }
            state two { meta.x = 2; transition accept; }",
        apply: "hdr.h.c = meta.x;",
        ..Source::default()
    }
    .load();
    program.gives(&[5, 7, 0, 0], &[5, 7, 0, 0]);
    let exact = |value: u64| KeyMatch::Exact(Value::from(value));
    program.pipeline.value_set_insert(ExternId(0), vec![exact(5)]).unwrap();
    program.pipeline.value_set_insert(ExternId(1), vec![exact(5), exact(8)]).unwrap();
    program.gives(&[5, 7, 0, 0], &[5, 7, 1, 0]);
    program.gives(&[5, 8, 0, 0], &[5, 8, 2, 0]);
    program.gives(&[5, 9, 0, 0], &[5, 9, 0, 0]);
}

#[test]
fn a_select_without_a_matching_case_ends_the_parser_without_an_error() {
    let mut program = Source {
        types: "header e_t { bit<8> v; }",
        headers: "e_t e;",
        states: "state next { transition select(hdr.h.a) { 1: more; } }
            state more { p.extract(hdr.e); transition accept; }",
        apply: "hdr.h.b = hdr.e.isValid() ? 8w1 : 0; if (sm.parser_error == error.NoError) { hdr.h.c = 1; }",
        ..Source::default()
    }
    .load();
    program.gives(&[1, 0, 0, 0, 7], &[1, 1, 1, 0, 7]);
    program.gives(&[2, 0, 0, 0, 7], &[2, 0, 1, 0, 7]);
}
