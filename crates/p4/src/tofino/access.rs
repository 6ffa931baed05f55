//! Access to registers: each packet accesses a register at most once on its way through a pipeline,
//! and all actions of a table access the same one.
//!
//! `p4c-barefoot` (9.13.4) accepts a second access, and places both in the register's stage, where
//! the ALU runs only once.

use std::collections::{BTreeMap, HashMap};

use super::Refusal;
use super::limits::short;
use crate::ir::visit::{self, Visit};
use crate::ir::{
    ActionId, Arg, Block, Expr, ExprKind, ExternCall, FieldId, Place, Program, Stmt, Table,
};
use crate::source::Span;

/// The registers accessed so far on a path, with positions.
type Touched = BTreeMap<u32, Span>;

struct Walker<'p> {
    program: &'p Program,
    calls: &'p HashMap<FieldId, Span>,
    spans: &'p [Span],
    /// States at the `return`s of the open scopes.
    returns: Vec<Vec<Touched>>,
    /// State after a table: for each of its actions, and for a hit and a miss.
    by_action: HashMap<FieldId, Vec<Option<Touched>>>,
    by_hit: HashMap<FieldId, (Option<Touched>, Option<Touched>)>,
    refusals: Vec<Refusal>,
}

/// Checks a program's controls and tables.
pub(crate) fn check(
    program: &Program,
    calls: &HashMap<FieldId, Span>,
    spans: &[Span],
) -> Vec<Refusal> {
    let mut walker = Walker {
        program,
        calls,
        spans,
        returns: Vec::new(),
        by_action: HashMap::new(),
        by_hit: HashMap::new(),
        refusals: Vec::new(),
    };
    if program.stateful.is_empty() {
        return Vec::new();
    }
    let mut gresses: BTreeMap<u32, (String, Span)> = BTreeMap::new();
    for (role, block) in &program.blocks {
        let Block::Control(id) = block else { continue };
        let body = &program.controls[id.index()].body;
        walker.scope(body, Touched::new());
        let mut all = Calls { walker: &walker, found: Vec::new(), levels: 64 };
        all.visit_body(body);
        for (register, span) in all.found {
            let known = gresses.entry(register).or_insert_with(|| (role.clone(), span));
            if known.0 != *role {
                let name = walker.name(register);
                walker.refusals.push(Refusal::new(
                    span,
                    format!(
                        "register `{name}` is touched in {role}, and in {} too: it lives in one of the two",
                        known.0
                    ),
                    "give each of the two a register of its own",
                ));
            }
        }
    }
    for table in &program.tables {
        walker.table(table);
    }
    walker.refusals
}

