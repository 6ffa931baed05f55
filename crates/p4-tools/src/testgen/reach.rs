//! What packets can reach at all: a walk through the program's graph with the values that fields can have.
//!
//! For each field of metadata, and each local variable and parameter, the walk collects the constants
//! that reachable statements assign to it, or notes that it can have any value. A side of a branch, a
//! case, or an entry that none of these values leads to is unreachable, whatever packets, entries and
//! registers there are. The opposite does not hold: values are collected for the program as a whole,
//! not for each path.

use std::collections::{BTreeSet, HashSet};

use tributary_p4::ir::visit::{self, Visit};
use tributary_p4::ir::{
    Action, Arg, BinaryOp, Block, Expr, ExprKind, ExternCall, ExternId, FieldId, FieldRole,
    HeaderId, HeaderRef, Keyset, Place, Program, StackId, State, StateId, Stmt, Table, TableId,
    Target, Transition, UnaryOp,
};

use crate::testgen::program::{can_run, counted, takes_entries};

/// Constants per field. A field with more can have any value.
const MOST: usize = 24;

/// The values that something can have; `None` for any.
type Values = Option<BTreeSet<u64>>;

/// What some packet may reach, as far as the analysis can tell.
#[derive(Debug)]
pub(crate) struct Reachable {
    /// Goals.
    pub(crate) goals: BTreeSet<usize>,
    /// Tables that may be applied.
    pub(crate) tables: HashSet<u32>,
    /// Entries of the program that may match, by table and number.
    pub(crate) entries: HashSet<(u32, usize)>,
}

/// Analyses an instrumented program.
pub(crate) fn reachable(program: &Program, counter: ExternId) -> Reachable {
    let known = program.fields.iter().map(|field| match field.role {
        FieldRole::Header(_) | FieldRole::Intrinsic | FieldRole::Validity(_) => None,
        FieldRole::Metadata | FieldRole::Local | FieldRole::ActionParam => Some([0].into()),
    });
    let mut walk = Walk {
        program,
        counter,
        fields: known.collect(),
        found: Reachable {
            goals: BTreeSet::new(),
            tables: HashSet::new(),
            entries: HashSet::new(),
        },
        seen: HashSet::new(),
        changed: true,
    };
    let stacks = program.stacks.iter().map(|stack| stack.next_index);
    let lengths = program.headers.iter().filter_map(|header| header.varbit.map(|(_, id)| id));
    let intrinsic = program.intrinsic.iter().map(|&(_, id)| id);
    let carried = program.field_lists.iter().flat_map(|(_, list)| list.iter().copied());
    let carried = carried.filter(|id| program.fields[id.index()].role == FieldRole::Intrinsic);
    for field in stacks.chain(lengths).chain(intrinsic).chain(carried) {
        walk.fields[field.index()] = None;
    }
    while std::mem::take(&mut walk.changed) {
        walk.seen.clear();
        for &(_, block) in &program.blocks {
            match block {
                Block::Control(id) => walk.visit_body(&program.controls[id.index()].body),
                Block::Parser(id) => walk.states(&program.parsers[id.index()].states),
            }
        }
    }
    walk.found
}

struct Walk<'p> {
    program: &'p Program,
    counter: ExternId,
    fields: Vec<Values>,
    found: Reachable,
    /// Actions and tables that have been visited in this round.
    seen: HashSet<(bool, u32)>,
    /// Whether this round found new values.
    changed: bool,
}

impl<'p> Walk<'p> {
    fn join(&mut self, field: FieldId, values: Values) {
        let known = &mut self.fields[field.index()];
        let Some(set) = known else { return };
        match values {
            Some(values) => {
                let before = set.len();
                set.extend(values);
                self.changed |= set.len() != before;
                if set.len() > MOST {
                    *known = None;
                }
            }
            None => {
                *known = None;
                self.changed = true;
            }
        }
    }

