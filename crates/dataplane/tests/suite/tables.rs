//! Tables of every kind, compared with a search through all entries, under random changes.

use num_bigint::BigUint;
use proptest::prelude::*;
use tributary_dataplane::{
    Action, ActionCall, IngressInput, KeyMatch, LoadError, Owner, Pipeline, TableEntry, TableError,
    Value, Verdict,
};
use tributary_p4::ir::*;

use super::common::{self, Builder, apply, assign, words};

const TABLE: TableId = TableId(0);

/// A program whose packets are the keys of its table, each in whole bytes; a hit writes the entry's
/// argument to `egress_spec`, a miss 500.
fn program(keys: &[(u32, MatchKind)], entries: Vec<Entry>) -> Program {
    let mut b = Builder::new();
    let widths: Vec<u32> = keys
        .iter()
        .flat_map(|&(width, _)| [width.next_multiple_of(8) - width, width])
        .filter(|&width| width > 0)
        .collect();
    let header = b.bits_header("keys", &widths);
    let mut at = 0;
    let fields: Vec<(Expr, MatchKind)> = keys
        .iter()
        .map(|&(width, kind)| {
            at += 1 + usize::from(width % 8 != 0);
            (b.get(b.of(header, at - 1)), kind)
        })
        .collect();
    let egress_spec = b.standard("egress_spec");
    let hit = b.action("hit", &[9], |b, params| vec![assign(egress_spec, b.get(params[0]))]);
    let miss = b.action("miss", &[], |b, _| vec![b.set(egress_spec, 500)]);
    b.table(fields, &[hit, miss], entries);
    b.ingress.push(apply(TABLE));
    b.straight(&[header]);
    b.build()
}

fn frame(keys: &[(u32, MatchKind)], values: &[Value]) -> Vec<u8> {
    let mut frame = Vec::new();
    for (&(width, _), value) in keys.iter().zip(values) {
        let digits = value.to_be_bytes();
        frame.resize(frame.len() + width.div_ceil(8) as usize - digits.len(), 0);
        frame.extend(digits);
    }
    frame
}

/// The port that a packet is sent to.
fn look_up(pipeline: &mut Pipeline, frame: &[u8]) -> u16 {
    let mut packet = pipeline.new_packet();
    match pipeline.ingress(&mut packet, frame, &IngressInput::default()).verdict {
        Verdict::Unicast(port) => port,
        other => panic!("{other:?}"),
    }
}

fn big(value: &Value) -> BigUint {
    BigUint::from_bytes_be(&value.to_be_bytes())
}

fn matches(width: u32, found: &KeyMatch, key: &Value) -> bool {
    let key = big(key);
    match found {
        KeyMatch::Exact(value) => big(value) == key,
        KeyMatch::Lpm { value, prefix_len } => {
            big(value) >> (width - prefix_len) == key >> (width - prefix_len)
        }
        KeyMatch::Ternary { value, mask } => big(value) == key & big(mask),
        KeyMatch::Range { low, high } => big(low) <= key && key <= big(high),
        KeyMatch::Optional(value) => value.as_ref().is_none_or(|value| big(value) == key),
    }
}

/// The matching entry: longest prefix, otherwise highest priority, otherwise first insertion.
fn oracle<'a>(
    keys: &[(u32, MatchKind)],
    entries: &'a [TableEntry],
    values: &[Value],
) -> Option<&'a TableEntry> {
    let prefix = |entry: &TableEntry| {
        entry.matches.iter().find_map(|found| match found {
            KeyMatch::Lpm { prefix_len, .. } if entry.priority == 0 => Some(*prefix_len),
            _ => None,
        })
    };
    entries
        .iter()
        .rev()
        .filter(|entry| {
            keys.iter()
                .zip(&entry.matches)
                .zip(values)
                .all(|((&(width, _), found), value)| matches(width, found, value))
        })
        .max_by_key(|entry| (prefix(entry), entry.priority))
}

