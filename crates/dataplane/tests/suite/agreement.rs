//! Interpreter and machine code agree on random programs, packet by packet; so do they if packets are
//! observed, and what an observer is told is what happened (`replay`).
//!
//! `TRIBUTARY_AGREEMENT_CASES` sets the number of programs; `TRIBUTARY_AGREEMENT_SEED` repeats one
//! program by the seed in a failure's message.

use tributary_dataplane::{EgressInput, EngineKind, IngressInput, Instance, Pipeline};
use tributary_p4::ir::*;

use crate::replay::Replay;
use crate::suite::common::{self, Builder, binary, bit, cast};

const CASES: u64 = 60;
const FRAMES: usize = 40;
const REGISTER_CELLS: u64 = 13;
/// Scalars of a cell that is a struct.
const PARTS: usize = 4;

/// SplitMix64: the same programs and frames for the same seed, everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Mostly widths within a word, some larger, and the boundaries.
    fn width(&mut self) -> u32 {
        match self.below(8) {
            0 => 1,
            1 => self.pick(&[8, 16, 32, 48, 64]),
            2 => 65 + self.below(70) as u32,
            _ => 1 + self.below(64) as u32,
        }
    }

    /// Often small numbers, which tests and indices use.
    fn limbs(&mut self, ty: Scalar) -> Box<[u64]> {
        let small = self.below(2) == 0;
        (0..ty.limbs() as u32)
            .map(|limb| {
                let bits = (ty.width - 64 * limb).min(64);
                let number = if small && limb == 0 { self.next() % 6 } else { self.next() };
                if small && limb > 0 { 0 } else { number & (u64::MAX >> (64 - bits)) }
            })
            .collect()
    }
}

/// A program under construction.
struct Maker {
    random: Random,
    b: Builder,
    /// Fields that expressions read and statements write.
    fields: Vec<FieldId>,
    headers: Vec<HeaderId>,
    stack: StackId,
    registers: Vec<(ExternId, u32)>,
    /// A register whose cells have several scalars.
    structs: (ExternId, [u32; PARTS]),
    counter: ExternId,
    tables: Vec<TableId>,
    actions: Vec<ActionId>,
}

