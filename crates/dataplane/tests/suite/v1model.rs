//! The architecture's rules: inputs of a pass, effects of a program, and outputs.

use tributary_dataplane::{
    Egress, EgressInput, Ingress, IngressInput, Instance, LoadError, Pipeline, Value, Verdict,
};
use tributary_p4::ir::*;

use super::common::{
    self, Builder, apply, assign, binary, bit, cast, function, method, pass, words,
};

fn fixed(header: HeaderId) -> HeaderRef {
    HeaderRef::Fixed(header)
}

fn extract(header: HeaderRef) -> Stmt {
    Stmt::Extract { header, varbit_bits: None }
}

fn ingress(pipeline: &mut Pipeline, frame: &[u8]) -> Ingress {
    let mut packet = pipeline.new_packet();
    pipeline.ingress(&mut packet, frame, &IngressInput::default())
}

fn opaque() -> Vec<Arg> {
    vec![Arg::Opaque]
}

/// The first byte selects a statement list.
fn choosing(cases: impl FnOnce(&mut Builder) -> Vec<Vec<Stmt>>) -> Builder {
    let mut b = Builder::new();
    let header = b.bits_header("h", &[8]);
    b.straight(&[header]);
    let cases = cases(&mut b);
    b.ingress.push(Stmt::Switch {
        on: b.get(b.of(header, 0)),
        cases: cases.into_iter().zip(0..).map(|(body, i)| (words(i), body)).collect(),
        default: Vec::new(),
    });
    b
}

#[test]
fn a_verdict_follows_simple_switchs_order() {
    let b = choosing(|b| {
        let (spec, group) = (b.standard("egress_spec"), b.standard("mcast_grp"));
        let again = || function("resubmit_preserving_field_list", vec![Arg::In(bit(8, 3))]);
        let drop = || function("mark_to_drop", opaque());
        vec![
            vec![b.set(spec, 7)],
            vec![b.set(spec, 511)],
            vec![b.set(group, 9), b.set(spec, 7)],
            // A group set before a drop is cleared, one set afterwards is not.
            vec![b.set(group, 9), drop()],
            vec![drop(), b.set(group, 9)],
            vec![drop(), again()],
            vec![b.set(spec, 7), again(), function("assert", vec![Arg::In(bit(1, 0))])],
        ]
    });
    let mut pipeline = b.load();
    let expected = [
        (Verdict::Unicast(7), false),
        (Verdict::Drop, false),
        (Verdict::Multicast(9), false),
        (Verdict::Drop, false),
        (Verdict::Multicast(9), false),
        (Verdict::Drop, true),
        (Verdict::Drop, false),
        // No port chosen: port 0.
        (Verdict::Unicast(0), false),
    ];
    for (case, (verdict, resubmit)) in expected.into_iter().enumerate() {
        assert_eq!(
            ingress(&mut pipeline, &[case as u8, 1]),
            Ingress { verdict, resubmit },
            "case {case}"
        );
    }
}

#[test]
fn metadata_has_the_switchs_values() {
    let mut b = Builder::new();
    let names = ["ingress_port", "ingress_global_timestamp", "packet_length", "instance_type"];
    let late = [
        "egress_port",
        "egress_rid",
        "enq_timestamp",
        "enq_qdepth",
        "deq_qdepth",
        "deq_timedelta",
        "egress_global_timestamp",
        "egress_spec",
        "instance_type",
    ];
    let header = b.bits_header("h", &[64; 13]);
    b.straight(&[header]);
    let copy = |b: &Builder, i: usize, name: &str| {
        assign(b.of(header, i), cast(Scalar::bit(64), b.get(b.standard(name))))
    };
    b.ingress = names.iter().enumerate().map(|(i, name)| copy(&b, i, name)).collect();
    b.egress = late.iter().enumerate().map(|(i, name)| copy(&b, 4 + i, name)).collect();
    let mut pipeline = b.load();
    // In a second pass, a packet has lost its arrival port and time, as in BMv2.
    for (instance, arrival) in
        [(Instance::Normal, [300, 5, 111, 0]), (Instance::Recirculated, [0, 0, 111, 4])]
    {
        let input = IngressInput { port: 300, time_us: (1 << 48) + 5, instance };
        let got = seen_by_both(&mut pipeline, &input);
        assert_eq!(got[..4], arrival);
        assert_eq!(got[4..], [17, 4, 90, 3, 2, 9, 99, 0, 5]);
    }
}

