//! Executes a program on a test with inputs as bits of a circuit, and notes on which conditions its
//! path depends.
//!
//! This is a model to find tests, not a reference: expected packets come from the switch. Where the
//! two differ, a test is still right, but may not reach what it was made for. So hashes of long
//! data, for example, may be constants here.

use std::collections::{BTreeSet, HashMap, HashSet};

use tributary_p4::Architecture;
use tributary_p4::ir::{
    BinaryOp, Expr, ExprKind, ExternId, FieldId, HeaderId, HeaderRef, Keyset, LabelId, Place,
    Program, StackId, Stmt, TableId, UnaryOp,
};

use crate::testgen::case::{Case, Inputs};
use crate::testgen::circuit::{
    Circuit, FALSE, Lit, TRUE, Word, constant, limb_bits, of_number, resize,
};
use crate::testgen::goals::Instrumented;
use crate::testgen::program::counted;

/// The clock of packet tests: the time of a first packet, and how long a command takes.
const FIRST_US: u64 = 1_000_010;
const COMMAND_US: u64 = 1_000_000;
/// Statements and parser states of one test, so that loops end.
const MOST_STEPS: usize = 100_000;
/// Gates of one test, so that memory is bounded.
const MOST_GATES: usize = 3_000_000;

/// A side of a branch that the execution did not take.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    /// A bit that is true if it is taken, provided that the path is the same up to here.
    pub(crate) wanted: Lit,
    /// The number of the path's conditions up to here.
    pub(crate) after: usize,
    /// The goal that it reaches first, if it has one.
    pub(crate) goal: Option<usize>,
    /// Names the place and the side, to count attempts.
    pub(crate) site: u64,
    /// Whether new goals are likely behind it, though it has none itself.
    pub(crate) likely: bool,
}

/// What is known of the cases before another one.
pub(crate) struct Others {
    /// Whether one of them matches.
    pub(crate) taken: Lit,
    /// The number of the path's conditions before the first that matched.
    pub(crate) after: usize,
}

/// The site of a condition that must hold in every test.
pub(crate) const ALWAYS: u64 = 0;

/// A table that was applied.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) table: TableId,
    /// The values of the keys other than those of selectors.
    pub(crate) keys: Vec<Vec<bool>>,
    pub(crate) outcome: Outcome,
    pub(crate) context: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Miss,
    /// An entry of the program.
    Entry,
    /// An entry of the test, by its position.
    Rule(usize),
}

/// What the execution of a test showed.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) circuit: Circuit,
    pub(crate) inputs: Inputs,
    /// Bits that are true on this path, and only then.
    pub(crate) path: Vec<Lit>,
    /// Bits that are true on the sides that count where both sides were executed.
    pub(crate) sides: Vec<Lit>,
    pub(crate) branches: Vec<Branch>,
    pub(crate) goals: BTreeSet<usize>,
    pub(crate) applied: Vec<Applied>,
    /// Goals behind conditions that were constants on this path.
    pub(crate) blocked: BTreeSet<usize>,
    /// The registers that were written.
    pub(crate) written: BTreeSet<ExternId>,
    /// Values of a value set that a `select` compared in vain.
    pub(crate) absent: Vec<(ExternId, Vec<Vec<bool>>)>,
    /// Packets that were too short, by position, with the number of bytes that the parser wanted.
    pub(crate) short: Vec<(usize, usize)>,
    /// For each packet: the bytes that the parser consumed, and the ends of headers before.
    pub(crate) consumed: Vec<BTreeSet<usize>>,
    pub(crate) sessions: BTreeSet<u64>,
    pub(crate) groups: BTreeSet<u64>,
    /// For each packet: the packets that left, with their ports.
    pub(crate) outputs: Vec<Vec<(u64, Word)>>,
    /// Inputs whose values the test does not determine, taken for zero: times, queues, random
    /// numbers.
    pub(crate) unknown: BTreeSet<Lit>,
    /// Whether the program was too long to execute.
    pub(crate) endless: bool,
    /// A hash of the path, without the values of inputs.
    pub(crate) signature: u64,
}

/// How statements end.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Flow {
    Next,
    Return,
    Leave(LabelId),
    Exit,
    /// The parser stops with an error.
    Error(Word),
}