impl Maker {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let mut b = Builder::new();
        let mut fields = Vec::new();
        let mut headers = Vec::new();
        let values = 4 + random.below(20);
        for number in 0..6 {
            let mut widths: Vec<u32> = (0..1 + random.below(5)).map(|_| random.width()).collect();
            if number == 3 {
                // Fields that become a run.
                widths = vec![random.pick(&[8, 16, 32, 64]); 4 + random.below(20)];
            } else if number > 3 {
                // Fields that are extracted together, and copied from one header to the other.
                widths = vec![32; values];
            }
            let odd = widths.iter().sum::<u32>() % 8;
            widths.extend((odd != 0).then_some(8 - odd));
            let header = b.bits_header(&format!("h{number}"), &widths);
            fields.extend(&b.program.headers[header.index()].fields);
            headers.push(header);
        }
        let stack = b.stack("stack", &[6, 1, 17], 3);
        for number in 0..5 {
            let ty = Scalar { width: random.width(), signed: number % 2 == 0 };
            fields.push(b.field(&format!("local{number}"), ty, FieldRole::Local));
        }
        fields.push(b.standard("egress_spec"));
        let registers = (0..6)
            .map(|number| {
                // Neighbours of one width, and others.
                let width = if number < 4 { 32 } else { random.width() };
                let size = REGISTER_CELLS.into();
                (b.instance("register", &format!("r{number}"), width, size), width)
            })
            .collect();
        // Two neighbours of one width, and others.
        let parts = [32, 32, random.width(), random.width()];
        let structs = b.instance("register", "structs", 0, REGISTER_CELLS.into());
        b.program.externs[structs.index()].type_args = parts.map(Scalar::bit).to_vec();
        let counter = b.instance("counter", "counter", 32, 9);
        Self {
            random,
            b,
            fields,
            headers,
            stack,
            registers,
            structs: (structs, parts),
            counter,
            tables: Vec::new(),
            actions: Vec::new(),
        }
    }

    fn make(mut self) -> Program {
        self.parser();
        for number in 0..4 {
            let mut body = self.statements(2);
            if number == 0 {
                self.exit_from_a_long_action(&mut body);
            }
            let action = self.b.action(&format!("action{number}"), &[16, 70, 9], |b, params| {
                let mut all =
                    vec![Stmt::Assign(Place::Field(b.standard("egress_spec")), b.get(params[2]))];
                all.extend(body);
                all
            });
            self.actions.push(action);
        }
        let nothing = self.b.action("nothing", &[], |_, _| Vec::new());
        self.actions.push(nothing);
        for _ in 0..4 {
            self.table();
        }
        self.b.ingress = self.statements(4);
        for table in self.tables.clone() {
            let (hit, action) = (self.local("hit", 1), self.local("action", 32));
            self.b.ingress.push(Stmt::Apply { table, hit: Some(hit), action: Some(action) });
        }
        self.sum();
        let more = self.statements(3);
        self.b.ingress.extend(more);
        self.b.egress = self.statements(3);
        let elements = self.b.program.stacks[self.stack.index()].elements.clone();
        self.b.deparser = self
            .headers
            .iter()
            .copied()
            .chain(elements)
            .map(|header| Stmt::Emit(HeaderRef::Fixed(header)))
            .collect();
        self.b.build()
    }

    /// Adds an action too long to be inlined that ends everything under a condition.
    fn exit_from_a_long_action(&mut self, body: &mut Vec<Stmt>) {
        for _ in 0..6 {
            body.extend(self.statements(2));
        }
        let condition = self.condition(1);
        body.push(Stmt::If { condition, then: vec![Stmt::Exit], otherwise: Vec::new() });
    }

    /// Adds a local that later expressions may read and statements write.
    fn local(&mut self, name: &str, width: u32) -> FieldId {
        let field = self.b.field(name, Scalar::bit(width), FieldRole::Local);
        self.fields.push(field);
        field
    }

    /// Adds states in a ring: each extracts something, and selects on the content.
    fn parser(&mut self) {
        let count = 3 + self.random.below(3);
        for state in 0..count {
            let mut body = Vec::new();
            let headers = match self.random.below(5) {
                0 => vec![HeaderRef::Next(self.stack)],
                1 => [4, 5].map(|number| HeaderRef::Fixed(self.headers[number])).to_vec(),
                _ => vec![HeaderRef::Fixed(self.headers[state % 4])],
            };
            body.extend(
                headers.into_iter().map(|header| Stmt::Extract { header, varbit_bits: None }),
            );
            match self.random.below(5) {
                0 => {
                    // Rarely bits that are not whole bytes, which no parser may skip.
                    let unit = if self.random.below(4) == 0 { 1 } else { 8 };
                    body.push(Stmt::Advance(bit(32, unit * self.random.below(5) as u64)));
                }
                1 => {
                    let fields = vec![self.fields[self.fields.len() - 3]];
                    body.push(Stmt::Lookahead(fields));
                }
                2 => body.push(Stmt::Verify { condition: self.condition(1), error: bit(32, 4) }),
                _ => {}
            }
            let key = self.random.pick(&self.fields);
            let ty = self.type_of(key);
            let mut cases = Vec::new();
            for _ in 0..self.random.below(4) {
                cases.push((vec![self.keyset(ty)], self.target(count)));
            }
            if self.random.below(4) > 0 {
                cases.push((vec![Keyset::Any], self.target(count)));
            }
            let on = vec![self.b.get(key)];
            self.b.state(body, Transition::Select { on, cases });
        }
    }

    fn target(&mut self, states: usize) -> Target {
        match self.random.below(6) {
            0 => Target::Accept,
            1 => Target::Reject,
            _ => Target::State(StateId(self.random.below(states) as u32)),
        }
    }

    fn keyset(&mut self, ty: Scalar) -> Keyset {
        let value = self.random.limbs(ty);
        match self.random.below(3) {
            0 => Keyset::Value(value),
            1 => Keyset::Masked { value, mask: self.random.limbs(ty) },
            _ => Keyset::Range { low: vec![0; ty.limbs()].into(), high: value },
        }
    }

    /// Adds a table with constant entries, or a default action that may change.
    fn table(&mut self) {
        let kinds = [MatchKind::Exact, MatchKind::Ternary, MatchKind::Optional, MatchKind::Lpm];
        let kind = self.random.pick(&kinds);
        let count = if kind == MatchKind::Lpm { 1 } else { 1 + self.random.below(3) };
        let keys: Vec<FieldId> = (0..count)
            .map(|_| {
                loop {
                    let field = self.random.pick(&self.fields);
                    if !self.type_of(field).signed {
                        break field;
                    }
                }
            })
            .collect();
        let types: Vec<Scalar> = keys.iter().map(|&key| self.type_of(key)).collect();
        let mut entries: Vec<Entry> = Vec::new();
        for _ in 0..self.random.below(9) {
            let keys: Vec<Keyset> = types.iter().map(|&ty| self.entry_key(kind, ty)).collect();
            // A duplicate entry would be refused.
            let text = format!("{keys:?}");
            if entries.iter().all(|entry| format!("{:?}", entry.keys) != text) {
                entries.push(Entry {
                    keys,
                    call: self.action_call(),
                    priority: None,
                    is_const: true,
                });
            }
        }
        let keys = keys.into_iter().map(|key| (self.b.get(key), kind)).collect();
        let actions = self.actions.clone();
        let table = self.b.table(keys, &actions, entries);
        let changes = self.random.below(3) == 0;
        self.b.program.tables[table.index()].const_default = !changes;
        self.tables.push(table);
    }

    fn entry_key(&mut self, kind: MatchKind, ty: Scalar) -> Keyset {
        let value = self.random.limbs(ty);
        match kind {
            MatchKind::Exact => Keyset::Value(value),
            MatchKind::Ternary => {
                let mask = self.random.limbs(ty);
                Keyset::Masked {
                    value: value.iter().zip(&mask).map(|(v, m)| v & m).collect(),
                    mask,
                }
            }
            MatchKind::Lpm => match self.random.below(3) {
                0 => Keyset::Any,
                _ => Keyset::Value(value),
            },
            _ if self.random.below(3) == 0 => Keyset::Any,
            _ => Keyset::Value(value),
        }
    }

    fn action_call(&mut self) -> ActionCall {
        let action = self.random.below(self.actions.len()) as u32;
        let types = [16, 70, 9].map(Scalar::bit);
        let args = match action as usize + 1 == self.actions.len() {
            true => Vec::new(),
            false => types.iter().map(|&ty| self.random.limbs(ty)).collect(),
        };
        ActionCall { action, args }
    }

    /// Adds the pattern of in-network aggregation, which becomes a run of registers.
    fn sum(&mut self) {
        let index = match self.random.below(3) {
            0 => bit(4, REGISTER_CELLS),
            _ => self.expr(Scalar::bit(4), 1),
        };
        let at = self.local("at", 4);
        self.b.ingress.push(Stmt::Assign(Place::Field(at), index));
        let sum = self.local("sum", 32);
        let header = self.headers[3 + self.random.below(2)];
        let header = self.b.program.headers[header.index()].clone();
        for (&(register, _), &value) in self.registers[..4].iter().zip(&header.fields) {
            if self.b.program.fields[value.index()].ty == Scalar::bit(32) {
                let (a, b) = (self.b.get(sum), self.b.get(value));
                let both = binary(BinaryOp::Add, Scalar::bit(32), a, b);
                self.b.ingress.extend([
                    self.b.read(register, sum, self.b.get(at)),
                    Stmt::Assign(Place::Field(sum), both),
                    self.b.write(register, self.b.get(at), self.b.get(sum)),
                    Stmt::Assign(Place::Field(value), self.b.get(sum)),
                ]);
            }
        }
        // The last sum must be visible.
        let last = self.b.write(self.registers[0].0, bit(4, 0), self.b.get(sum));
        self.b.ingress.push(last);
    }

    fn statements(&mut self, depth: usize) -> Vec<Stmt> {
        (0..1 + self.random.below(6)).map(|_| self.statement(depth)).collect()
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each kind of statement")]
    fn statement(&mut self, depth: usize) -> Stmt {
        let header = HeaderRef::Fixed(self.random.pick(&self.headers));
        match self.random.below(18) {
            0 if depth > 0 => Stmt::If {
                condition: self.condition(2),
                then: self.statements(depth - 1),
                otherwise: if self.random.below(2) == 0 {
                    self.statements(depth - 1)
                } else {
                    Vec::new()
                },
            },
            1 if depth > 0 => {
                let on = self.random.pick(&self.fields);
                let ty = self.type_of(on);
                let case = |this: &mut Self| (this.random.limbs(ty), this.statements(depth - 1));
                Stmt::Switch {
                    on: self.b.get(on),
                    cases: (0..3).map(|_| case(self)).collect(),
                    default: self.statements(depth - 1),
                }
            }
            2 => Stmt::SetValid(header),
            3 => Stmt::SetInvalid(header),
            4 => Stmt::PushFront(self.stack, 1 + self.random.below(2) as u32),
            5 => Stmt::PopFront(self.stack, 1 + self.random.below(2) as u32),
            6 | 7 => {
                let (register, width) = self.random.pick(&self.registers);
                let index = self.expr(Scalar::bit(4), 1);
                let value = self.expr(Scalar::bit(width), 2);
                self.b.write(register, index, value)
            }
            8 => {
                let (register, width) = self.random.pick(&self.registers);
                let to = self.result(width);
                let index = self.expr(Scalar::bit(4), 1);
                self.b.read(register, to, index)
            }
            14 => {
                let (register, widths) = self.structs;
                let index = self.expr(Scalar::bit(4), 1);
                let values = widths.map(|width| self.expr(Scalar::bit(width), 2)).to_vec();
                common::method(register, "write", vec![Arg::In(index), Arg::List(values)])
            }
            15 => {
                let (register, widths) = self.structs;
                let out = |width| Arg::Out(Place::Field(self.result(width)), Scalar::bit(width));
                let mut args: Vec<Arg> = widths.map(out).to_vec();
                args.push(Arg::In(self.expr(Scalar::bit(4), 1)));
                common::method(register, "read", args)
            }
            9 => {
                let index = self.expr(Scalar::bit(4), 1);
                common::method(self.counter, "count", vec![Arg::In(cast(Scalar::bit(32), index))])
            }
            10 if self.random.below(6) == 0 => Stmt::Exit,
            11 => {
                let index = self.expr(Scalar::bit(3), 1);
                let value = self.expr(Scalar::bit(17), 2);
                Stmt::Assign(Place::Element(self.stack, Box::new(index), 2), value)
            }
            12 => {
                let field = self.random.pick(&self.fields);
                let width = self.type_of(field).width;
                let lo = self.random.below(width as usize) as u32;
                let hi = lo + self.random.below((width - lo) as usize) as u32;
                let value = self.expr(Scalar::bit(hi - lo + 1), 2);
                Stmt::Assign(Place::Slice(field, hi, lo), value)
            }
            13 if self.random.below(2) == 0 => {
                let [a, b] = [4, 5].map(|number| HeaderRef::Fixed(self.headers[number]));
                if self.random.below(2) == 0 {
                    Stmt::CopyHeader { to: a, from: b }
                } else {
                    Stmt::CopyHeader { to: b, from: a }
                }
            }
            13 if depth > 0 => Stmt::Block(self.statements(depth - 1)),
            _ => {
                let field = self.random.pick(&self.fields);
                let value = self.expr(self.type_of(field), 3);
                Stmt::Assign(Place::Field(field), value)
            }
        }
    }

    /// A field to read into, if there is one that is as wide. Out of range, a read leaves it
    /// unchanged.
    fn result(&mut self, width: u32) -> FieldId {
        let fits = |field: &FieldId| self.type_of(*field) == Scalar::bit(width);
        let known: Vec<FieldId> = self.fields.iter().copied().filter(fits).collect();
        match known.len() {
            0 => self.local("read", width),
            count => known[self.random.below(count)],
        }
    }

    fn type_of(&self, field: FieldId) -> Scalar {
        self.b.program.fields[field.index()].ty
    }

    fn condition(&mut self, depth: usize) -> Expr {
        let header = HeaderRef::Fixed(self.random.pick(&self.headers));
        match self.random.below(6) {
            0 => Expr { ty: Scalar::BOOL, kind: ExprKind::Valid(header) },
            1 if depth > 0 => {
                let op = self.random.pick(&[BinaryOp::And, BinaryOp::Or]);
                let (a, b) = (self.condition(depth - 1), self.condition(depth - 1));
                binary(op, Scalar::BOOL, a, b)
            }
            2 if depth > 0 => {
                let inner = Box::new(self.condition(depth - 1));
                Expr { ty: Scalar::BOOL, kind: ExprKind::Unary(UnaryOp::Not, inner) }
            }
            _ => {
                use BinaryOp::{Eq, Ge, Gt, Le, Lt, Ne};
                let ty = Scalar { width: self.random.width(), signed: self.random.below(2) == 0 };
                let op = self.random.pick(&[Eq, Ne, Lt, Le, Gt, Ge]);
                let (a, b) = (self.expr(ty, depth.min(1)), self.expr(ty, depth.min(1)));
                binary(op, Scalar::BOOL, a, b)
            }
        }
    }

    fn expr(&mut self, ty: Scalar, depth: usize) -> Expr {
        let choice = if depth == 0 { self.random.below(2) } else { self.random.below(10) };
        match choice {
            0 => Expr { ty, kind: ExprKind::Const(self.random.limbs(ty)) },
            1 | 2 => {
                let field = self.random.pick(&self.fields);
                let value = self.b.get(field);
                if value.ty == ty { value } else { cast(ty, value) }
            }
            3 => {
                let op = self.random.pick(&[UnaryOp::BitNot, UnaryOp::Neg]);
                let value = self.expr(ty, depth - 1);
                Expr { ty, kind: ExprKind::Unary(op, Box::new(value)) }
            }
            4 => {
                let op = self.random.pick(&[BinaryOp::Shl, BinaryOp::Shr]);
                let (a, b) = (self.expr(ty, depth - 1), self.expr(Scalar::bit(8), depth - 1));
                binary(op, ty, a, b)
            }
            5 => {
                let (condition, a, b) =
                    (self.condition(1), self.expr(ty, depth - 1), self.expr(ty, depth - 1));
                let kind = ExprKind::Mux(Box::new(condition), Box::new(a), Box::new(b));
                Expr { ty, kind }
            }
            6 if !ty.signed => {
                let lo = self.random.below(9) as u32;
                let wide = Scalar::bit(ty.width + lo + self.random.below(9) as u32);
                let value = Box::new(self.expr(wide, depth - 1));
                Expr { ty, kind: ExprKind::Slice { value, hi: lo + ty.width - 1, lo } }
            }
            7 if !ty.signed && ty.width > 1 => {
                let low = 1 + self.random.below(ty.width as usize - 1) as u32;
                let a = self.expr(Scalar::bit(ty.width - low), depth - 1);
                let b = self.expr(Scalar::bit(low), depth - 1);
                binary(BinaryOp::Concat, ty, a, b)
            }
            _ => {
                use BinaryOp::{Add, AddSat, BitAnd, BitOr, BitXor, Mul, Sub, SubSat};
                let ops = [Add, Sub, Mul, AddSat, SubSat, BitAnd, BitOr, BitXor];
                let op = self.random.pick(&ops);
                let (a, b) = (self.expr(ty, depth - 1), self.expr(ty, depth - 1));
                binary(op, ty, a, b)
            }
        }
    }
}