/// The output for a packet of thirteen long fields.
fn seen_by_both(pipeline: &mut Pipeline, input: &IngressInput) -> Vec<u64> {
    let mut packet = pipeline.new_packet();
    pipeline.ingress(&mut packet, &[0; 111], input);
    let input = EgressInput {
        port: 17,
        rid: 4,
        instance: Instance::Replication,
        time_us: 99,
        enq_time_us: 90,
        enq_qdepth: (1 << 19) + 3,
        deq_qdepth: 2,
        deq_timedelta: 9,
        ..EgressInput::default()
    };
    let mut out = Vec::new();
    pipeline.egress(&mut packet, &input, &mut out);
    out.as_chunks::<8>().0[..13].iter().map(|bytes| u64::from_be_bytes(*bytes)).collect()
}

#[test]
fn only_fields_of_a_list_survive_a_second_pass() {
    second_pass(2, [5, 0, 7, 8, 9, 9]);
    // An undeclared list keeps nothing.
    second_pass(77, [0, 0, 0, 0, 9, 9]);
}

fn second_pass(list: u64, expected: [u8; 6]) {
    let mut b = Builder::new();
    let header = b.bits_header("h", &[8, 8, 16]);
    b.straight(&[header]);
    let (kept, lost, wide) = (b.meta("kept", 8), b.meta("lost", 8), b.meta("wide", 100));
    b.program.field_lists.push((2, vec![kept, wide]));
    b.ingress = vec![
        assign(b.of(header, 0), b.get(kept)),
        assign(b.of(header, 1), b.get(lost)),
        assign(b.of(header, 2), cast(Scalar::bit(16), b.get(wide))),
        b.set(kept, 5),
        b.set(lost, 6),
        b.set(wide, 0x0708),
        function("resubmit_preserving_field_list", vec![Arg::In(bit(8, list))]),
    ];
    let mut pipeline = b.load();
    let mut packet = pipeline.new_packet();
    let mut out = Vec::new();
    let frame = [9; 6];
    let first = pipeline.ingress(&mut packet, &frame, &IngressInput::default());
    assert!(first.resubmit);
    let again = pipeline.next_pass(&IngressInput::default(), Instance::Resubmitted);
    pipeline.ingress(&mut packet, &frame, &again);
    pipeline.egress(&mut packet, &EgressInput::default(), &mut out);
    assert_eq!(out, expected);
}

#[test]
fn egress_drops_recirculates_and_truncates() {
    let mut b = Builder::new();
    let header = b.bits_header("h", &[8]);
    b.straight(&[header]);
    let truncate = |length| function("truncate", vec![Arg::In(bit(32, length))]);
    b.egress.push(Stmt::Switch {
        on: b.get(b.of(header, 0)),
        cases: vec![
            (words(1), vec![function("mark_to_drop", opaque())]),
            (
                words(2),
                vec![function("recirculate_preserving_field_list", vec![Arg::In(bit(8, 0))])],
            ),
            (words(3), vec![truncate(3), truncate(4)]),
            (words(4), vec![function("assume", vec![Arg::In(bit(1, 0))])]),
        ],
        default: Vec::new(),
    });
    let mut pipeline = b.load();
    let mut packet = pipeline.new_packet();
    let mut out = vec![1, 2, 3];
    for (first, drop, recirculate, length) in [
        (0, false, false, 5),
        (1, true, false, 0),
        (2, false, true, 5),
        (3, false, false, 3),
        (4, true, false, 0),
    ] {
        pipeline.ingress(&mut packet, &[first, 1, 2, 3, 4], &IngressInput::default());
        let egress = pipeline.egress(&mut packet, &EgressInput::default(), &mut out);
        assert_eq!(egress, Egress { drop, recirculate });
        assert_eq!(out, [first, 1, 2, 3, 4][..length]);
    }
}