/// Values of a width, often equal ones.
fn value(width: u32) -> BoxedStrategy<Value> {
    let cut = move |bytes: Vec<u8>| {
        let number = BigUint::from_bytes_be(&bytes) % (BigUint::from(1u32) << width);
        Value::from_be_bytes(&number.to_bytes_be())
    };
    prop_oneof![
        4 => (0u8..4).prop_map(move |n| cut(vec![n])),
        1 => Just(Value::ones(width)),
        2 => proptest::collection::vec(any::<u8>(), 17).prop_map(cut),
    ]
    .boxed()
}

fn and(a: &Value, b: &Value) -> Value {
    Value::from_be_bytes(&(big(a) & big(b)).to_bytes_be())
}

/// A mask, mostly one of a few, as in real tables.
fn mask(width: u32) -> BoxedStrategy<Value> {
    let few = [0, width / 2, width].map(|length| {
        let ones = (BigUint::from(1u8) << length) - 1u8;
        Value::from_be_bytes(&(ones << (width - length)).to_bytes_be())
    });
    prop_oneof![3 => prop::sample::select(few.to_vec()), 1 => value(width)].boxed()
}

fn key_match(width: u32, kind: MatchKind) -> BoxedStrategy<KeyMatch> {
    match kind {
        MatchKind::Exact => value(width).prop_map(KeyMatch::Exact).boxed(),
        MatchKind::Lpm => (value(width), 0..=width)
            .prop_map(move |(value, prefix_len)| {
                let low = width - prefix_len;
                let value = Value::from_be_bytes(&((big(&value) >> low) << low).to_bytes_be());
                KeyMatch::Lpm { value, prefix_len }
            })
            .boxed(),
        MatchKind::Ternary => (value(width), mask(width))
            .prop_map(|(value, mask)| KeyMatch::Ternary { value: and(&value, &mask), mask })
            .boxed(),
        MatchKind::Range => (value(width), value(width))
            .prop_map(|(a, b)| KeyMatch::Range { low: a.clone().min(b.clone()), high: a.max(b) })
            .boxed(),
        MatchKind::Optional => {
            proptest::option::of(value(width)).prop_map(KeyMatch::Optional).boxed()
        }
        MatchKind::Selector => unreachable!(),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(TableEntry),
    /// The n-th entry, modulo their number.
    Modify(usize, u16),
    Delete(usize),
    LookUp(Vec<Value>),
}

fn step(keys: &[(u32, MatchKind)]) -> impl Strategy<Value = Step> + Clone + use<> {
    let prioritised = keys.iter().any(|(_, kind)| {
        matches!(kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional)
    });
    let priority = if prioritised { 1..5 } else { 0..1 };
    let found: Vec<_> = keys.iter().map(|&(width, kind)| key_match(width, kind)).collect();
    let values: Vec<_> = keys.iter().map(|&(width, _)| value(width)).collect();
    prop_oneof![
        3 => (found, priority, 0u16..400).prop_map(|(matches, priority, port)| {
            let call = ActionCall { action: 0, args: vec![Value::from(u64::from(port))] };
            Step::Insert(TableEntry::new(matches, priority, call))
        }),
        1 => (any::<usize>(), 0u16..400).prop_map(|(n, port)| Step::Modify(n, port)),
        1 => any::<usize>().prop_map(Step::Delete),
        6 => values.prop_map(Step::LookUp),
    ]
}

fn shapes() -> impl Strategy<Value = Vec<(u32, MatchKind)>> {
    use MatchKind::{Exact, Lpm, Optional, Range, Ternary};
    prop::sample::select(vec![
        vec![(3, Exact), (2, Exact)],
        vec![(48, Exact)],
        vec![(64, Exact)],
        vec![(16, Exact), (9, Exact), (8, Exact)],
        vec![(128, Exact), (9, Exact)],
        vec![(32, Lpm)],
        vec![(9, Exact), (32, Lpm)],
        vec![(128, Lpm)],
        vec![(65, Lpm), (70, Exact)],
        vec![(8, Ternary), (1, Exact), (16, Ternary)],
        vec![(64, Ternary)],
        vec![(64, Ternary), (1, Optional)],
        vec![(100, Ternary), (5, Exact)],
        vec![(16, Range)],
        vec![(16, Range), (8, Range)],
        vec![(70, Range)],
        vec![(130, Range), (3, Ternary)],
        vec![(9, Optional), (48, Optional)],
        vec![(32, Lpm), (8, Ternary)],
        vec![(16, Range), (32, Lpm), (8, Optional), (4, Exact)],
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn a_table_finds_what_a_search_finds(
        (keys, steps) in shapes().prop_flat_map(|keys| {
            let step = step(&keys);
            // Large tables are searched differently from small ones.
            let steps = prop_oneof![3 => 1..80usize, 1 => 200..400usize]
                .prop_flat_map(move |steps| proptest::collection::vec(step.clone(), steps));
            (Just(keys), steps)
        })
    ) {
        let mut pipeline = common::load(program(&keys, Vec::new())).unwrap();
        let mut entries: Vec<TableEntry> = Vec::new();
        for step in steps {
            match step {
                Step::Insert(entry) => {
                    let known = entries
                        .iter()
                        .any(|e| e.matches == entry.matches && e.priority == entry.priority);
                    let done = pipeline.insert(TABLE, entry.clone());
                    if known {
                        prop_assert_eq!(done, Err(TableError::AlreadyExists));
                    } else {
                        prop_assert_eq!(done, Ok(()));
                        entries.push(entry);
                    }
                }
                Step::Modify(n, port) if !entries.is_empty() => {
                    let at = n % entries.len();
                    let call = ActionCall { action: 0, args: vec![Value::from(u64::from(port))] };
                    entries[at].action = call.into();
                    prop_assert_eq!(pipeline.modify(TABLE, entries[at].clone()), Ok(()));
                }
                Step::Delete(n) if !entries.is_empty() => {
                    let entry = entries.remove(n % entries.len());
                    let delete = |p: &mut Pipeline| p.delete(TABLE, &entry.matches, entry.priority);
                    prop_assert_eq!(delete(&mut pipeline), Ok(()));
                    prop_assert_eq!(delete(&mut pipeline), Err(TableError::NotFound));
                }
                Step::Modify(..) | Step::Delete(_) => {}
                Step::LookUp(values) => {
                    let port = look_up(&mut pipeline, &frame(&keys, &values));
                    let expected = oracle(&keys, &entries, &values)
                        .map_or(500, |entry| {
                            let call = entry.action.direct().unwrap();
                            call.args[0].to_u64().unwrap() as u16
                        });
                    prop_assert_eq!(port, expected);
                }
            }
        }
        let mut kept: Vec<_> = pipeline.entries(TABLE).cloned().collect();
        prop_assert_eq!(kept.len(), entries.len());
        kept.retain(|entry| !entries.contains(entry));
        prop_assert!(kept.is_empty());
        for entry in &entries {
            prop_assert_eq!(pipeline.entry(TABLE, &entry.matches, entry.priority), Ok(entry));
        }
    }
}

/// Matches that have little in common: any mask, and ranges around the middle, within each other.
fn wild_match(width: u32, kind: MatchKind) -> BoxedStrategy<KeyMatch> {
    let any_value = move || {
        proptest::collection::vec(any::<u8>(), 9).prop_map(move |bytes| {
            let number = BigUint::from_bytes_be(&bytes) % (BigUint::from(1u32) << width);
            Value::from_be_bytes(&number.to_bytes_be())
        })
    };
    let half = move |value: &Value| big(value) >> 1u32;
    let middle = BigUint::from(1u32) << (width - 1);
    match kind {
        MatchKind::Ternary => (any_value(), any_value(), any_value(), 0..3)
            .prop_map(move |(value, one, other, bits)| {
                let mask = match bits {
                    0 => and(&one, &other),
                    1 => one,
                    _ => prefix(width, big(&one).bits() as u32),
                };
                KeyMatch::Ternary { value: and(&value, &mask), mask }
            })
            .boxed(),
        _ => (any_value(), any_value(), any::<bool>())
            .prop_map(move |(one, other, around)| {
                let (low, high) = if around {
                    (half(&one), &middle + half(&other))
                } else {
                    (big(&one).min(big(&other)), big(&one).max(big(&other)))
                };
                let value = |number: BigUint| Value::from_be_bytes(&number.to_bytes_be());
                KeyMatch::Range { low: value(low), high: value(high) }
            })
            .boxed(),
    }
}

/// The mask of a prefix.
fn prefix(width: u32, len: u32) -> Value {
    let ones = (BigUint::from(1u32) << width) - 1u32;
    let low = (BigUint::from(1u32) << (width - len)) - 1u32;
    Value::from_be_bytes(&(ones - low).to_bytes_be())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn tables_of_many_masks_and_nested_ranges_find_what_a_search_finds(
        (keys, entries, gone, wanted) in prop::sample::select(vec![
            vec![(9, MatchKind::Ternary)],
            vec![(12, MatchKind::Ternary), (7, MatchKind::Ternary)],
            vec![(70, MatchKind::Ternary)],
            vec![(10, MatchKind::Range)],
            vec![(8, MatchKind::Range), (8, MatchKind::Range)],
            vec![(66, MatchKind::Range), (4, MatchKind::Ternary)],
        ]).prop_flat_map(|keys| {
            let found: Vec<_> = keys.iter().map(|&(width, kind)| wild_match(width, kind)).collect();
            let values: Vec<_> = keys.iter().map(|&(width, _)| value(width)).collect();
            let entries = proptest::collection::vec((found, 1..50), 100..500);
            let gone = proptest::collection::vec(any::<usize>(), 0..100);
            (Just(keys), entries, gone, proptest::collection::vec(values, 200))
        })
    ) {
        let mut pipeline = common::load(program(&keys, Vec::new())).unwrap();
        let mut present: Vec<TableEntry> = Vec::new();
        let mut wanted = wanted.chunks(50);
        let mut compare = |pipeline: &mut Pipeline, present: &[TableEntry]| {
            for values in wanted.next().unwrap() {
                let expected = oracle(&keys, present, values).map_or(500, |entry| {
                    entry.action.direct().unwrap().args[0].to_u64().unwrap() as u16
                });
                prop_assert_eq!(look_up(pipeline, &frame(&keys, values)), expected);
            }
            Ok(())
        };
        let half = entries.len() / 2;
        for (at, (matches, priority)) in entries.into_iter().enumerate() {
            let call = ActionCall { action: 0, args: vec![Value::from(at as u64)] };
            let entry = TableEntry::new(matches, priority, call);
            // The same key and priority may come twice.
            if pipeline.insert(TABLE, entry.clone()).is_ok() {
                present.push(entry);
            }
            if at == half {
                compare(&mut pipeline, &present)?;
            }
        }
        compare(&mut pipeline, &present)?;
        for n in gone {
            let entry = present.remove(n % present.len());
            prop_assert_eq!(pipeline.delete(TABLE, &entry.matches, entry.priority), Ok(()));
        }
        compare(&mut pipeline, &present)?;
    }
}

fn entry(found: KeyMatch, priority: i32, port: u64) -> TableEntry {
    let call = ActionCall { action: 0, args: vec![Value::from(port)] };
    TableEntry::new(vec![found], priority, call)
}

#[test]
fn invalid_requests_are_refused_with_the_reason() {
    let exact = |value: u64| KeyMatch::Exact(Value::from(value));
    let mut pipeline = common::load(program(&[(12, MatchKind::Exact)], Vec::new())).unwrap();
    let mut refused = |table, entry: TableEntry| pipeline.insert(table, entry).unwrap_err();
    assert_eq!(refused(TableId(9), entry(exact(1), 0, 1)), TableError::UnknownTable);
    assert_eq!(
        refused(TABLE, entry(exact(0x1000), 0, 1)),
        TableError::KeyWidth { key: 0, width: 12 }
    );
    assert!(matches!(refused(TABLE, entry(exact(1), 7, 1)), TableError::Priority(_)));
    assert_eq!(refused(TABLE, entry(exact(1), 0, 512)), TableError::ArgWidth { arg: 0, width: 9 });
    let optional = KeyMatch::Optional(None);
    assert_eq!(refused(TABLE, entry(optional, 0, 1)), TableError::MatchKind(0));
    let unknown = TableEntry::new(vec![exact(1)], 0, ActionCall { action: 2, args: Vec::new() });
    assert_eq!(refused(TABLE, unknown), TableError::UnknownAction(2));
    let bare = TableEntry::new(vec![exact(1)], 0, ActionCall { action: 0, args: Vec::new() });
    assert_eq!(refused(TABLE, bare), TableError::ArgCount { expected: 1, got: 0 });
    let mut long = entry(exact(1), 0, 1);
    long.matches.push(exact(1));
    assert_eq!(refused(TABLE, long), TableError::KeyCount { expected: 1, got: 2 });
    assert_eq!(pipeline.modify(TABLE, entry(exact(1), 0, 1)), Err(TableError::NotFound));
    assert_eq!(pipeline.entries(TABLE).count(), 0);

    let mut pipeline = common::load(program(&[(32, MatchKind::Lpm)], Vec::new())).unwrap();
    let lpm = |value: u64, prefix_len| KeyMatch::Lpm { value: Value::from(value), prefix_len };
    for found in [lpm(1, 31), lpm(0, 33)] {
        let error = pipeline.insert(TABLE, entry(found, 0, 1)).unwrap_err();
        assert!(matches!(error, TableError::BadMatch { key: 0, .. }), "{error}");
    }
    let mut pipeline = common::load(program(&[(8, MatchKind::Ternary)], Vec::new())).unwrap();
    let ternary = |value: u64, mask: u64| KeyMatch::Ternary {
        value: Value::from(value),
        mask: Value::from(mask),
    };
    assert!(pipeline.insert(TABLE, entry(ternary(3, 1), 1, 1)).is_err());
    assert!(pipeline.insert(TABLE, entry(ternary(1, 1), 0, 1)).is_err());
    assert_eq!(pipeline.insert(TABLE, entry(ternary(1, 1), 1, 1)), Ok(()));
}

/// Look-ups of one key again and again see each change at once.
#[test]
fn a_change_counts_from_the_next_packet_on() {
    for words in 1..4 {
        let keys = vec![(64, MatchKind::Exact); words];
        let mut pipeline = common::load(program(&keys, Vec::new())).unwrap();
        let new = |last: u64, port| {
            let key = (1..words as u64).chain([last]);
            let matches = key.map(|word| KeyMatch::Exact(Value::from(word))).collect();
            let args = vec![Value::from(port)];
            TableEntry::new(matches, 0, ActionCall { action: 0, args })
        };
        let frame = |last: u64| {
            let values: Vec<Value> = (1..words as u64).chain([last]).map(Value::from).collect();
            super::tables::frame(&keys, &values)
        };
        for round in 0..3_u64 {
            assert_eq!(look_up(&mut pipeline, &frame(9)), 500);
            pipeline.insert(TABLE, new(9, 100 + round)).unwrap();
            assert_eq!(look_up(&mut pipeline, &frame(9)), 100 + round as u16);
            pipeline.insert(TABLE, new(8, 200)).unwrap();
            assert_eq!(look_up(&mut pipeline, &frame(9)), 100 + round as u16);
            pipeline.modify(TABLE, new(9, 300)).unwrap();
            assert_eq!(look_up(&mut pipeline, &frame(9)), 300);
            assert_eq!(look_up(&mut pipeline, &frame(8)), 200);
            pipeline.delete(TABLE, &new(8, 0).matches, 0).unwrap();
            assert_eq!(look_up(&mut pipeline, &frame(8)), 500);
            pipeline.delete(TABLE, &new(9, 0).matches, 0).unwrap();
        }
    }
}

#[test]
fn a_table_accepts_as_many_entries_as_its_size() {
    let mut program = program(&[(16, MatchKind::Exact)], Vec::new());
    program.tables[0].size = 3;
    let mut pipeline = common::load(program).unwrap();
    let new = |key: u64| entry(KeyMatch::Exact(Value::from(key)), 0, key);
    for key in 0..3 {
        pipeline.insert(TABLE, new(key)).unwrap();
    }
    assert_eq!(pipeline.insert(TABLE, new(3)), Err(TableError::Full(3)));
    pipeline.delete(TABLE, &new(1).matches, 0).unwrap();
    pipeline.insert(TABLE, new(3)).unwrap();
    assert_eq!(look_up(&mut pipeline, &[0, 1]), 500);
    assert_eq!(look_up(&mut pipeline, &[0, 3]), 3);
}

fn const_entry(keyset: Keyset, port: u64) -> Entry {
    let call = tributary_p4::ir::ActionCall { action: 0, args: vec![words(port)] };
    Entry { keys: vec![keyset], call, priority: None, is_const: true }
}

#[test]
fn the_programs_entries_win_in_their_order_and_cannot_be_changed() {
    let entries = vec![
        const_entry(Keyset::Masked { value: words(0x0f), mask: words(0x0c) }, 1),
        const_entry(Keyset::Value(words(0x0f)), 2),
        const_entry(Keyset::Value(words(0x80)), 3),
        const_entry(Keyset::Any, 4),
    ];
    let mut pipeline = common::load(program(&[(8, MatchKind::Ternary)], entries)).unwrap();
    for (key, port) in [(0x0f, 1), (0xfc, 1), (0x80, 3), (0x03, 4)] {
        assert_eq!(look_up(&mut pipeline, &[key]), port, "{key:#x}");
    }
    let existing: Vec<TableEntry> = pipeline.entries(TABLE).cloned().collect();
    assert_eq!(existing.iter().map(|entry| entry.priority).collect::<Vec<_>>(), [4, 3, 2, 1]);
    let constant = Err(TableError::Constant("the entries"));
    assert_eq!(pipeline.insert(TABLE, existing[0].clone()), constant);
    assert_eq!(pipeline.modify(TABLE, existing[0].clone()), constant);
    assert_eq!(pipeline.delete(TABLE, &existing[0].matches, 4), constant);

    let range = Keyset::Range { low: words(10), high: words(20) };
    let entries = vec![const_entry(range, 1), const_entry(Keyset::Value(words(30)), 2)];
    let mut pipeline = common::load(program(&[(8, MatchKind::Range)], entries)).unwrap();
    for (key, port) in [(9, 500), (10, 1), (20, 1), (21, 500), (30, 2)] {
        assert_eq!(look_up(&mut pipeline, &[key]), port);
    }

    let prefix = Keyset::Masked { value: words(0xc0), mask: words(0xf0) };
    let entries = vec![const_entry(Keyset::Any, 1), const_entry(prefix, 2)];
    let mut pipeline = common::load(program(&[(8, MatchKind::Lpm)], entries)).unwrap();
    assert_eq!(look_up(&mut pipeline, &[0xcf]), 2);
    assert_eq!(look_up(&mut pipeline, &[0xdf]), 1);

    let entries = vec![const_entry(Keyset::Any, 1)];
    assert!(matches!(
        common::load(program(&[(8, MatchKind::Exact)], entries)),
        Err(LoadError::Entry { index: 0, error: TableError::MatchKind(0), .. })
    ));
}

#[test]
fn the_default_action_can_be_set_and_restored() {
    let mut pipeline = common::load(program(&[(8, MatchKind::Exact)], Vec::new())).unwrap();
    let call = ActionCall { action: 0, args: vec![Value::from(77u64)] };
    let action = Action::Direct(call.clone());
    pipeline.set_default(TABLE, Some(action.clone())).unwrap();
    assert_eq!(pipeline.default_action(TABLE), Some(&action));
    assert_eq!(look_up(&mut pipeline, &[1]), 77);
    pipeline.set_default(TABLE, None).unwrap();
    assert_eq!(look_up(&mut pipeline, &[1]), 500);

    let mut constant = program(&[(8, MatchKind::Exact)], Vec::new());
    constant.tables[0].const_default = true;
    constant.tables[0].actions[0].scope = Scope::DefaultOnly;
    let mut pipeline = common::load(constant).unwrap();
    assert!(matches!(pipeline.set_default(TABLE, Some(call.into())), Err(TableError::Constant(_))));
    let new = entry(KeyMatch::Exact(Value::from(1u64)), 0, 1);
    assert!(matches!(pipeline.insert(TABLE, new), Err(TableError::ActionScope(_))));
}

#[test]
fn a_direct_counter_counts_hits_and_survives_a_change_of_the_action() {
    let mut program = program(&[(8, MatchKind::Exact)], Vec::new());
    program.externs.push(Extern {
        name: "hits".to_owned(),
        type_name: "direct_counter".to_owned(),
        type_args: Vec::new(),
        args: Vec::new(),
        annotations: Vec::new(),
    });
    program.tables[0].attached.push(ExternId(0));
    let mut pipeline = common::load(program).unwrap();
    let found = entry(KeyMatch::Exact(Value::from(5u64)), 0, 1);
    pipeline.insert(TABLE, found.clone()).unwrap();
    for frame in [&[5, 0, 0][..], &[6], &[5]] {
        look_up(&mut pipeline, frame);
    }
    pipeline.modify(TABLE, entry(KeyMatch::Exact(Value::from(5u64)), 0, 2)).unwrap();
    let data = pipeline.direct_counter_read(TABLE, Owner::Entry(&found.matches, 0)).unwrap();
    assert_eq!((data.packets, data.bytes), (2, 4));
    pipeline
        .direct_counter_write(TABLE, Owner::Entry(&found.matches, 0), Default::default())
        .unwrap();
    assert_eq!(look_up(&mut pipeline, &[5]), 2);
    assert_eq!(
        pipeline.direct_counter_read(TABLE, Owner::Entry(&found.matches, 0)).unwrap().packets,
        1
    );
    // A packet without an entry counts at the default entry, whatever its action is.
    let call = ActionCall { action: 0, args: vec![Value::from(9u64)] };
    pipeline.set_default(TABLE, Some(call.into())).unwrap();
    look_up(&mut pipeline, &[7, 0, 0, 0]);
    let missed = |pipeline: &Pipeline| pipeline.direct_counter_read(TABLE, Owner::Default).unwrap();
    assert_eq!((missed(&pipeline).packets, missed(&pipeline).bytes), (2, 5));
    pipeline.direct_counter_write(TABLE, Owner::Default, Default::default()).unwrap();
    look_up(&mut pipeline, &[5]);
    assert_eq!(missed(&pipeline).packets, 0);
}

#[test]
fn a_table_without_a_key_counts_at_its_default_entry() {
    let mut program = program(&[], Vec::new());
    program.externs.push(Extern {
        name: "applied".to_owned(),
        type_name: "direct_counter".to_owned(),
        type_args: Vec::new(),
        args: Vec::new(),
        annotations: Vec::new(),
    });
    program.tables[0].attached.push(ExternId(0));
    program.tables[0].const_default = true;
    let mut pipeline = common::load(program).unwrap();
    for _ in 0..3 {
        look_up(&mut pipeline, &[1, 2]);
    }
    let data = pipeline.direct_counter_read(TABLE, Owner::Default).unwrap();
    assert_eq!((data.packets, data.bytes), (3, 6));
}

#[test]
fn hit_and_action_run_report_the_result() {
    let mut b = Builder::new();
    let header = b.bits_header("h", &[8, 8, 32]);
    let [key, hit, run] = [0, 1, 2].map(|i| b.of(header, i));
    let first = b.action("first", &[], |_, _| Vec::new());
    let second = b.action("second", &[], |_, _| Vec::new());
    let value = b.get(key);
    let entries = vec![const_entry(Keyset::Value(words(9)), 0)]
        .into_iter()
        .map(|entry| Entry {
            call: tributary_p4::ir::ActionCall { action: 0, args: Vec::new() },
            ..entry
        })
        .collect();
    let table = b.table(vec![(value, MatchKind::Exact)], &[first, second], entries);
    // `hit` has one bit; a cast stores it in the header's field.
    let bit = b.field("bit", Scalar::BOOL, FieldRole::Local);
    b.ingress.push(Stmt::Apply { table, hit: Some(bit), action: Some(run) });
    let wide = common::cast(Scalar::bit(8), b.get(bit));
    b.ingress.push(assign(hit, wide));
    b.straight(&[header]);
    let mut pipeline = b.load();
    let mut packet = pipeline.new_packet();
    let out = common::pass(&mut pipeline, &mut packet, &[9, 7, 7, 7, 7, 7]);
    assert_eq!(out, [9, 1, 0, 0, 0, 0]);
    let out = common::pass(&mut pipeline, &mut packet, &[8, 7, 7, 7, 7, 7]);
    assert_eq!(out, [8, 0, 0, 0, 0, 1]);
}