/// The effect of a frame: verdict, outgoing frame, and all persistent state.
fn outcome(
    pipeline: &mut Pipeline,
    packet: &mut tributary_dataplane::Packet,
    frame: &[u8],
    counter: ExternId,
    registers: &[(ExternId, usize)],
    replay: Option<&mut Replay>,
) -> String {
    let input = IngressInput { port: 3, time_us: 77, instance: Instance::Normal };
    let leaving = EgressInput { port: 5, ..Default::default() };
    let mut out = Vec::new();
    let (ingress, egress) = match replay {
        None => {
            let ingress = pipeline.ingress(packet, frame, &input);
            (ingress, pipeline.egress(packet, &leaving, &mut out))
        }
        Some(replay) => {
            replay.arrives(frame);
            let ingress = pipeline.ingress_observed(packet, frame, &input, replay);
            replay.check(pipeline, packet);
            let egress = pipeline.egress_observed(packet, &leaving, &mut out, replay);
            replay.check(pipeline, packet);
            if !egress.drop {
                replay.leaves(&out);
            }
            (ingress, egress)
        }
    };
    let cells: Vec<_> = registers
        .iter()
        .flat_map(|&(register, scalar)| {
            (0..REGISTER_CELLS).map(move |index| (register, index, scalar))
        })
        .map(|(register, index, scalar)| pipeline.register_read_scalar(register, index, scalar))
        .collect();
    let counts: Vec<_> = (0..9).map(|index| pipeline.counter_read(counter, index)).collect();
    format!("{ingress:?} {egress:?} {} {out:x?}\n{counts:?}\n{cells:?}", packet.length())
}