    /// A place, of which an array's element stands for all of them.
    fn any(&mut self, place: &Place) {
        match place {
            Place::Field(field) | Place::Slice(field, ..) => self.join(*field, None),
            Place::Element(stack, ..) => self.any_stack(*stack),
        }
    }

    fn any_stack(&mut self, stack: StackId) {
        let elements = &self.program.stacks[stack.index()].elements;
        elements.iter().for_each(|&element| self.any_header(element));
    }

    fn any_header(&mut self, header: HeaderId) {
        let header = &self.program.headers[header.index()];
        header.fields.iter().for_each(|&field| self.join(field, None));
    }

    fn states(&mut self, states: &'p [State]) {
        let mut reached = vec![false; states.len()];
        let mut waiting = vec![StateId(0)];
        while let Some(id) = waiting.pop() {
            let Some(state) = states.get(id.index()) else { continue };
            if std::mem::replace(&mut reached[id.index()], true) {
                continue;
            }
            self.visit_body(&state.body);
            let mut targets = Vec::new();
            match &state.transition {
                Transition::To(target) => targets.push(*target),
                Transition::Select { on, cases } => {
                    let on: Vec<Values> = on.iter().map(|value| self.eval(value)).collect();
                    for (sets, target) in cases {
                        if may_match(sets, &on) {
                            targets.push(*target);
                        }
                        if sets.iter().all(|set| matches!(set, Keyset::Any)) {
                            break;
                        }
                    }
                }
            }
            waiting.extend(targets.into_iter().filter_map(|target| match target {
                Target::State(id) => Some(id),
                _ => None,
            }));
        }
    }

    fn action(&mut self, id: tributary_p4::ir::ActionId) {
        if self.seen.insert((false, id.0)) {
            let action: &'p Action = &self.program.actions[id.index()];
            self.visit_body(&action.body);
        }
    }

    fn apply(&mut self, id: TableId, hit: Option<FieldId>, chosen: Option<FieldId>) {
        let program = self.program;
        let table: &'p Table = &program.tables[id.index()];
        let keys: Vec<Values> = table.keys.iter().map(|key| self.eval(&key.value)).collect();
        self.found.tables.insert(id.0);
        let mut by_entry: HashSet<usize> = HashSet::new();
        for (number, entry) in table.entries.iter().enumerate() {
            if may_match(&entry.keys, &keys) {
                self.found.entries.insert((id.0, number));
                by_entry.insert(entry.call.action as usize);
                self.arguments(table, entry.call.action as usize, &entry.call.args);
            }
        }
        let default = table.default_action.action as usize;
        self.arguments(table, default, &table.default_action.args);
        if let Some(call) = &table.empty_group {
            self.arguments(table, call.action as usize, &call.args);
            by_entry.insert(call.action as usize);
        }
        let may_hit = !by_entry.is_empty() || takes_entries(table);
        for (number, listed) in table.actions.iter().enumerate() {
            let chosen_by_program = number == default || by_entry.contains(&number);
            let by_controller = can_run(table, number)
                && (takes_entries(table) && listed.scope.in_entries()
                    || !table.const_default && listed.scope.as_default());
            if by_controller {
                for &param in &program.actions[listed.action.index()].params {
                    self.join(param, None);
                }
            }
            if chosen_by_program || by_controller {
                self.visit_body(&listed.prologue);
                self.action(listed.action);
                if let Some(field) = chosen {
                    self.join(field, Some([number as u64].into()));
                }
            }
        }
        if let Some(field) = hit {
            self.join(field, Some(if may_hit { [0, 1].into() } else { [0].into() }));
        }
    }

    /// Parameters get the values of an entry or of a default action.
    fn arguments(&mut self, table: &'p Table, action: usize, args: &[Box<[u64]>]) {
        let action = &self.program.actions[table.actions[action].action.index()];
        for (&param, limbs) in action.params.iter().zip(args) {
            self.join(param, constant(limbs));
        }
    }