pub(crate) struct Machine<'p> {
    pub(crate) of: &'p Instrumented,
    pub(crate) program: &'p Program,
    pub(crate) case: &'p Case,
    /// Whether registers and colours of meters are inputs, besides those that the test sets.
    pub(crate) presets: bool,
    pub(crate) trace: Trace,
    pub(crate) fields: Vec<Word>,
    pub(crate) registers: HashMap<(ExternId, u64), Word>,
    /// The cells that earlier packets wrote, and the indices with which this one accessed registers.
    pub(crate) written_cells: BTreeSet<u64>,
    pub(crate) accessed: HashSet<Word>,
    pub(crate) is_tna: bool,
    /// The time of the first packet.
    pub(crate) now_us: u64,
    /// What checksums have summed in this pass, and those that the parser leaves behind (TNA).
    pub(crate) sums: HashMap<ExternId, Word>,
    pub(crate) deposits: Vec<(ExternId, usize, Place)>,
    /// The received packet, in the order of the wire, the number of bits that the switch prepended, and
    /// the bits that the parser consumed.
    pub(crate) frame: Word,
    pub(crate) prefix: usize,
    pub(crate) at: usize,
    pub(crate) payload: Word,
    pub(crate) out: Word,
    /// The number of the test's packet.
    pub(crate) packet: usize,
    /// Whether the frame is the test's packet, and not a recirculated one.
    pub(crate) is_original: bool,
    pub(crate) requests: Requests,
    /// The conditions of the path.
    pub(crate) known: HashSet<Lit>,
    /// A hash of the goals that earlier packets reached.
    pub(crate) history: u64,
    /// A hash of that, and of the parser states and table actions so far: attempts at a condition are
    /// counted separately for each.
    pub(crate) context: u64,
    /// Whether the statements that are executed are on the path: see `merge`.
    pub(crate) guard: Lit,
    /// Statements, by address, that are known to be plain or not.
    pub(crate) plain: HashMap<*const Stmt, bool>,
    /// Tables that are known to have only plain actions, or not.
    pub(crate) plain_tables: HashMap<u32, bool>,
    pub(crate) steps: usize,
}

/// Requests of the program for the end of a pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    /// Session, and the fields to keep.
    pub(crate) clone: Option<(u64, Vec<FieldId>)>,
    pub(crate) resubmit: Option<Vec<FieldId>>,
    /// The eight bytes of a request for another pass, in the order of the wire (TNA).
    pub(crate) resubmitted: Option<Word>,
    /// The session of a mirrored copy, and the bits in front of it (TNA).
    pub(crate) mirror: Option<(u64, Word)>,
    pub(crate) recirculate: Option<Vec<FieldId>>,
    pub(crate) truncate: Option<u64>,
    pub(crate) failed: bool,
}

impl<'p> Machine<'p> {
    pub(crate) fn new(of: &'p Instrumented, case: &'p Case, presets: bool) -> Self {
        let mut circuit = Circuit::new();
        let inputs = case.inputs(&mut circuit);
        let trace = Trace {
            circuit,
            inputs,
            path: Vec::new(),
            sides: Vec::new(),
            branches: Vec::new(),
            goals: BTreeSet::new(),
            applied: Vec::new(),
            blocked: BTreeSet::new(),
            written: BTreeSet::new(),
            absent: Vec::new(),
            short: Vec::new(),
            consumed: Vec::new(),
            sessions: BTreeSet::new(),
            groups: BTreeSet::new(),
            outputs: Vec::new(),
            unknown: BTreeSet::new(),
            endless: false,
            signature: 0,
        };
        Self {
            of,
            program: &of.program,
            case,
            presets,
            trace,
            fields: Vec::new(),
            registers: HashMap::new(),
            written_cells: BTreeSet::new(),
            accessed: HashSet::new(),
            is_tna: of.program.architecture() == Some(Architecture::Tna),
            now_us: FIRST_US + COMMAND_US * case.setup(&of.program).lines().count() as u64,
            sums: HashMap::new(),
            deposits: Vec::new(),
            frame: Vec::new(),
            prefix: 0,
            at: 0,
            payload: Vec::new(),
            out: Vec::new(),
            packet: 0,
            is_original: true,
            requests: Requests::default(),
            known: HashSet::new(),
            history: 0,
            context: 0,
            guard: TRUE,
            plain: HashMap::new(),
            plain_tables: HashMap::new(),
            steps: 0,
        }
    }

