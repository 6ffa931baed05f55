//! Checks what an observer is told, without the engine: it applies the reported writes to a state of
//! its own, looks entries up with a matcher of its own, and composes the frame of the reported headers.

use std::collections::HashMap;

use tributary_dataplane::trace::{Event, Lookup, Observer};
use tributary_dataplane::{Action, KeyMatch, Packet, Pipeline, TableEntry, Value};
use tributary_p4::ir::{ExternId, FieldId, FieldRole, Program, TableId, Target, Transition};

/// A packet's state according to its events.
pub(crate) struct Replay {
    program: Program,
    entries: Vec<Vec<TableEntry>>,
    fields: HashMap<FieldId, Value>,
    /// By register, scalar and index.
    cells: HashMap<(ExternId, u32, u64), Value>,
    frame: Vec<u8>,
    /// Bytes of the frame that were extracted or skipped.
    at: usize,
    emitted: Vec<u8>,
    /// Values that extracted fields must get.
    expected: Vec<(FieldId, Value)>,
    /// The action that a lookup has announced.
    announced: Option<(TableId, u32, Vec<Value>)>,
    /// The states that parsers are in, and where they must go next.
    next_state: Option<Target>,
    /// Open actions, over all blocks.
    open: i64,
    /// Numbers of lookups, of extracted headers, of written cells.
    pub(crate) seen: [usize; 3],
}

impl Replay {
    pub(crate) fn new(pipeline: &Pipeline) -> Self {
        let program = pipeline.program().clone();
        let tables = (0..program.tables.len() as u32).map(TableId);
        let entries = tables.map(|table| pipeline.entries(table).cloned().collect()).collect();
        Self {
            program,
            entries,
            fields: HashMap::new(),
            cells: HashMap::new(),
            frame: Vec::new(),
            at: 0,
            emitted: Vec::new(),
            expected: Vec::new(),
            announced: None,
            next_state: None,
            open: 0,
            seen: [0; 3],
        }
    }

    pub(crate) fn arrives(&mut self, frame: &[u8]) {
        self.expected.clear();
        self.fields.clear();
        self.frame = frame.to_vec();
        self.at = 0;
        self.emitted.clear();
        // Cells may have been written by packets that are not observed.
        self.cells.clear();
    }

    fn field(&self, field: FieldId) -> Value {
        self.fields.get(&field).cloned().unwrap_or_default()
    }

    /// All fields and cells are as the events say.
    pub(crate) fn check(&self, pipeline: &Pipeline, packet: &Packet) {
        for (field, known) in self.program.fields.iter().zip(0..) {
            let found = pipeline.field(packet, FieldId(known)).unwrap();
            assert_eq!(found, self.field(FieldId(known)), "{}", field.name);
        }
        for (&(register, scalar, index), value) in &self.cells {
            let found = pipeline.register_read_scalar(register, index, scalar as usize);
            assert_eq!(found.as_ref(), Ok(value));
        }
    }

    /// The frame is what was emitted, and then what was not parsed.
    pub(crate) fn leaves(&self, out: &[u8]) {
        let expected = [&self.emitted[..], &self.frame[self.at..]].concat();
        assert_eq!(out, expected);
    }

    /// The value of a header's field in its bytes, bit by bit.
    fn in_bytes(bytes: &[u8], from: usize, width: u32) -> Value {
        let bit = |at: usize| (bytes[at / 8] >> (7 - at % 8)) & 1;
        let width = width as usize;
        let mut limbs = vec![0; width.div_ceil(64)];
        for i in 0..width {
            limbs[i / 64] |= u64::from(bit(from + width - 1 - i)) << (i % 64);
        }
        Value::from_limbs(&limbs)
    }

    fn lookup(&self, table: TableId, keys: &[Value], lookup: &Lookup) {
        let of = &self.program.tables[table.index()];
        let widths: Vec<u32> = of.keys.iter().map(|key| key.value.ty.width).collect();
        for (key, value) in of.keys.iter().zip(keys) {
            if let tributary_p4::ir::ExprKind::Field(field) = key.value.kind {
                assert_eq!(*value, self.field(field), "key {} of {}", key.name, of.name);
            }
        }
        let matching = self.entries[table.index()].iter().filter(|entry| {
            entry.matches.iter().zip(keys).zip(&widths).all(|((m, v), w)| matches(m, v, *w))
        });
        let best = matching.max_by_key(|entry| {
            let longest = |found: &KeyMatch| match found {
                KeyMatch::Lpm { prefix_len, .. } => *prefix_len,
                _ => 0,
            };
            (entry.priority, entry.matches.iter().map(longest).max())
        });
        match lookup {
            Lookup::Entry(entry) => assert_eq!(Some(entry), best, "{}", of.name),
            Lookup::Miss => assert_eq!(best, None, "{}", of.name),
            other => panic!("nobody has assumed {other:?}"),
        }
    }
}