    fn call(&mut self, call: &'p ExternCall) {
        for arg in &call.args {
            match arg {
                Arg::Out(place, _) => self.any(place),
                Arg::Copy(fields) => {
                    fields.iter().for_each(|&(_, field)| self.join(field, None));
                }
                _ => {}
            }
        }
        let action = call.instance.and_then(|id| self.program.stateful_action(id));
        if let Some(action) = action {
            action.value.iter().for_each(|&field| self.join(field, None));
            self.visit_body(&action.body);
        }
    }

    fn eval(&self, expr: &Expr) -> Values {
        let width = expr.ty.width;
        let all = if width == 1 { Some([0, 1].into()) } else { None };
        if width > 64 {
            return None;
        }
        let value = match &expr.kind {
            ExprKind::Const(limbs) => constant(limbs),
            ExprKind::Field(field) => self.fields[field.index()].clone(),
            ExprKind::Unary(UnaryOp::Not, value) => {
                self.eval(value).map(|set| set.into_iter().map(|bit| bit ^ 1).collect())
            }
            ExprKind::Cast(value) if !value.ty.signed => {
                self.eval(value).map(|set| set.into_iter().map(|v| v & ones(width)).collect())
            }
            ExprKind::Slice { value, lo, .. } => self
                .eval(value)
                .map(|set| set.into_iter().map(|v| (v >> lo) & ones(width)).collect()),
            ExprKind::Mux(condition, then, otherwise) => {
                let condition = self.eval(condition);
                let mut values = BTreeSet::new();
                for (side, bit) in [(then, 1), (otherwise, 0)] {
                    if holds(&condition, bit) {
                        values.extend(self.eval(side)?);
                    }
                }
                Some(values)
            }
            ExprKind::Binary(op, left, right) => {
                binary(*op, left.ty.signed, &self.eval(left), &self.eval(right))
            }
            _ => None,
        };
        value.filter(|set| set.len() <= MOST * MOST).or(all)
    }
}

impl<'p> Visit<'p> for Walk<'p> {
    fn visit_body(&mut self, body: &'p [Stmt]) {
        for statement in body {
            self.visit_stmt(statement);
            if matches!(statement, Stmt::Exit | Stmt::Return | Stmt::Leave(_)) {
                // What follows is not reached.
                return;
            }
        }
    }

    fn visit_stmt(&mut self, statement: &'p Stmt) {
        if let Some(goal) = counted(statement, self.counter) {
            self.found.goals.insert(goal);
            return;
        }
        match statement {
            Stmt::Assign(Place::Field(field), value) => {
                let values = self.eval(value);
                self.join(*field, values);
            }
            Stmt::Assign(place, _) => self.any(place),
            Stmt::If { condition, then, otherwise } => {
                let condition = self.eval(condition);
                for (side, bit) in [(then, 1), (otherwise, 0)] {
                    if holds(&condition, bit) {
                        self.visit_body(side);
                    }
                }
            }
            Stmt::Switch { on, cases, default } => {
                let on = self.eval(on);
                let mut rest = on.clone();
                for (label, body) in cases {
                    let label = constant(label);
                    if overlaps(&on, &label) {
                        self.visit_body(body);
                    }
                    if let (Some(rest), Some(label)) = (&mut rest, label) {
                        rest.retain(|value| !label.contains(value));
                    }
                }
                if rest.is_none_or(|rest| !rest.is_empty()) {
                    self.visit_body(default);
                }
            }
            Stmt::CopyHeader { to, .. } => match to {
                HeaderRef::Fixed(header) => self.any_header(*header),
                HeaderRef::Next(stack) | HeaderRef::Last(stack) | HeaderRef::Index(stack, _) => {
                    self.any_stack(*stack);
                }
            },
            Stmt::PushFront(stack, _) | Stmt::PopFront(stack, _) => self.any_stack(*stack),
            Stmt::Apply { table, hit, action } => self.apply(*table, *hit, *action),
            Stmt::Action(id) => self.action(*id),
            Stmt::Call(call) => self.call(call),
            Stmt::Lookahead(fields) => fields.iter().for_each(|&field| self.join(field, None)),
            _ => visit::walk_stmt(self, statement),
        }
    }

    /// Goals are counted by statements.
    fn visit_expr(&mut self, _: &'p Expr) {}
}