#[test]
fn a_parser_error_continues_in_ingress_with_the_rest_as_payload() {
    let mut b = Builder::new();
    let (first, second) = (b.bits_header("first", &[8]), b.bits_header("second", &[32]));
    let kind = b.get(b.of(first, 0));
    b.state(
        vec![extract(fixed(first))],
        Transition::Select {
            on: vec![kind.clone()],
            cases: vec![
                (vec![Keyset::Value(words(1))], Target::State(StateId(1))),
                (vec![Keyset::Masked { value: words(0x23), mask: words(0xf0) }], Target::Accept),
                (
                    vec![Keyset::Range { low: words(0x40), high: words(0x4f) }],
                    Target::State(StateId(2)),
                ),
                (vec![Keyset::Prefix { value: words(0x80), len: 3 }], Target::Reject),
            ],
        },
    );
    b.state(vec![extract(fixed(second))], Transition::To(Target::Accept));
    let condition = binary(BinaryOp::Eq, Scalar::BOOL, kind, bit(8, 0x41));
    let error = Expr { ty: Scalar::bit(32), kind: ExprKind::Const(words(9)) };
    b.state(vec![Stmt::Verify { condition, error }], Transition::To(Target::State(StateId(1))));
    b.deparser = vec![Stmt::Emit(fixed(first)), Stmt::Emit(fixed(second))];
    let code = b.standard("parser_error");
    b.ingress = vec![assign(b.standard("egress_spec"), cast(Scalar::bit(9), b.get(code)))];
    let mut pipeline = b.load();
    let mut packet = pipeline.new_packet();
    for (frame, error) in [
        (&[1, 2, 3, 4, 5, 6][..], 0),
        (&[1, 2, 3, 4], 1),
        (&[0x2f], 0),
        // No case matches.
        (&[0x30, 1], 0),
        (&[0x41, 2, 3, 4, 5], 0),
        (&[0x42, 2, 3, 4, 5], 9),
        (&[0x9f, 2], 0),
        (&[], 1),
    ] {
        let verdict = pipeline.ingress(&mut packet, frame, &IngressInput::default()).verdict;
        assert_eq!(verdict, Verdict::Unicast(error), "{frame:?}");
        let mut out = Vec::new();
        pipeline.egress(&mut packet, &EgressInput::default(), &mut out);
        assert_eq!(out, frame);
    }
}

#[test]
fn a_parser_loop_that_consumes_nothing_ends() {
    let mut b = Builder::new();
    b.state(Vec::new(), Transition::To(Target::State(StateId(0))));
    let code = b.standard("parser_error");
    b.ingress = vec![assign(b.standard("egress_spec"), cast(Scalar::bit(9), b.get(code)))];
    let mut pipeline = b.load();
    assert_eq!(ingress(&mut pipeline, &[1, 2, 3]).verdict, Verdict::Unicast(5));
}

/// A parser that extracts a large header after a first byte that is not zero.
fn large_header(b: &mut Builder) -> HeaderId {
    let choice = b.bits_header("choice", &[8]);
    let large = b.bits_header("large", &[32; 20]);
    b.state(
        vec![extract(fixed(choice))],
        Transition::Select {
            on: vec![b.get(b.of(choice, 0))],
            cases: vec![
                (vec![Keyset::Value(words(0))], Target::Accept),
                (vec![Keyset::Any], Target::State(StateId(1))),
            ],
        },
    );
    b.state(vec![extract(fixed(large))], Transition::To(Target::Accept));
    large
}

/// Frames with and without the large header, in turn. Returns the first two bytes of each output.
fn with_and_without(pipeline: &mut Pipeline) -> [Vec<u8>; 4] {
    let whole: Vec<u8> = std::iter::once(1).chain([0xee; 80]).collect();
    let mut packet = pipeline.new_packet();
    // The last one is too short for its first byte.
    [&whole[..], &[0, 9], &whole[..], &whole[..80]].map(|frame| {
        let mut out = pass(pipeline, &mut packet, frame);
        out.truncate(2);
        out
    })
}

#[test]
fn the_large_header_of_the_previous_packet_is_cleared() {
    let mut b = Builder::new();
    let large = large_header(&mut b);
    let seen = b.bits_header("seen", &[8, 8]);
    b.ingress = vec![
        Stmt::SetValid(fixed(seen)),
        assign(b.of(seen, 0), cast(Scalar::bit(8), b.get(b.of(large, 0)))),
        assign(b.of(seen, 1), cast(Scalar::bit(8), b.get(b.of(large, 19)))),
    ];
    b.deparser = vec![Stmt::Emit(fixed(seen))];
    let expected: [Vec<u8>; 4] = [vec![0xee; 2], vec![0; 2], vec![0xee; 2], vec![0; 2]];
    assert_eq!(with_and_without(&mut b.load()), expected);
}