/// Whether a key matches, one bit after the other.
fn matches(found: &KeyMatch, value: &Value, width: u32) -> bool {
    let bit = |of: &Value, at: u32| of.limb(at as usize / 64) >> (at % 64) & 1;
    match found {
        KeyMatch::Exact(wanted) | KeyMatch::Optional(Some(wanted)) => wanted == value,
        KeyMatch::Optional(None) => true,
        KeyMatch::Lpm { value: wanted, prefix_len } => {
            (width - prefix_len..width).all(|at| bit(wanted, at) == bit(value, at))
        }
        KeyMatch::Ternary { value: wanted, mask } => {
            (0..width).all(|at| bit(mask, at) == 0 || bit(wanted, at) == bit(value, at))
        }
        KeyMatch::Range { low, high } => low <= value && value <= high,
    }
}

impl Observer for Replay {
    #[expect(clippy::too_many_lines, reason = "one arm for each kind of event")]
    fn event(&mut self, event: Event) {
        if !matches!(event, Event::Write { .. }) {
            assert_eq!(self.expected, [], "extracted fields are not reported");
        }
        match event {
            Event::Block { .. } => self.next_state = None,
            Event::BlockEnd { .. } => {
                self.open = 0;
                self.announced = None;
            }
            Event::Write { field, before, after } => {
                let name = &self.program.fields[field.index()].name;
                assert_eq!(before, self.field(field), "{name} before");
                assert!(after.fits(self.program.fields[field.index()].ty.width), "{name}");
                if let Some(at) = self.expected.iter().position(|(of, _)| *of == field) {
                    assert_eq!(after, self.expected.swap_remove(at).1, "{name} of the frame");
                }
                self.fields.insert(field, after);
            }
            Event::State { state, .. } => {
                if let Some(target) = self.next_state.take() {
                    assert_eq!(target, Target::State(state));
                } else {
                    assert_eq!(state.0, 0);
                }
            }
            Event::Transition { parser, state, on, case, target } => {
                let from = &self.program.parsers[parser.index()].states[state.index()];
                if let Transition::Select { cases, .. } = &from.transition {
                    let expected = case.map_or(Target::Reject, |case| cases[case].1);
                    assert_eq!(target, expected);
                    assert!(!on.is_empty());
                }
                self.next_state = Some(target);
            }
            Event::Extract { header, offset, bytes } => {
                self.seen[1] += 1;
                assert_eq!(offset, self.at);
                assert_eq!(self.frame[offset..offset + bytes.len()], bytes);
                self.at += bytes.len();
                // The writes come next; they must say the same as the bytes.
                let mut bit = 0;
                for field in self.program.headers[header.index()].fields.clone() {
                    let width = self.program.fields[field.index()].ty.width;
                    let value = Self::in_bytes(&bytes, bit, width);
                    bit += width as usize;
                    self.expected.push((field, value));
                }
            }
            Event::Advance { bytes } => self.at += bytes,
            Event::Emit { header, bytes } => {
                let header = &self.program.headers[header.index()];
                let valid = self.field(header.valid) != Value::zero();
                assert_eq!(bytes.is_some(), valid, "{}", header.name);
                let bytes = bytes.unwrap_or_default();
                let mut bit = 0;
                for &field in &header.fields {
                    let width = self.program.fields[field.index()].ty.width;
                    if valid {
                        let value = Self::in_bytes(&bytes, bit, width);
                        assert_eq!(value, self.field(field), "{}", header.name);
                    }
                    bit += width as usize;
                }
                self.emitted.extend(bytes);
            }
            Event::Apply { table, keys, lookup, action, .. } => {
                self.seen[0] += 1;
                self.lookup(table, &keys, &lookup);
                let action = action.expect("there are no groups");
                if let Lookup::Entry(entry) = lookup {
                    assert_eq!(entry.action, Action::Direct(action.clone()));
                }
                self.announced = Some((table, action.action, action.args));
            }
            Event::Action { action, params } => {
                self.open += 1;
                if let Some((table, number, args)) = self.announced.take() {
                    let offered = &self.program.tables[table.index()].actions[number as usize];
                    assert_eq!(offered.action, action);
                    let values: Vec<Value> =
                        params.iter().map(|(_, value)| value.clone()).collect();
                    assert_eq!(values, args);
                }
                for (field, value) in params {
                    assert_eq!(self.program.fields[field.index()].role, FieldRole::ActionParam);
                    assert_eq!(value, self.field(field));
                }
            }
            Event::ActionEnd => {
                self.open -= 1;
                assert!(self.open >= 0, "an action has ended that has not started");
            }
            Event::Condition { reads, .. } => {
                for (field, value) in reads {
                    assert_eq!(value, self.field(field));
                }
            }
            Event::RegisterRead { register, scalar, index, value } => {
                let known = self.cells.get(&(register, scalar, index));
                if let (Some(known), Some(value)) = (known, &value) {
                    assert_eq!(known, value);
                }
            }
            Event::RegisterWrite { register, scalar, index, before, after } => {
                self.seen[2] += 1;
                let known = self.cells.get(&(register, scalar, index));
                if let (Some(known), Some(before)) = (known, &before) {
                    assert_eq!(known, before);
                }
                self.cells.extend(after.map(|after| ((register, scalar, index), after)));
            }
            _ => {}
        }
    }
}
