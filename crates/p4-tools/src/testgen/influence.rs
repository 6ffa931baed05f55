//! What conditions depend on, and which statements change that.
//!
//! On a path, a condition may be a constant: no bit of the packet changes it, but an entry of an
//! earlier table or an earlier packet can. [`Influence`] follows values through the program's
//! assignments, tables and registers, without executing it, so that the search tries those changes
//! first that the condition depends on.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::rc::Rc;

use tributary_p4::ir::visit::{self, Visit};
use tributary_p4::ir::{
    Arg, Expr, ExprKind, ExternCall, ExternId, FieldId, HeaderId, HeaderRef, Place, Program, Stmt,
    Target, Transition,
};

use crate::testgen::program::counted;

/// What holds a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Holder {
    Field(FieldId),
    Register(ExternId),
}

/// Holders on which a condition depends, with the number of assignments in between.
pub(crate) type Needs = HashMap<Holder, u32>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Influence {
    /// For each holder: those whose values flow into it, or decide about its assignments.
    sources: HashMap<Holder, BTreeSet<Holder>>,
    /// For the first goal of a side of a branch: what its condition reads.
    conditions: HashMap<usize, BTreeSet<Holder>>,
    /// For the first goal of a body: what its statements write.
    writes: HashMap<usize, BTreeSet<Holder>>,
    /// For each table: the fields that receive whether it hits, and with which action.
    outcomes: HashMap<u32, BTreeSet<Holder>>,
    needs: RefCell<HashMap<usize, Rc<Needs>>>,
}

impl Influence {
    /// Analyses an instrumented program. `entries` has a goal for each entry of each table.
    pub(crate) fn new(
        program: &Program,
        counter: ExternId,
        entries: &[Vec<Option<usize>>],
    ) -> Self {
        let mut flow = Flow { program, counter, of: Self::default(), within: Vec::new() };
        for parser in &program.parsers {
            for state in &parser.states {
                flow.visit_body(&state.body);
                flow.body(&state.body);
                let Transition::Select { on, cases } = &state.transition else { continue };
                let read = reads(program, on);
                for (_, target) in cases {
                    let Target::State(to) = target else { continue };
                    if let Some(goal) = flow.first(&parser.states[to.index()].body) {
                        flow.of.conditions.entry(goal).or_default().extend(&read);
                    }
                }
            }
        }
        program.controls.iter().for_each(|control| flow.visit_body(&control.body));
        program.actions.iter().for_each(|action| flow.visit_body(&action.body));
        program.stateful.iter().for_each(|action| flow.visit_body(&action.body));
        for (number, table) in program.tables.iter().enumerate() {
            let keys = reads(program, table.keys.iter().map(|key| &key.value));
            for listed in &table.actions {
                let body = &program.actions[listed.action.index()].body;
                let mut written = written(program, body);
                written.extend(self::written(program, &listed.prologue));
                for &holder in &written {
                    flow.of.sources.entry(holder).or_default().extend(&keys);
                }
                if let Some(goal) = flow.first(&listed.prologue) {
                    flow.of.writes.entry(goal).or_default().extend(written);
                    flow.of.conditions.entry(goal).or_default().extend(&keys);
                }
            }
            for &goal in entries.get(number).into_iter().flatten().flatten() {
                flow.of.conditions.insert(goal, keys.clone());
            }
        }
        flow.of
    }

    /// What the condition before a goal depends on.
    pub(crate) fn needs(&self, goal: usize) -> Rc<Needs> {
        if let Some(known) = self.needs.borrow().get(&goal) {
            return Rc::clone(known);
        }
        let mut needs = Needs::new();
        let first = self.conditions.get(&goal).into_iter().flatten();
        let mut waiting: VecDeque<(Holder, u32)> = first.map(|&holder| (holder, 0)).collect();
        while let Some((holder, distance)) = waiting.pop_front() {
            if needs.contains_key(&holder) {
                continue;
            }
            needs.insert(holder, distance);
            let sources = self.sources.get(&holder).into_iter().flatten();
            waiting.extend(sources.map(|&source| (source, distance + 1)));
        }
        let needs = Rc::new(needs);
        self.needs.borrow_mut().insert(goal, Rc::clone(&needs));
        needs
    }

    /// How near the statements of a body, by its first goal, come to what is needed.
    pub(crate) fn of_body(&self, goal: usize, needed: &Needs) -> Option<u32> {
        nearest(self.writes.get(&goal)?, needed)
    }

    /// How near the outcome of a table comes to what is needed.
    pub(crate) fn of_table(&self, table: u32, needed: &Needs) -> Option<u32> {
        nearest(self.outcomes.get(&table)?, needed)
    }
}