#[test]
fn a_parser_reads_zeros_from_a_large_header_before_its_extraction() {
    let mut b = Builder::new();
    let large = large_header(&mut b);
    let seen = b.bits_header("seen", &[8, 8]);
    let before = b.meta("before", 8);
    let read = assign(before, cast(Scalar::bit(8), b.get(b.of(large, 19))));
    b.states[0].body.push(read);
    b.ingress = vec![Stmt::SetValid(fixed(seen)), assign(b.of(seen, 0), b.get(before))];
    b.deparser = vec![Stmt::Emit(fixed(seen))];
    assert_eq!(with_and_without(&mut b.load()), [[0; 2]; 4]);
}

#[test]
fn stacks_are_filled_shifted_and_indexed() {
    let mut b = Builder::new();
    let stack = b.stack("labels", &[7, 1], 3);
    let elements = b.program.stacks[0].elements.clone();
    let next = b.program.stacks[0].next_index;
    let count = b.bits_header("count", &[8, 8]);
    let last = binary(BinaryOp::Sub, Scalar::bit(32), b.get(next), bit(32, 1));
    let bottom = Expr { ty: Scalar::bit(1), kind: ExprKind::Element(stack, Box::new(last), 1) };
    b.state(
        vec![extract(HeaderRef::Next(stack))],
        Transition::Select {
            on: vec![bottom],
            cases: vec![
                (vec![Keyset::Value(words(0))], Target::State(StateId(0))),
                (vec![Keyset::Any], Target::Accept),
            ],
        },
    );
    let code = b.standard("parser_error");
    // With an error: count the frame. Without: push one, and write to the second by index.
    let index = bit(32, 1);
    b.ingress = vec![
        Stmt::SetValid(fixed(count)),
        assign(b.of(count, 0), cast(Scalar::bit(8), b.get(next))),
        assign(b.of(count, 1), cast(Scalar::bit(8), b.get(code))),
        Stmt::If {
            condition: binary(BinaryOp::Eq, Scalar::BOOL, b.get(code), bit(32, 0)),
            then: vec![
                Stmt::PushFront(stack, 1),
                Stmt::SetValid(HeaderRef::Index(stack, Box::new(bit(8, 0)))),
                Stmt::Assign(Place::Element(stack, Box::new(index), 0), bit(7, 0x55)),
                Stmt::Assign(Place::Element(stack, Box::new(bit(32, 3)), 0), bit(7, 0x11)),
            ],
            otherwise: vec![Stmt::PopFront(stack, 2)],
        },
    ];
    b.deparser = std::iter::once(count).chain(elements).map(|h| Stmt::Emit(fixed(h))).collect();
    let mut pipeline = b.load();
    let mut packet = pipeline.new_packet();
    let mut run = |frame: &[u8]| pass(&mut pipeline, &mut packet, frame);
    // Two labels: pushed down by one, the new first one is zero, the second was written.
    assert_eq!(run(&[2, 3, 77]), [2, 0, 0, 0xaa, 3, 77]);
    // Three: the last one is dropped.
    assert_eq!(run(&[2, 4, 5, 77]), [3, 0, 0, 0xaa, 4, 77]);
    // Four do not fit; two are popped.
    assert_eq!(run(&[2, 4, 6, 8, 1]), [3, 3, 6, 8, 1]);
    // The frame ends in the middle.
    assert_eq!(run(&[2, 4]), [2, 1]);
}