/// Returns the numbers of lookups, of extracted headers and of written cells that were observed.
fn agree(seed: u64) -> [usize; 3] {
    let maker = Maker::new(seed);
    let counter = maker.counter;
    let plain = maker.registers.iter().map(|&(register, _)| (register, 0));
    let parts = (0..PARTS).map(|scalar| (maker.structs.0, scalar));
    let registers: Vec<(ExternId, usize)> = plain.chain(parts).collect();
    let program = maker.make();
    let load = |kind| {
        let loaded = Pipeline::load(program.clone());
        let mut pipeline = loaded.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        pipeline.use_engine(kind);
        pipeline
    };
    let [mut first, mut second] = [EngineKind::Interpreter, EngineKind::Compiled].map(load);
    assert!(second.is_compiled() && !first.is_compiled(), "seed {seed}: the wrong engine runs");
    // Every other packet of this one is observed, whichever engine runs the rest.
    let mut third =
        load(if seed.is_multiple_of(2) { EngineKind::Compiled } else { EngineKind::Interpreter });
    let mut replay = Replay::new(&third);
    let (mut packet, mut other) = (first.new_packet(), second.new_packet());
    let mut mixed = third.new_packet();
    let mut random = Random(!seed);
    for number in 0..FRAMES {
        let length = random.below(400);
        let small = random.below(2) == 0;
        let byte = |random: &mut Random| (random.next() & if small { 3 } else { 255 }) as u8;
        let frame: Vec<u8> = (0..length).map(|_| byte(&mut random)).collect();
        let expected = outcome(&mut first, &mut packet, &frame, counter, &registers, None);
        let found = outcome(&mut second, &mut other, &frame, counter, &registers, None);
        let observer = if number % 2 == 0 { Some(&mut replay) } else { None };
        let seen = outcome(&mut third, &mut mixed, &frame, counter, &registers, observer);
        assert!(
            expected == seen,
            "TRIBUTARY_AGREEMENT_SEED={seed}, frame {number} {frame:x?}\n\
             interpreter:  {expected}\nsome observed: {seen}"
        );
        assert!(
            expected == found,
            "TRIBUTARY_AGREEMENT_SEED={seed}, frame {number} {frame:x?}\n\
             interpreter:  {expected}\nmachine code: {found}"
        );
    }
    replay.seen
}

pub(crate) fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: write a number")))
}

#[test]
fn interpreter_and_machine_code_agree_on_random_programs() {
    if let Some(seed) = number("TRIBUTARY_AGREEMENT_SEED") {
        agree(seed);
        return;
    }
    let seen = (1..=number("TRIBUTARY_AGREEMENT_CASES").unwrap_or(CASES)).map(agree);
    let seen = seen.reduce(|a, b| [a[0] + b[0], a[1] + b[1], a[2] + b[2]]).unwrap_or_default();
    assert!(seen.iter().all(|&count| count > 1000), "hardly anything was observed: {seen:?}");
}