impl Walker<'_> {
    fn name(&self, register: u32) -> &str {
        short(&self.program.externs[register as usize].name)
    }

    /// The register that a call accesses, and the position of the call.
    fn touches(&self, call: &ExternCall) -> Option<(u32, Span)> {
        let instance = call.instance?;
        let register = self.program.stateful_action(instance)?.register;
        let span = call.args.iter().find_map(|a| match a {
            Arg::Out(Place::Field(f), _) => self.calls.get(f).copied(),
            _ => None,
        });
        Some((register.0, span.unwrap_or(self.spans[instance.index()])))
    }

    /// Runs a scope that `return` leaves. `None` if its end is unreachable.
    fn scope(&mut self, list: &[Stmt], state: Touched) -> Option<Touched> {
        self.returns.push(Vec::new());
        let end = self.stmts(list, Some(state));
        let returned = self.returns.pop().unwrap_or_default();
        returned.into_iter().map(Some).fold(end, join)
    }

    fn stmts(&mut self, list: &[Stmt], mut state: Option<Touched>) -> Option<Touched> {
        for stmt in list {
            state = self.stmt(stmt, state?);
        }
        state
    }

    fn stmt(&mut self, stmt: &Stmt, mut state: Touched) -> Option<Touched> {
        match stmt {
            Stmt::Call(call) => {
                if let Some((register, span)) = self.touches(call) {
                    if let Some(first) = state.get(&register).copied() {
                        self.twice(register, first, span);
                    }
                    state.insert(register, span);
                }
                Some(state)
            }
            Stmt::If { condition, then, otherwise } => {
                let (hit, miss) = self.after_hit(condition, &state);
                let then = self.stmts(then, hit);
                let otherwise = self.stmts(otherwise, miss);
                join(then, otherwise)
            }
            Stmt::Switch { on, cases, default } => self.switch(on, cases, default, state),
            Stmt::Apply { table, hit, action } => self.apply(table.index(), *hit, *action, state),
            Stmt::Action(id) => self.action(*id, state),
            Stmt::Block(list) => self.scope(list, state),
            Stmt::Exit => None,
            Stmt::Return => {
                if let Some(scope) = self.returns.last_mut() {
                    scope.push(state);
                }
                None
            }
            _ => Some(state),
        }
    }

    fn action(&mut self, id: ActionId, state: Touched) -> Option<Touched> {
        let program = self.program;
        self.scope(&program.actions[id.index()].body, state)
    }

    fn apply(
        &mut self,
        table: usize,
        hit: Option<FieldId>,
        action: Option<FieldId>,
        state: Touched,
    ) -> Option<Touched> {
        let program = self.program;
        let table = &program.tables[table];
        let states: Vec<Option<Touched>> =
            table.actions.iter().map(|a| self.action(a.action, state.clone())).collect();
        let default = table.default_action.action as usize;
        let (mut hits, mut misses) = (None, None);
        for (i, (offered, after)) in table.actions.iter().zip(&states).enumerate() {
            if offered.scope.in_entries() {
                hits = join(hits, after.clone());
            }
            if i == default || !table.const_default && offered.scope.as_default() {
                misses = join(misses, after.clone());
            }
        }
        if table.keys.is_empty() {
            hits = None;
        }
        let all = join(hits.clone(), misses.clone());
        if let Some(field) = hit {
            self.by_hit.insert(field, (hits, misses));
        }
        if let Some(field) = action {
            self.by_action.insert(field, states);
        }
        all
    }

    /// The states in which a condition is true and false.
    fn after_hit(
        &mut self,
        condition: &Expr,
        state: &Touched,
    ) -> (Option<Touched>, Option<Touched>) {
        match &condition.kind {
            ExprKind::Field(field) => {
                if let Some(known) = self.by_hit.remove(field) {
                    return known;
                }
            }
            ExprKind::Unary(_, inner) => {
                if let ExprKind::Field(field) = &inner.kind
                    && let Some((hit, miss)) = self.by_hit.remove(field)
                {
                    return (miss, hit);
                }
            }
            _ => {}
        }
        (Some(state.clone()), Some(state.clone()))
    }

    fn switch(
        &mut self,
        on: &Expr,
        cases: &[(Box<[u64]>, Vec<Stmt>)],
        default: &[Stmt],
        state: Touched,
    ) -> Option<Touched> {
        let states = match &on.kind {
            ExprKind::Field(field) => self.by_action.remove(field),
            _ => None,
        };
        let Some(states) = states else {
            let mut end = self.stmts(default, Some(state.clone()));
            for (_, body) in cases {
                let after = self.stmts(body, Some(state.clone()));
                end = join(end, after);
            }
            return end;
        };
        let mut end = None;
        for (i, after) in states.into_iter().enumerate() {
            let case = cases.iter().find(|(label, _)| label.first() == Some(&(i as u64)));
            let body = case.map_or(default, |(_, body)| body.as_slice());
            let after = self.stmts(body, after);
            end = join(end, after);
        }
        end
    }

    fn twice(&mut self, register: u32, first: Span, span: Span) {
        let name = self.name(register).to_owned();
        let mut refusal = Refusal::new(
            span,
            format!("a packet touches register `{name}` a second time here"),
            "a register can be touched once on each path: let one register action do both, or use a second register",
        );
        refusal.other = Some(("touched first", first));
        self.refusals.push(refusal);
    }

    /// A table has one port to stateful ALUs, so all of its actions access the same register.
    fn table(&mut self, table: &Table) {
        let mut uses: Vec<(&str, Touched)> = Vec::new();
        for offered in &table.actions {
            let action = &self.program.actions[offered.action.index()];
            let mut found = Touched::new();
            self.own(&action.body, &mut found);
            if !found.is_empty() && offered.scope.in_entries() {
                uses.push((short(&action.name), found));
            }
        }
        for (name, found) in &uses {
            let mut registers = found.iter();
            if let (Some((first, _)), Some((other, span))) = (registers.next(), registers.next()) {
                let message = format!(
                    "action `{name}` touches registers `{}` and `{}`, but a table's action has one stateful ALU",
                    self.name(*first),
                    self.name(*other)
                );
                let help = "touch each register in a table of its own, or in the `apply` block";
                self.refusals.push(Refusal::new(*span, message, help));
                return;
            }
        }
        for (name, found) in &uses {
            let missing = uses.iter().flat_map(|(other, all)| {
                all.iter()
                    .filter(|(r, _)| !found.contains_key(*r))
                    .map(move |(r, at)| (*other, *r, *at))
            });
            if let Some((other, register, span)) = missing.into_iter().next() {
                let message = format!(
                    "of table `{}`, action `{other}` touches register `{}` and action `{name}` another one instead, but a table's actions share their registers",
                    short(&table.name),
                    self.name(register)
                );
                let help = "touch each register in a table of its own, or in the `apply` block";
                self.refusals.push(Refusal::new(span, message, help));
                return;
            }
        }
    }

    /// The registers that an action's own statements access.
    fn own(&self, list: &[Stmt], out: &mut Touched) {
        for stmt in list {
            match stmt {
                Stmt::Call(call) => out.extend(self.touches(call)),
                Stmt::If { then, otherwise, .. } => {
                    self.own(then, out);
                    self.own(otherwise, out);
                }
                Stmt::Block(list) => self.own(list, out),
                _ => {}
            }
        }
    }
}

/// Collects all accesses in statements, including those of tables and actions.
struct Calls<'p> {
    walker: &'p Walker<'p>,
    found: Vec<(u32, Span)>,
    /// The levels of actions to follow. Actions do not call themselves; the bound is for invalid
    /// programs.
    levels: u32,
}

impl<'p> Calls<'p> {
    fn action(&mut self, id: ActionId) {
        let levels = self.levels;
        if levels > 0 {
            self.levels -= 1;
            self.visit_body(&self.walker.program.actions[id.index()].body);
            self.levels = levels;
        }
    }
}

impl<'p> Visit<'p> for Calls<'p> {
    fn visit_stmt(&mut self, stmt: &'p Stmt) {
        match stmt {
            Stmt::Call(call) => self.found.extend(self.walker.touches(call)),
            Stmt::Apply { table, .. } => {
                let table = &self.walker.program.tables[table.index()];
                table.actions.iter().for_each(|offered| self.action(offered.action));
            }
            Stmt::Action(id) => self.action(*id),
            _ => visit::walk_stmt(self, stmt),
        }
    }
}

/// The registers accessed on either of two paths.
fn join(a: Option<Touched>, b: Option<Touched>) -> Option<Touched> {
    match (a, b) {
        (Some(mut a), Some(b)) => {
            a.extend(b);
            Some(a)
        }
        (a, b) => a.or(b),
    }
}