#[test]
fn a_header_made_valid_is_zero_and_copies_include_validity() {
    let mut b = Builder::new();
    let (a, c, d) =
        (b.bits_header("a", &[8, 8]), b.bits_header("c", &[8, 8]), b.bits_header("d", &[8, 8]));
    b.state(vec![extract(fixed(a))], Transition::To(Target::Accept));
    let copy = |to, from| Stmt::CopyHeader { to: fixed(to), from: fixed(from) };
    b.ingress = vec![
        // A field of an invalid header can be written, but setValid() clears it.
        b.set(b.of(c, 1), 9),
        Stmt::SetValid(fixed(c)),
        b.set(b.of(c, 0), 1),
        // Already valid: no change.
        Stmt::SetValid(fixed(c)),
        copy(d, a),
        Stmt::SetInvalid(fixed(a)),
    ];
    b.egress = vec![
        copy(a, c),
        Stmt::SetInvalid(fixed(c)),
        Stmt::SetInvalid(fixed(c)),
        copy(c, b_invalid(&mut b)),
    ];
    b.deparser = [a, c, d].map(|h| Stmt::Emit(fixed(h))).to_vec();
    let length = b.standard("packet_length");
    let seen = b.instance("register", "seen", 32, 1);
    b.egress.insert(0, b.write(seen, bit(32, 0), b.get(length)));
    let mut pipeline = b.load();
    let mut packet = pipeline.new_packet();
    assert_eq!(pass(&mut pipeline, &mut packet, &[3, 4, 5]), [1, 0, 3, 4, 5]);
    // BMv2's rules: plus c, minus a; copies do not count.
    assert_eq!(pipeline.register_read(ExternId(0), 0), Ok(Value::from(3u64)));
    assert_eq!(packet.length(), 1);
}

/// A header of the same shape that is never valid.
fn b_invalid(b: &mut Builder) -> HeaderId {
    b.bits_header("never", &[8, 8])
}

#[test]
fn registers_keep_their_elements_and_ignore_indices_out_of_range() {
    let mut b = Builder::new();
    let header = b.bits_header("h", &[32, 16]);
    b.straight(&[header]);
    let (index, value) = (b.of(header, 0), b.of(header, 1));
    let old = b.meta("old", 16);
    let register = b.instance("register", "r", 16, 10);
    let counter = b.instance("counter", "c", 0, 10);
    b.ingress = vec![
        // The value that a failed read leaves unchanged.
        b.set(old, 0xabcd),
        b.read(register, old, b.get(index)),
        b.write(register, b.get(index), b.get(value)),
        assign(value, b.get(old)),
        method(counter, "count", vec![Arg::In(b.get(index))]),
    ];
    let mut pipeline = b.load();
    let mut packet = pipeline.new_packet();
    let mut run = |p: &mut Pipeline, index: u32, value: u16| {
        let mut frame = index.to_be_bytes().to_vec();
        frame.extend(value.to_be_bytes());
        let out = pass(p, &mut packet, &frame);
        u16::from_be_bytes([out[4], out[5]])
    };
    assert_eq!(run(&mut pipeline, 9, 5), 0);
    assert_eq!(run(&mut pipeline, 9, 6), 5);
    assert_eq!(run(&mut pipeline, 10, 7), 0xabcd);
    assert_eq!(run(&mut pipeline, u32::MAX, 7), 0xabcd);
    assert_eq!(pipeline.register_read(register, 9), Ok(Value::from(6u64)));
    pipeline.register_write(register, 9, &Value::from(0x1234u64)).unwrap();
    assert_eq!(run(&mut pipeline, 9, 6), 0x1234);
    assert!(pipeline.register_write(register, 9, &Value::from(0x1_0000u64)).is_err());
    assert!(pipeline.register_read(register, 10).is_err());
    assert!(pipeline.register_read(counter, 0).is_err());
    let data = pipeline.counter_read(counter, 9).unwrap();
    assert_eq!((data.packets, data.bytes), (3, 18));
    assert_eq!(pipeline.counter_read(counter, 8).unwrap().packets, 0);
    assert!(pipeline.counter_read(counter, 10).is_err());
    assert_eq!((pipeline.array_size(register), pipeline.array_size(counter)), (Some(10), Some(10)));
}