fn nearest(written: &BTreeSet<Holder>, needed: &Needs) -> Option<u32> {
    written.iter().filter_map(|holder| needed.get(holder)).min().copied()
}

/// Collects how values flow.
struct Flow<'p> {
    program: &'p Program,
    counter: ExternId,
    of: Influence,
    /// What the conditions around a statement read.
    within: Vec<BTreeSet<Holder>>,
}

impl<'p> Flow<'p> {
    fn first(&self, body: &[Stmt]) -> Option<usize> {
        body.first().and_then(|statement| counted(statement, self.counter))
    }

    /// Notes what a body writes.
    fn body(&mut self, body: &'p [Stmt]) {
        if let Some(goal) = self.first(body) {
            self.of.writes.entry(goal).or_default().extend(written(self.program, body));
        }
    }

    /// A side of a branch.
    fn side(&mut self, body: &'p [Stmt], read: &BTreeSet<Holder>) {
        if let Some(goal) = self.first(body) {
            self.of.conditions.entry(goal).or_default().extend(read);
        }
        self.body(body);
        self.within.push(read.clone());
        self.visit_body(body);
        self.within.pop();
    }

    fn assign(&mut self, to: impl IntoIterator<Item = Holder>, from: &BTreeSet<Holder>) {
        for holder in to {
            let sources = self.of.sources.entry(holder).or_default();
            sources.extend(from);
            self.within.iter().for_each(|read| sources.extend(read));
        }
    }

    fn call(&mut self, call: &'p ExternCall) {
        let mut from = BTreeSet::new();
        for arg in &call.args {
            match arg {
                Arg::In(value) => from.extend(reads(self.program, [value])),
                Arg::List(values) => from.extend(reads(self.program, values)),
                _ => {}
            }
        }
        let mut to = BTreeSet::new();
        call_writes(self.program, call, &mut to);
        let register = register_of(self.program, call);
        self.assign(to.iter().copied(), &from);
        if let Some((register, body)) = register {
            let held: BTreeSet<Holder> = [register].into();
            self.assign(to.into_iter().filter(|&holder| holder != register), &held);
            if let Some(action) = body {
                let value: BTreeSet<Holder> =
                    action.value.iter().map(|&field| Holder::Field(field)).collect();
                self.assign(value.iter().copied(), &held);
                self.assign([register], &value);
                let result: BTreeSet<Holder> =
                    action.result.map(Holder::Field).into_iter().collect();
                for arg in &call.args {
                    if let Arg::Out(place, _) = arg {
                        self.assign(place_fields(self.program, place), &result);
                    }
                }
            }
        }
    }
}

impl<'p> Visit<'p> for Flow<'p> {
    fn visit_stmt(&mut self, statement: &'p Stmt) {
        let program = self.program;
        match statement {
            Stmt::Assign(place, value) => {
                self.assign(place_fields(program, place), &reads(program, [value]));
            }
            Stmt::CopyHeader { to, from } => {
                let from = headers(program, from).into_iter().flat_map(|id| parts(program, id));
                let from = from.collect();
                for id in headers(program, to) {
                    self.assign(parts(program, id), &from);
                }
            }
            Stmt::SetValid(header) | Stmt::SetInvalid(header) | Stmt::Displace(header) => {
                for id in headers(program, header) {
                    self.assign(parts(program, id), &BTreeSet::new());
                }
            }
            Stmt::If { condition, then, otherwise } => {
                let read = reads(program, [condition]);
                self.side(then, &read);
                self.side(otherwise, &read);
            }
            Stmt::Switch { on, cases, default } => {
                let read = reads(program, [on]);
                cases.iter().for_each(|(_, body)| self.side(body, &read));
                self.side(default, &read);
            }
            Stmt::Apply { table, hit, action } => {
                let outcome: Vec<Holder> =
                    hit.iter().chain(action).map(|&field| Holder::Field(field)).collect();
                let keys = program.tables[table.index()].keys.iter().map(|key| &key.value);
                self.assign(outcome.iter().copied(), &reads(program, keys));
                self.of.outcomes.entry(table.0).or_default().extend(outcome);
            }
            Stmt::Call(call) => self.call(call),
            _ => visit::walk_stmt(self, statement),
        }
    }

    /// Only statements assign.
    fn visit_expr(&mut self, _: &'p Expr) {}
}

/// What statements write, with the actions and tables that they run.
fn written(program: &Program, body: &[Stmt]) -> BTreeSet<Holder> {
    let mut all = Written { program, holders: BTreeSet::new(), seen: HashSet::new() };
    all.visit_body(body);
    all.holders
}

struct Written<'a> {
    program: &'a Program,
    holders: BTreeSet<Holder>,
    /// Actions and tables that have been visited.
    seen: HashSet<(bool, u32)>,
}