fn constant(limbs: &[u64]) -> Values {
    let (first, rest) = limbs.split_first()?;
    rest.iter().all(|&limb| limb == 0).then(|| [*first].into())
}

fn ones(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// Whether a value may be this one.
fn holds(values: &Values, value: u64) -> bool {
    values.as_ref().is_none_or(|set| set.contains(&value))
}

fn overlaps(a: &Values, b: &Values) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => !a.is_disjoint(b),
        _ => true,
    }
}

/// The results of comparisons and logical operations.
fn binary(op: BinaryOp, signed: bool, left: &Values, right: &Values) -> Values {
    let bit = |can_hold: bool, can_fail: bool| {
        let bits = [(can_fail, 0), (can_hold, 1)];
        Some(bits.into_iter().filter(|(can, _)| *can).map(|(_, bit)| bit).collect())
    };
    let pairs = |holds: fn(u64, u64) -> bool| {
        let (left, right) = (left.as_ref()?, right.as_ref()?);
        let results = left.iter().flat_map(|&a| right.iter().map(move |&b| holds(a, b)));
        Some(results.map(u64::from).collect())
    };
    match op {
        BinaryOp::Eq => pairs(|a, b| a == b),
        BinaryOp::Ne => pairs(|a, b| a != b),
        BinaryOp::Lt if !signed => pairs(|a, b| a < b),
        BinaryOp::Le if !signed => pairs(|a, b| a <= b),
        BinaryOp::Gt if !signed => pairs(|a, b| a > b),
        BinaryOp::Ge if !signed => pairs(|a, b| a >= b),
        BinaryOp::And => {
            let can_fail = holds(left, 0) || holds(right, 0);
            bit(holds(left, 1) && holds(right, 1), can_fail)
        }
        BinaryOp::Or => {
            let can_fail = holds(left, 0) && holds(right, 0);
            bit(holds(left, 1) || holds(right, 1), can_fail)
        }
        BinaryOp::BitAnd => combined(left, right, |a, b| a & b),
        BinaryOp::BitOr => combined(left, right, |a, b| a | b),
        BinaryOp::BitXor => combined(left, right, |a, b| a ^ b),
        _ => None,
    }
}

fn combined(left: &Values, right: &Values, of: fn(u64, u64) -> u64) -> Values {
    let (left, right) = (left.as_ref()?, right.as_ref()?);
    Some(left.iter().flat_map(|&a| right.iter().map(move |&b| of(a, b))).collect())
}

/// Whether some of these values may match the keysets of an entry or of a case.
fn may_match(sets: &[Keyset], on: &[Values]) -> bool {
    if let [Keyset::ValueSet(_)] = sets {
        return true;
    }
    sets.iter().zip(on).all(|(set, values)| {
        let Some(values) = values else { return true };
        let one = |limbs: &[u64]| constant(limbs).and_then(|set| set.first().copied());
        match set {
            Keyset::Any | Keyset::ValueSet(_) | Keyset::Prefix { .. } => !values.is_empty(),
            Keyset::Value(limbs) => one(limbs).is_some_and(|wanted| values.contains(&wanted)),
            Keyset::Masked { value, mask } => {
                let (wanted, mask) = (value.first().copied(), mask.first().copied());
                let (wanted, mask) = (wanted.unwrap_or(0), mask.unwrap_or(0));
                values.iter().any(|value| value & mask == wanted & mask)
            }
            Keyset::Range { low, high } => {
                let (low, high) = (one(low).unwrap_or(0), one(high).unwrap_or(u64::MAX));
                values.range(low..=high.max(low)).next().is_some()
            }
        }
    })
}