#[test]
fn sums_of_all_widths_agree_with_the_language_and_out_of_range_too() {
    for width in [1, 7, 16, 31, 32, 33, 64] {
        let ty = Scalar::bit(width);
        let padding = width.next_multiple_of(8) - width;
        let shape: Vec<u32> = [32, 32]
            .into_iter()
            .chain((0..20).flat_map(|_| [padding, width]).filter(|&width| width > 0))
            .collect();
        let mut b = Builder::new();
        let header = b.bits_header("h", &shape);
        b.straight(&[header]);
        let index = b.of(header, 0);
        let values: Vec<FieldId> = b.program.headers[0].fields[2..]
            .iter()
            .copied()
            .filter(|f| b.program.fields[f.index()].ty.width == width)
            .collect();
        // Neighbours, if the width needs no padding; the operations may be fused or not.
        let values = &values[..20];
        let sum = b.field("sum", ty, FieldRole::Local);
        b.ingress.push(b.set(sum, 1));
        let registers: Vec<ExternId> =
            (0..20).map(|i| b.instance("register", &format!("r{i}"), width, 4)).collect();
        for (&register, &value) in registers.iter().zip(values) {
            b.ingress.extend([
                b.read(register, sum, b.get(index)),
                assign(sum, binary(BinaryOp::Add, ty, b.get(value), b.get(sum))),
                b.write(register, b.get(index), b.get(sum)),
                assign(value, b.get(sum)),
            ]);
        }
        b.ingress.push(assign(b.of(header, 1), cast(Scalar::bit(32), b.get(sum))));
        let mut pipeline = b.load();
        let mut packet = pipeline.new_packet();
        let size = (width.div_ceil(8)) as usize;
        let ones = u64::MAX >> (64 - width);
        let mut stored = [[0u64; 20]; 4];
        for round in 0..40u32 {
            let index = round * 7 % 6;
            let mut frame = index.to_be_bytes().to_vec();
            frame.extend([0; 4]);
            let mut expected = frame.clone();
            let mut last = 1 & ones;
            for (lane, _) in values.iter().enumerate() {
                let value = u64::from(round).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> lane & ones;
                frame.extend(&value.to_be_bytes()[8 - size..]);
                last = match stored.get_mut(index as usize) {
                    Some(row) => {
                        row[lane] = row[lane].wrapping_add(value) & ones;
                        row[lane]
                    }
                    None => last.wrapping_add(value) & ones,
                };
                expected.extend(&last.to_be_bytes()[8 - size..]);
            }
            expected[4..8].copy_from_slice(&(last as u32).to_be_bytes());
            let out = pass(&mut pipeline, &mut packet, &frame);
            assert_eq!(out, expected, "width {width}, round {round}");
        }
        for (lane, &register) in registers.iter().enumerate() {
            assert_eq!(pipeline.register_read(register, 3), Ok(Value::from(stored[3][lane])));
        }
    }
}

#[test]
fn exit_ends_the_control_and_return_ends_its_scope() {
    let b = choosing(|b| {
        let spec = b.standard("egress_spec");
        let leave =
            b.action("leave", &[], |b, _| vec![b.set(spec, 1), Stmt::Return, b.set(spec, 2)]);
        let quit = b.action("quit", &[], |b, _| vec![b.set(spec, 3), Stmt::Exit, b.set(spec, 4)]);
        let nested = b.action("nested", &[], |_, _| vec![Stmt::Action(ActionId(0))]);
        let table = b.table(Vec::new(), &[quit], Vec::new());
        let scope = Stmt::Block(vec![
            Stmt::If {
                condition: bit(1, 1),
                then: vec![Stmt::Block(vec![Stmt::Return]), b.set(spec, 5), Stmt::Return],
                otherwise: Vec::new(),
            },
            b.set(spec, 6),
        ]);
        vec![
            vec![Stmt::Action(leave)],
            vec![Stmt::Action(quit), b.set(spec, 9)],
            vec![Stmt::Action(nested)],
            vec![apply(table), b.set(spec, 9)],
            vec![scope],
            vec![Stmt::Return, b.set(spec, 9)],
        ]
    });
    let mut pipeline = b.load();
    for (case, port) in [1, 3, 1, 3, 5, 0].into_iter().enumerate() {
        assert_eq!(ingress(&mut pipeline, &[case as u8]).verdict, Verdict::Unicast(port), "{case}");
    }
}