    pub(crate) fn circuit(&mut self) -> &mut Circuit {
        &mut self.trace.circuit
    }

    /// Continues with one side of a condition. The goals are those of the sides.
    pub(crate) fn fork(&mut self, condition: Lit, sides: [Option<usize>; 2], site: u64) -> bool {
        let taken = self.trace.circuit.value(condition);
        self.trace.signature = mix(self.trace.signature ^ site.rotate_left(1) ^ u64::from(taken));
        let [yes, no] = sides;
        let (holds, other) = if taken { (condition, no) } else { (!condition, yes) };
        if condition.is_constant() || self.known.contains(&holds) {
            self.trace.blocked.extend(other);
        } else {
            self.known.insert(holds);
            if site != ALWAYS {
                self.branch(!holds, other, site << 1 | u64::from(taken), false);
            }
            self.trace.path.push(holds);
        }
        taken
    }

    pub(crate) fn branch(&mut self, wanted: Lit, goal: Option<usize>, site: u64, likely: bool) {
        let after = self.trace.path.len();
        let site = mix(site ^ self.context);
        self.trace.branches.push(Branch { wanted, after, goal, site, likely });
    }

    /// Notes another case that would be taken if those before did not match.
    pub(crate) fn other(
        &mut self,
        others: &mut Others,
        sets: &[Keyset],
        on: &[Word],
        goal: Option<usize>,
        site: u64,
    ) {
        let matched = self.matches(sets, on);
        let wanted = self.trace.circuit.and(matched, !others.taken);
        others.taken = self.trace.circuit.or(others.taken, matched);
        if wanted.is_constant() {
            if matched == FALSE {
                self.trace.blocked.extend(goal);
            }
        } else {
            let site = mix(site << 1 ^ self.context);
            let after = others.after;
            self.trace.branches.push(Branch { wanted, after, goal, site, likely: false });
        }
    }

    /// Makes a value a constant: the path depends on its bits.
    pub(crate) fn pin(&mut self, word: &[Lit], site: u64) -> Vec<bool> {
        let bits = word.iter().enumerate();
        bits.map(|(at, &bit)| self.fork(bit, [None, None], mix(site ^ at as u64))).collect()
    }

    pub(crate) fn pin_number(&mut self, word: &[Lit], site: u64) -> u64 {
        let bits = self.pin(word, site);
        crate::testgen::circuit::number(&bits).unwrap_or(u64::MAX)
    }

    /// Whether too much has been executed; then everything ends quickly.
    pub(crate) fn over(&mut self) -> bool {
        self.steps += 1;
        if self.steps > MOST_STEPS || self.trace.circuit.gates().len() > MOST_GATES {
            self.trace.endless = true;
        }
        self.trace.endless
    }

    pub(crate) fn width(&self, field: FieldId) -> usize {
        self.program.fields[field.index()].ty.width as usize
    }

    pub(crate) fn zero(&mut self, field: FieldId) {
        self.fields[field.index()] = vec![FALSE; self.width(field)];
    }

    pub(crate) fn field(&self, field: FieldId) -> &Word {
        &self.fields[field.index()]
    }

    pub(crate) fn set(&mut self, field: FieldId, value: &[Lit]) {
        self.fields[field.index()] = resize(value, self.width(field), false);
    }

    /// The header of a reference; `None` out of range.
    pub(crate) fn header(&mut self, header: &HeaderRef) -> Option<HeaderId> {
        let (stack, index) = match header {
            HeaderRef::Fixed(header) => return Some(*header),
            HeaderRef::Next(stack) => (*stack, self.next_index(*stack)),
            HeaderRef::Last(stack) => (*stack, self.next_index(*stack).wrapping_sub(1)),
            HeaderRef::Index(stack, index) => {
                let index = self.expr(index);
                (*stack, self.pin_number(&index, mix(u64::from(stack.0) ^ 0x51ac)))
            }
        };
        let elements = &self.program.stacks[stack.index()].elements;
        usize::try_from(index).ok().and_then(|index| elements.get(index)).copied()
    }

