//! No frame makes the engine panic, and no packet makes it allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use proptest::prelude::*;
use tributary_dataplane::{
    ActionCall, EgressInput, IngressInput, Instance, KeyMatch, Pipeline, TableEntry, Value, Verdict,
};
use tributary_p4::ir::*;

use super::common::{self, Builder, apply, assign, binary, bit, cast, function, words};

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller upholds the contract of `realloc`.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A program with many features: all kinds of extraction, a loop, tables of all kinds, wide
/// arithmetic, registers at indices from the frame, checksums with payload, resubmission.
#[expect(clippy::too_many_lines, reason = "one program")]
fn everything() -> Pipeline {
    let mut b = Builder::new();
    let base = b.bits_header("base", &[4, 4, 8, 16, 32, 64, 128]);
    let fields: Vec<FieldId> = b.program.headers[base.index()].fields.clone();
    let stack = b.stack("stack", &[7, 1, 24], 4);
    let elements = b.program.stacks[stack.index()].elements.clone();
    let options = b.bits_header("options", &[8, 256, 8]);
    let length = b.field("options.$length", Scalar::bit(32), FieldRole::Header(options));
    b.program.headers[options.index()].varbit = Some((1, length));
    let values = b.bits_header("values", &[32; 32]);
    let ahead = b.field("ahead", Scalar::bit(20), FieldRole::Local);

    let extract = |header| Stmt::Extract { header: HeaderRef::Fixed(header), varbit_bits: None };
    let to = |state| Target::State(StateId(state));
    let (kind, small) = (b.get(fields[0]), b.get(fields[2]));
    b.state(
        vec![extract(base)],
        Transition::Select {
            on: vec![kind],
            cases: vec![
                (vec![Keyset::Range { low: words(0), high: words(3) }], to(1)),
                (vec![Keyset::Value(words(4))], to(2)),
                (vec![Keyset::Masked { value: words(8), mask: words(8) }], to(3)),
                (vec![Keyset::Value(words(5))], Target::Reject),
                (vec![Keyset::Value(words(6))], Target::Accept),
            ],
        },
    );
    let last =
        binary(BinaryOp::Sub, Scalar::bit(32), b.get(b.program.stacks[0].next_index), bit(32, 1));
    let bottom = Expr { ty: Scalar::bit(1), kind: ExprKind::Element(stack, Box::new(last), 1) };
    b.state(
        vec![Stmt::Extract { header: HeaderRef::Next(stack), varbit_bits: None }],
        Transition::Select {
            on: vec![bottom],
            cases: vec![(vec![Keyset::Value(words(0))], to(1)), (vec![Keyset::Any], to(3))],
        },
    );
    let bits = cast(Scalar::bit(32), small.clone());
    b.state(
        vec![
            Stmt::Lookahead(vec![ahead]),
            Stmt::Extract { header: HeaderRef::Fixed(options), varbit_bits: Some(bits.clone()) },
            Stmt::Advance(cast(Scalar::bit(32), b.get(ahead))),
        ],
        Transition::To(to(3)),
    );
    b.state(vec![extract(values)], Transition::To(Target::Accept));
    b.deparser = [base, options, values]
        .into_iter()
        .chain(elements)
        .map(|header| Stmt::Emit(HeaderRef::Fixed(header)))
        .collect();

    let egress_spec = b.standard("egress_spec");
    let forward = b.action("forward", &[9, 128], |b, params| {
        vec![
            assign(egress_spec, b.get(params[0])),
            assign(
                fields[6],
                binary(BinaryOp::Mul, Scalar::bit(128), b.get(fields[6]), b.get(params[1])),
            ),
        ]
    });
    let nothing = b.action("nothing", &[], |_, _| Vec::new());
    let kinds = [
        vec![(b.get(fields[2]), MatchKind::Exact)],
        vec![(b.get(fields[6]), MatchKind::Exact)],
        vec![(b.get(fields[4]), MatchKind::Lpm)],
        vec![(b.get(fields[5]), MatchKind::Ternary)],
        vec![(b.get(fields[6]), MatchKind::Range), (b.get(fields[1]), MatchKind::Optional)],
        vec![(b.get(fields[6]), MatchKind::Lpm)],
    ];
    for keys in kinds {
        let table = b.table(keys, &[forward, nothing], Vec::new());
        b.ingress.push(apply(table));
    }
    let sum = b.field("sum", Scalar::bit(32), FieldRole::Local);
    let index = b.get(fields[4]);
    for i in 0..32 {
        let register = b.instance("register", &format!("r{i}"), 32, 1 << 12);
        let value = b.of(values, i);
        let both = binary(BinaryOp::Add, Scalar::bit(32), b.get(sum), b.get(value));
        b.ingress.extend([
            b.read(register, sum, index.clone()),
            assign(sum, both),
            b.write(register, index.clone(), b.get(sum)),
            assign(value, b.get(sum)),
        ]);
    }
    let wide = b.instance("register", "wide", 128, 100);
    b.ingress.push(b.write(wide, small.clone(), b.get(fields[6])));
    let wide_shift = binary(BinaryOp::Shl, Scalar::bit(128), b.get(fields[6]), b.get(fields[5]));
    let quotient = binary(BinaryOp::Div, Scalar::bit(128), b.get(fields[6]), wide_shift);
    b.ingress.push(assign(fields[6], quotient));
    let at = cast(Scalar::bit(32), small);
    b.ingress.push(Stmt::Assign(Place::Element(stack, Box::new(at.clone()), 0), bit(7, 3)));
    b.ingress.push(Stmt::SetInvalid(HeaderRef::Index(stack, Box::new(at))));
    let list: Vec<Expr> = b.program.headers[values.index()]
        .fields
        .iter()
        .chain(&fields)
        .map(|&field| b.get(field))
        .collect();
    let place = Arg::Out(Place::Field(fields[3]), Scalar::bit(16));
    let check = |place| {
        let algorithm = Arg::Symbol("HashAlgorithm".to_owned(), "csum16".to_owned());
        vec![Arg::In(bit(1, 1)), Arg::List(list.clone()), place, algorithm]
    };
    b.verify.push(function("verify_checksum_with_payload", check(Arg::In(b.get(fields[3])))));
    b.compute.push(function("update_checksum_with_payload", check(place)));
    b.program.field_lists.push((1, vec![fields[6], sum]));
    b.ingress.push(function("resubmit_preserving_field_list", vec![Arg::In(bit(8, 1))]));
    b.egress.push(function("truncate", vec![Arg::In(bits)]));
    b.egress.push(function("log_msg", vec![Arg::Text("at {}".to_owned()), Arg::List(vec![index])]));

    let mut pipeline = b.load();
    let call = || ActionCall { action: 0, args: vec![Value::from(3u64), Value::from(u128::MAX)] };
    let some = || Value::from(5u64);
    let entries = [
        (vec![KeyMatch::Exact(some())], 0),
        (vec![KeyMatch::Exact(some())], 0),
        (vec![KeyMatch::Lpm { value: Value::zero(), prefix_len: 1 }], 0),
        (vec![KeyMatch::Ternary { value: Value::from(1u64), mask: Value::from(3u64) }], 1),
        (
            vec![
                KeyMatch::Range { low: Value::zero(), high: Value::ones(100) },
                KeyMatch::Optional(Some(some())),
            ],
            1,
        ),
        (vec![KeyMatch::Lpm { value: Value::zero(), prefix_len: 9 }], 0),
    ];
    for (table, (matches, priority)) in entries.into_iter().enumerate() {
        let entry = TableEntry::new(matches, priority, call());
        pipeline.insert(TableId(table as u32), entry).unwrap();
    }
    pipeline
}