impl Visit<'_> for Written<'_> {
    fn visit_stmt(&mut self, statement: &Stmt) {
        let program = self.program;
        match statement {
            Stmt::Assign(place, _) => self.holders.extend(place_fields(program, place)),
            Stmt::CopyHeader { to: header, .. }
            | Stmt::SetValid(header)
            | Stmt::SetInvalid(header)
            | Stmt::Displace(header)
            | Stmt::Extract { header, .. } => {
                let all = headers(program, header).into_iter().flat_map(|id| parts(program, id));
                self.holders.extend(all);
            }
            Stmt::Action(id) if self.seen.insert((false, id.0)) => {
                self.visit_body(&program.actions[id.index()].body);
            }
            Stmt::Apply { table, hit, action } => {
                self.holders.extend(hit.iter().chain(action).map(|&field| Holder::Field(field)));
                if self.seen.insert((true, table.0)) {
                    for listed in &program.tables[table.index()].actions {
                        self.visit_body(&listed.prologue);
                        if self.seen.insert((false, listed.action.0)) {
                            self.visit_body(&program.actions[listed.action.index()].body);
                        }
                    }
                }
            }
            Stmt::Call(call) => call_writes(program, call, &mut self.holders),
            _ => visit::walk_stmt(self, statement),
        }
    }

    fn visit_expr(&mut self, _: &Expr) {}
}

/// What a call of an extern writes.
fn call_writes(program: &Program, call: &ExternCall, holders: &mut BTreeSet<Holder>) {
    for arg in &call.args {
        match arg {
            Arg::Out(place, _) => holders.extend(place_fields(program, place)),
            Arg::Copy(fields) => {
                holders.extend(fields.iter().map(|&(_, field)| Holder::Field(field)));
            }
            _ => {}
        }
    }
    if let Some((register, _)) = register_of(program, call).filter(|_| call.method != "read") {
        holders.insert(register);
    }
}

/// The register that a call accesses, and the stateful action that does it.
fn register_of<'p>(
    program: &'p Program,
    call: &ExternCall,
) -> Option<(Holder, Option<&'p tributary_p4::ir::StatefulAction>)> {
    let id = call.instance?;
    if let Some(action) = program.stateful_action(id) {
        return Some((Holder::Register(action.register), Some(action)));
    }
    let is_register = program.externs[id.index()].type_name == "register";
    is_register.then_some((Holder::Register(id), None))
}

fn place_fields(program: &Program, place: &Place) -> Vec<Holder> {
    match place {
        Place::Field(field) | Place::Slice(field, ..) => vec![Holder::Field(*field)],
        Place::Element(stack, _, position) => {
            let elements = program.stacks[stack.index()].elements.iter();
            let field =
                |id: &HeaderId| program.headers[id.index()].fields.get(*position as usize).copied();
            elements.filter_map(field).map(Holder::Field).collect()
        }
    }
}

fn headers(program: &Program, header: &HeaderRef) -> Vec<HeaderId> {
    match header {
        HeaderRef::Fixed(id) => vec![*id],
        HeaderRef::Next(stack) | HeaderRef::Last(stack) | HeaderRef::Index(stack, _) => {
            program.stacks[stack.index()].elements.clone()
        }
    }
}

/// The fields of a header, and its validity.
fn parts(program: &Program, id: HeaderId) -> Vec<Holder> {
    let header = &program.headers[id.index()];
    header.fields.iter().copied().chain([header.valid]).map(Holder::Field).collect()
}

/// What expressions read.
fn reads<'e>(program: &Program, exprs: impl IntoIterator<Item = &'e Expr>) -> BTreeSet<Holder> {
    struct Reads<'a>(&'a Program, BTreeSet<Holder>);
    impl Visit<'_> for Reads<'_> {
        fn visit_expr(&mut self, expr: &Expr) {
            match &expr.kind {
                ExprKind::Field(field) => {
                    self.1.insert(Holder::Field(*field));
                }
                ExprKind::Valid(header) => {
                    let valid = |id: HeaderId| Holder::Field(self.0.headers[id.index()].valid);
                    self.1.extend(headers(self.0, header).into_iter().map(valid));
                }
                ExprKind::Element(stack, _, position) => {
                    let elements = &self.0.stacks[stack.index()].elements;
                    let field = |id: &HeaderId| {
                        self.0.headers[id.index()].fields.get(*position as usize).copied()
                    };
                    self.1.extend(elements.iter().filter_map(field).map(Holder::Field));
                }
                _ => {}
            }
            visit::walk_expr(self, expr);
        }
    }
    let mut all = Reads(program, BTreeSet::new());
    exprs.into_iter().for_each(|expr| all.visit_expr(expr));
    all.1
}