    pub(crate) fn next_index(&mut self, stack: StackId) -> u64 {
        let field = self.program.stacks[stack.index()].next_index;
        let word = self.field(field).clone();
        self.pin_number(&word, mix(u64::from(stack.0) ^ 0x7e87))
    }

    pub(crate) fn set_next_index(&mut self, stack: StackId, index: usize) {
        self.set(self.program.stacks[stack.index()].next_index, &of_number(index as u64, 32));
    }

    /// All fields of a header, with the length of its varbit.
    pub(crate) fn parts(&self, header: HeaderId) -> Vec<FieldId> {
        let header = &self.program.headers[header.index()];
        header.fields.iter().copied().chain(header.varbit.map(|(_, length)| length)).collect()
    }

    fn element(&self, header: HeaderId, position: u32) -> Option<FieldId> {
        self.parts(header).get(position as usize).copied()
    }

    pub(crate) fn expr(&mut self, expr: &Expr) -> Word {
        let width = expr.ty.width as usize;
        match &expr.kind {
            ExprKind::Const(limbs) => constant(&limb_bits(limbs, width)),
            ExprKind::Field(field) => self.field(*field).clone(),
            ExprKind::Valid(header) => match self.header(header) {
                Some(header) => self.field(self.program.headers[header.index()].valid).clone(),
                None => vec![FALSE],
            },
            ExprKind::Element(stack, index, position) => {
                let index = self.expr(index);
                let mut value = vec![FALSE; width];
                for (number, &header) in
                    self.program.stacks[stack.index()].elements.iter().enumerate()
                {
                    let Some(field) = self.element(header, *position) else { continue };
                    let number = of_number(number as u64, index.len());
                    let circuit = &mut self.trace.circuit;
                    let here = circuit.equal(&index, &number);
                    value = circuit.mux(here, &self.fields[field.index()], &value);
                }
                value
            }
            ExprKind::Unary(op, value) => {
                let value = self.expr(value);
                let complement: Word = value.iter().map(|&bit| !bit).collect();
                match op {
                    UnaryOp::Not | UnaryOp::BitNot => complement,
                    UnaryOp::Neg => self.circuit().add(&vec![FALSE; width], &complement, TRUE).0,
                }
            }
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right),
            ExprKind::Slice { value, hi, lo } => {
                self.expr(value)[*lo as usize..=*hi as usize].to_vec()
            }
            ExprKind::Cast(value) => {
                let word = self.expr(value);
                resize(&word, width, value.ty.signed)
            }
            ExprKind::Mux(condition, then, otherwise) => {
                let condition = self.expr(condition)[0];
                let (then, otherwise) = (self.expr(then), self.expr(otherwise));
                self.circuit().mux(condition, &then, &otherwise)
            }
        }
    }

    fn binary(&mut self, op: BinaryOp, left: &Expr, right: &Expr) -> Word {
        let signed = left.ty.signed;
        let (a, b) = (self.expr(left), self.expr(right));
        let c = &mut self.trace.circuit;
        let bit = |lit: Lit| vec![lit];
        match op {
            BinaryOp::Add => c.add(&a, &b, FALSE).0,
            BinaryOp::Sub => c.sub(&a, &b).0,
            BinaryOp::Mul => c.mul(&a, &b),
            BinaryOp::Div => c.divide(&a, &b).0,
            BinaryOp::Mod => c.divide(&a, &b).1,
            BinaryOp::AddSat | BinaryOp::SubSat => saturating(c, op, &a, &b, signed),
            BinaryOp::BitAnd | BinaryOp::And => c.zip(&a, &b, Circuit::and),
            BinaryOp::BitOr | BinaryOp::Or => c.zip(&a, &b, Circuit::or),
            BinaryOp::BitXor => c.zip(&a, &b, Circuit::xor),
            BinaryOp::Concat => b.into_iter().chain(a).collect(),
            BinaryOp::Shl => c.shift(&a, &b, true, FALSE),
            BinaryOp::Shr => {
                let fill = if signed { a.last().copied().unwrap_or(FALSE) } else { FALSE };
                c.shift(&a, &b, false, fill)
            }
            BinaryOp::Eq => bit(c.equal(&a, &b)),
            BinaryOp::Ne => bit(!c.equal(&a, &b)),
            BinaryOp::Lt => bit(c.less(&a, &b, signed)),
            BinaryOp::Le => bit(!c.less(&b, &a, signed)),
            BinaryOp::Gt => bit(c.less(&b, &a, signed)),
            BinaryOp::Ge => bit(!c.less(&a, &b, signed)),
        }
    }

    pub(crate) fn load(&mut self, place: &Place) -> Word {
        match place {
            Place::Field(field) => self.field(*field).clone(),
            Place::Slice(field, hi, lo) => self.field(*field)[*lo as usize..=*hi as usize].to_vec(),
            Place::Element(stack, index, position) => {
                let first = self.program.stacks[stack.index()].elements[0];
                let field = self.element(first, *position);
                let ty = field.map(|field| self.program.fields[field.index()].ty);
                let ty = ty.unwrap_or(tributary_p4::ir::Scalar::BOOL);
                let kind = ExprKind::Element(*stack, index.clone(), *position);
                self.expr(&Expr { ty, kind })
            }
        }
    }

    pub(crate) fn store(&mut self, place: &Place, value: &[Lit]) {
        match place {
            Place::Field(field) => self.set(*field, value),
            Place::Slice(field, hi, lo) => {
                let (lo, hi) = (*lo as usize, *hi as usize);
                let value = resize(value, hi - lo + 1, false);
                self.fields[field.index()][lo..=hi].copy_from_slice(&value);
            }
            Place::Element(stack, index, position) => {
                let index = self.expr(index);
                for (number, &header) in
                    self.program.stacks[stack.index()].elements.iter().enumerate()
                {
                    let Some(field) = self.element(header, *position) else { continue };
                    let number = of_number(number as u64, index.len());
                    let circuit = &mut self.trace.circuit;
                    let here = circuit.equal(&index, &number);
                    let old = &self.fields[field.index()];
                    self.fields[field.index()] = circuit.mux(here, value, old);
                }
            }
        }
    }

    pub(crate) fn statements(&mut self, list: &[Stmt]) -> Flow {
        for statement in list {
            let flow = self.statement(statement);
            if flow != Flow::Next {
                return flow;
            }
        }
        Flow::Next
    }

    fn statement(&mut self, statement: &Stmt) -> Flow {
        if self.over() {
            return Flow::Exit;
        }
        match statement {
            Stmt::Assign(place, value) => {
                let value = self.expr(value);
                self.store(place, &value);
            }
            Stmt::CopyHeader { to, from } => {
                if let (Some(to), Some(from)) = (self.header(to), self.header(from)) {
                    self.copy_header(to, from);
                }
            }
            Stmt::SetValid(header) => {
                if let Some(header) = self.header(header) {
                    self.set_valid(header);
                }
            }
            Stmt::SetInvalid(header) | Stmt::Displace(header) => {
                if let Some(header) = self.header(header) {
                    self.invalidate(header);
                }
            }
            Stmt::PushFront(stack, count) => self.push_front(*stack, *count as usize),
            Stmt::PopFront(stack, count) => self.pop_front(*stack, *count as usize),
            Stmt::If { condition, then, otherwise } => {
                let condition = self.expr(condition)[0];
                let sides = [self.first_goal(then), self.first_goal(otherwise)];
                let site = sides[0].or(sides[1]).map_or(1, |goal| mix(goal as u64));
                if !condition.is_constant() && self.is_plain(statement) {
                    self.merge(condition, [then, otherwise], sides, site);
                    return Flow::Next;
                }
                let body = if self.fork(condition, sides, site) { then } else { otherwise };
                return self.statements(body);
            }
            Stmt::Switch { on, cases, default } => return self.switch(on, cases, default),
            Stmt::Apply { table, hit, action } => return self.apply(*table, *hit, *action),
            Stmt::Action(id) => {
                let flow = self.statements(&self.program.actions[id.index()].body);
                return if flow == Flow::Return { Flow::Next } else { flow };
            }
            Stmt::Call(call) => {
                match counted(statement, self.of.counter) {
                    Some(goal) => self.reach(goal),
                    None => self.call(call),
                }
                if self.requests.failed {
                    return Flow::Exit;
                }
            }
            Stmt::Extract { header, varbit_bits } => {
                return self.extract(header, varbit_bits.as_ref());
            }
            Stmt::Lookahead(fields) => return self.look_ahead(fields),
            Stmt::Advance(bits) => return self.advance(bits),
            Stmt::Verify { condition, error } => return self.verify(condition, error),
            Stmt::Emit(header) => {
                if let Some(header) = self.header(header) {
                    self.emit(header);
                }
            }
            Stmt::Exit => return Flow::Exit,
            Stmt::Return => return Flow::Return,
            Stmt::Block(body) => {
                let flow = self.statements(body);
                return if flow == Flow::Return { Flow::Next } else { flow };
            }
            Stmt::Loop(label, body) => return self.repeat(*label, body),
            Stmt::Labelled(label, body) => {
                let flow = self.statements(body);
                return if flow == Flow::Leave(*label) { Flow::Next } else { flow };
            }
            Stmt::Leave(label) => return Flow::Leave(*label),
            Stmt::Mark(_) => {}
        }
        Flow::Next
    }

    fn switch(&mut self, on: &Expr, cases: &[(Box<[u64]>, Vec<Stmt>)], default: &[Stmt]) -> Flow {
        let on = self.expr(on);
        for (label, body) in cases {
            let label = constant(&limb_bits(label, on.len()));
            let equal = self.circuit().equal(&on, &label);
            let goal = self.first_goal(body);
            let site = goal.map_or(2, |goal| mix(goal as u64 ^ 0x5317));
            if self.fork(equal, [goal, None], site) {
                return self.statements(body);
            }
        }
        self.statements(default)
    }

    fn repeat(&mut self, label: LabelId, body: &[Stmt]) -> Flow {
        loop {
            match self.statements(body) {
                Flow::Next if self.over() => return Flow::Exit,
                Flow::Next => {}
                Flow::Leave(to) if to == label => return Flow::Next,
                flow => return flow,
            }
        }
    }

    /// Notes a goal, unless the statements are not on the path.
    fn reach(&mut self, goal: usize) {
        if self.trace.circuit.value(self.guard) {
            self.trace.goals.insert(goal);
        }
    }

    /// The goal that a body counts first.
    pub(crate) fn first_goal(&self, body: &[Stmt]) -> Option<usize> {
        body.first().and_then(|statement| counted(statement, self.of.counter))
    }

    fn copy_header(&mut self, to: HeaderId, from: HeaderId) {
        for (to, from) in self.parts(to).into_iter().zip(self.parts(from)) {
            self.fields[to.index()] = self.fields[from.index()].clone();
        }
        let [to, from] = [to, from].map(|header| self.program.headers[header.index()].valid);
        self.fields[to.index()] = self.fields[from.index()].clone();
    }

    fn set_valid(&mut self, header: HeaderId) {
        let valid = self.program.headers[header.index()].valid;
        let was = self.field(valid)[0];
        for field in self.parts(header) {
            let zero = vec![FALSE; self.width(field)];
            let old = &self.fields[field.index()];
            self.fields[field.index()] = self.trace.circuit.mux(was, old, &zero);
        }
        self.set(valid, &[TRUE]);
    }

    fn invalidate(&mut self, header: HeaderId) {
        self.set(self.program.headers[header.index()].valid, &[FALSE]);
    }

    fn push_front(&mut self, stack: StackId, count: usize) {
        let elements = self.program.stacks[stack.index()].elements.clone();
        let shift = count.min(elements.len());
        for at in (shift..elements.len()).rev() {
            self.copy_header(elements[at], elements[at - shift]);
        }
        elements[..shift].iter().for_each(|&header| self.invalidate(header));
        let next = usize::try_from(self.next_index(stack)).unwrap_or(elements.len());
        self.set_next_index(stack, next.saturating_add(shift).min(elements.len()));
    }

    fn pop_front(&mut self, stack: StackId, count: usize) {
        let elements = self.program.stacks[stack.index()].elements.clone();
        let shift = count.min(elements.len());
        for at in 0..elements.len() - shift {
            self.copy_header(elements[at], elements[at + shift]);
        }
        elements[elements.len() - shift..].iter().for_each(|&header| self.invalidate(header));
        let next = usize::try_from(self.next_index(stack)).unwrap_or(elements.len());
        self.set_next_index(stack, next.saturating_sub(shift));
    }

    /// An error of the architecture.
    pub(crate) fn error(&self, name: &str) -> Flow {
        Flow::Error(of_number(self.program.error_code(name).unwrap_or(0), 32))
    }

    fn emit(&mut self, id: HeaderId) {
        let header = &self.program.headers[id.index()];
        let valid = self.field(header.valid)[0];
        if !self.fork(valid, [None, None], mix(u64::from(id.0) ^ 0xe317)) {
            return;
        }
        for (at, &field) in header.fields.iter().enumerate() {
            let mut word = self.field(field).clone();
            if let Some((varbit, length)) = header.varbit
                && varbit == at
            {
                let length = self.field(length).clone();
                let length = self.pin_number(&length, mix(u64::from(id.0) ^ 0x1e57));
                word.truncate(usize::try_from(length).unwrap_or(word.len()));
            }
            self.out.extend(word.iter().rev());
        }
    }

    /// Whether values match the keysets of a `select` or of an entry.
    pub(crate) fn matches(&mut self, sets: &[Keyset], on: &[Word]) -> Lit {
        if let ([Keyset::ValueSet(set)], [_, _, ..]) = (sets, on) {
            return self.in_value_set(*set, on);
        }
        let mut all = TRUE;
        for (set, value) in sets.iter().zip(on) {
            let width = value.len();
            let c = &mut self.trace.circuit;
            let word = |limbs: &[u64]| constant(&limb_bits(limbs, width));
            let one = match set {
                Keyset::Any => TRUE,
                Keyset::Value(constant) => c.equal(value, &word(constant)),
                Keyset::Masked { value: constant, mask } => {
                    let mask = word(mask);
                    let (left, right) = (
                        c.zip(value, &mask, Circuit::and),
                        c.zip(&word(constant), &mask, Circuit::and),
                    );
                    c.equal(&left, &right)
                }
                Keyset::Prefix { value: constant, len } => {
                    let low = width.saturating_sub(*len as usize);
                    c.equal(&value[low..], &word(constant)[low..])
                }
                Keyset::Range { low, high } => {
                    let (below, above) =
                        (c.less(value, &word(low), false), c.less(&word(high), value, false));
                    c.and(!below, !above)
                }
                Keyset::ValueSet(set) => self.in_value_set(*set, std::slice::from_ref(value)),
            };
            all = self.circuit().and(all, one);
        }
        all
    }

    fn in_value_set(&mut self, set: ExternId, on: &[Word]) -> Lit {
        let mut any = FALSE;
        for ((of, _), member) in self.case.members.iter().zip(&self.trace.inputs.members) {
            if *of == set {
                let c = &mut self.trace.circuit;
                let parts: Vec<Lit> = member.iter().zip(on).map(|(m, v)| c.equal(m, v)).collect();
                let all = c.all(&parts);
                any = c.or(any, all);
            }
        }
        if !self.trace.circuit.value(any) {
            let values = on.iter().map(|word| self.trace.circuit.values(word)).collect();
            self.trace.absent.push((set, values));
        }
        any
    }
}

fn saturating(c: &mut Circuit, op: BinaryOp, a: &[Lit], b: &[Lit], signed: bool) -> Word {
    let subtract = op == BinaryOp::SubSat;
    let width = a.len();
    // One more bit holds every sum and difference.
    let (a, b) = (resize(a, width + 1, signed), resize(b, width + 1, signed));
    let wide = if subtract { c.sub(&a, &b).0 } else { c.add(&a, &b, FALSE).0 };
    let top = wide[width];
    let (overflow, limit): (Lit, Word) = if signed {
        let mut limit = vec![!top; width];
        limit[width - 1] = top;
        (c.xor(top, wide[width - 1]), limit)
    } else {
        (top, vec![if subtract { FALSE } else { TRUE }; width])
    };
    c.mux(overflow, &limit, &wide[..width])
}

/// Scrambles a number.
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    number ^ number >> 29
}