/// Runs a frame as a switch does, with one resubmission and a replica.
fn run(
    pipeline: &mut Pipeline,
    packets: &mut [tributary_dataplane::Packet; 2],
    frame: &[u8],
    out: &mut Vec<u8>,
) {
    let [packet, replica] = packets;
    let input = IngressInput::default();
    let first = pipeline.ingress(packet, frame, &input);
    if first.resubmit {
        let again = pipeline.next_pass(&input, Instance::Resubmitted);
        pipeline.ingress(packet, frame, &again);
    }
    replica.copy_from(packet);
    pipeline.egress(replica, &EgressInput::default(), out);
    pipeline.egress(packet, &EgressInput::default(), out);
}

/// Frames of all lengths that reach every parser state.
fn frames() -> Vec<Vec<u8>> {
    let mut seed = 1u64;
    let mut next = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 56) as u8
    };
    (0..1500)
        .map(|n: usize| {
            let length = if n % 50 == 49 { 65_536 >> (n % 3) } else { n % 300 };
            let mut frame: Vec<u8> = (0..length).map(|_| next()).collect();
            if let Some(first) = frame.first_mut() {
                *first = (n as u8) << 4 | *first & 15;
            }
            if let Some(low) = frame.get_mut(4..7)
                && n.is_multiple_of(2)
            {
                low.fill(0);
            }
            frame
        })
        .collect()
}

#[test]
fn packets_of_the_steady_state_allocate_nothing() {
    let mut pipeline = everything();
    let mut packets = [pipeline.new_packet(), pipeline.new_packet()];
    let mut out = Vec::new();
    let frames = frames();
    // Buffers grow to the traffic's sizes.
    for frame in &frames {
        run(&mut pipeline, &mut packets, frame, &mut out);
    }
    let before = ALLOCATIONS.with(Cell::get);
    for frame in &frames {
        run(&mut pipeline, &mut packets, frame, &mut out);
    }
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0);
    // Check that the counter works.
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 1);
}

#[test]
fn the_same_frames_give_the_same_packets() {
    let (mut a, mut b) = (everything(), everything());
    let mut packets_a = [a.new_packet(), a.new_packet()];
    let mut out = [Vec::new(), Vec::new()];
    for frame in frames() {
        run(&mut a, &mut packets_a, &frame, &mut out[0]);
        // A fresh packet each time, so that no state of the previous packet is visible.
        let mut packets_b = [b.new_packet(), b.new_packet()];
        run(&mut b, &mut packets_b, &frame, &mut out[1]);
        assert_eq!(out[0], out[1]);
    }
}

#[test]
fn frames_up_to_64_kilobytes_pass_completely() {
    let mut b = Builder::new();
    let header = b.bits_header("h", &[8]);
    b.straight(&[header]);
    let mut pipeline = b.load();
    let mut packet = pipeline.new_packet();
    for length in [1, 1500, 65_535] {
        let frame: Vec<u8> = (0..length).map(|i| ((i * 7) >> 3) as u8).collect();
        assert_eq!(common::pass(&mut pipeline, &mut packet, &frame), frame);
        assert_eq!(packet.length(), length as u32);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn no_frame_makes_it_panic(
        frame in proptest::collection::vec(prop_oneof![Just(0u8), Just(255), any::<u8>()], 0..400)
    ) {
        let mut pipeline = everything();
        let mut packets = [pipeline.new_packet(), pipeline.new_packet()];
        run(&mut pipeline, &mut packets, &frame, &mut Vec::new());
        let input = IngressInput { port: u16::MAX, time_us: u64::MAX, ..Default::default() };
        let verdict = pipeline.ingress(&mut packets[0], &frame, &input).verdict;
        prop_assert!(!matches!(verdict, Verdict::Unicast(511)));
    }
}