#[test]
fn replicas_are_copies_with_headers_metadata_and_payload() {
    let mut b = Builder::new();
    let header = b.bits_header("h", &[16]);
    b.straight(&[header]);
    let rid = b.standard("egress_rid");
    b.ingress = vec![b.set(b.standard("mcast_grp"), 5)];
    let sum = binary(BinaryOp::Add, Scalar::bit(16), b.get(b.of(header, 0)), b.get(rid));
    b.egress = vec![assign(b.of(header, 0), sum)];
    let mut pipeline = b.load();
    let (mut packet, mut replica) = (pipeline.new_packet(), pipeline.new_packet());
    let verdict = pipeline.ingress(&mut packet, &[0, 7, 1, 2], &IngressInput::default()).verdict;
    assert_eq!(verdict, Verdict::Multicast(5));
    let mut out = Vec::new();
    for rid in [1, 2] {
        replica.copy_from(&packet);
        let input = EgressInput { rid, instance: Instance::Replication, ..Default::default() };
        pipeline.egress(&mut replica, &input, &mut out);
        assert_eq!(out, [0, 7 + rid as u8, 1, 2]);
    }
}

#[test]
fn a_varbit_header_makes_the_round_trip() {
    let mut b = Builder::new();
    let header = b.bits_header("options", &[4, 4, 320, 12, 4]);
    let length = b.field("options.$length", Scalar::bit(32), FieldRole::Header(header));
    b.program.headers[0].varbit = Some((2, length));
    let ahead = b.field("ahead", Scalar::bit(8), FieldRole::Local);
    let low = Expr {
        ty: Scalar::bit(4),
        kind: ExprKind::Slice { value: Box::new(b.get(ahead)), hi: 3, lo: 0 },
    };
    let bits = binary(BinaryOp::Mul, Scalar::bit(32), cast(Scalar::bit(32), low), bit(32, 28));
    b.state(
        vec![
            Stmt::Lookahead(vec![ahead]),
            Stmt::Extract { header: fixed(header), varbit_bits: Some(bits) },
        ],
        Transition::To(Target::Accept),
    );
    b.deparser = vec![Stmt::Emit(fixed(header))];
    let code = b.standard("parser_error");
    b.ingress = vec![assign(b.standard("egress_spec"), cast(Scalar::bit(9), b.get(code)))];
    let mut pipeline = b.load();
    let mut packet = pipeline.new_packet();
    for (first, error) in [(0x10, 0), (0x12, 0), (0x1a, 0), (0x11, 6), (0x1c, 4)] {
        let frame: Vec<u8> = std::iter::once(first).chain(1..60).collect();
        let verdict = pipeline.ingress(&mut packet, &frame, &IngressInput::default()).verdict;
        assert_eq!(verdict, Verdict::Unicast(error), "{first:#x}");
        let mut out = Vec::new();
        pipeline.egress(&mut packet, &EgressInput::default(), &mut out);
        assert_eq!(out, frame);
    }
    assert_eq!(ingress(&mut pipeline, &[0x12, 1]).verdict, Verdict::Unicast(1));
}

#[test]
fn unsupported_features_are_refused_by_name() {
    let refused = |edit: &dyn Fn(&mut Builder)| {
        let mut b = Builder::new();
        b.straight(&[]);
        edit(&mut b);
        common::load(b.build()).unwrap_err().to_string()
    };
    let encrypt = function("encrypt", Vec::new());
    assert_eq!(refused(&|b| b.ingress.push(encrypt.clone())), "extern `encrypt` is not supported");
    assert!(
        refused(&|b| {
            b.instance("cipher", "keys", 0, 4);
        })
        .contains("cipher keys")
    );
    let error = refused(&|b| {
        let register = b.instance("register", "r", 8, 4);
        b.ingress.push(method(register, "peek", Vec::new()));
    });
    assert_eq!(error, "extern `register r.peek` is not supported");
    let error = refused(&|b| {
        b.bits_header("odd", &[5, 4]);
    });
    assert!(error.contains("`odd` has 9 bits"), "{error}");
    let error = refused(&|b| b.program.package = "Switch".to_owned());
    assert!(error.contains("`Switch`"), "{error}");
    let error = refused(&|b| b.ingress.push(Stmt::Advance(bit(32, 8))));
    assert!(error.contains("parsers"), "{error}");
    let error = refused(&|b| {
        b.action("forever", &[], |_, _| vec![Stmt::Action(ActionId(0))]);
    });
    assert!(error.contains("nesting"), "{error}");
    let mut b = Builder::new();
    b.straight(&[]);
    let mut program = b.build();
    program.blocks.retain(|(role, _)| role != "eg");
    assert_eq!(
        common::load(program).unwrap_err(),
        LoadError::Block { package: "V1Switch".to_owned(), role: "eg", kind: "control" }
    );
}
