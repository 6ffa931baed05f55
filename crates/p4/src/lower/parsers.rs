//! Parsers: a graph of states, with sub-parsers inlined.

use std::collections::HashMap;
use std::rc::Rc;

use super::calls::{BlockInstance, Frame};
use super::store::Loc;
use super::{Binding, Lowerer, Value};
use crate::hir::{self, Callee, DeclId, ExprKind, StmtKind};
use crate::ir::{self, ParserId, State, StateId, Stmt, Target, Transition};
use crate::types::{BlockKind, Type};

/// The states of the parser that is being built.
#[derive(Default)]
struct Graph {
    states: Vec<State>,
}

impl Graph {
    fn add(&mut self, name: String) -> StateId {
        let id = StateId(self.states.len() as u32);
        self.states.push(State {
            name,
            body: Vec::new(),
            transition: Transition::To(Target::Reject),
        });
        id
    }

    fn finish(&mut self, id: StateId, body: Vec<Stmt>, transition: Transition) {
        let state = &mut self.states[id.index()];
        state.body = body;
        state.transition = transition;
    }
}

impl Lowerer<'_, '_> {
    /// A parser that the package names.
    pub(super) fn top_parser(
        &mut self,
        instance: &Rc<BlockInstance>,
        bindings: HashMap<DeclId, Binding>,
    ) -> ParserId {
        let frame = Frame { bindings, ..Frame::default() };
        let mut graph = Graph::default();
        // State names do not include the parser's name.
        let entry = graph.add("start".to_owned());
        let outer = std::mem::take(&mut self.out);
        let start = self.parser_block(instance, frame, Vec::new(), Target::Accept, "", &mut graph);
        let init = std::mem::replace(&mut self.out, outer);
        if init.is_empty() {
            // `start` must come first, so move it to the reserved place.
            let real = graph.states[start.index()].clone();
            graph.states[entry.index()] = real;
            redirect(&mut graph.states, start, entry);
            remove(&mut graph.states, start);
        } else {
            graph.finish(entry, init, Transition::To(Target::State(start)));
        }
        let id = ParserId(self.program.parsers.len() as u32);
        self.program
            .parsers
            .push(ir::Parser { name: instance.block.name.to_string(), states: graph.states });
        id
    }

    /// Lowers a parser's states, and emits the initialisation of its variables. Returns the start
    /// state.
    fn parser_block(
        &mut self,
        instance: &Rc<BlockInstance>,
        frame: Frame,
        copied: Vec<DeclId>,
        accept: Target,
        path: &str,
        graph: &mut Graph,
    ) -> StateId {
        let block = instance.block.clone();
        let known = instance.frame.borrow().is_some();
        let mut bindings = frame.bindings.clone();
        let outer = self.enter(instance, frame);
        self.note_sites(&block);
        self.locals(&block, known, &mut bindings);
        self.reporter.work(block.states.len() as u64 * (1 + path.len() as u64 / 32));
        let ids: Vec<StateId> =
            block.states.iter().map(|s| graph.add(format!("{path}{}", s.name))).collect();
        for (state, id) in block.states.iter().zip(&ids) {
            self.state(state, *id, &ids, accept, path, graph);
        }
        self.leave(instance, outer, bindings, copied);
        ids.get(block.start).copied().unwrap_or(StateId(0))
    }

    fn state(
        &mut self,
        state: &hir::State,
        id: StateId,
        ids: &[StateId],
        accept: Target,
        path: &str,
        graph: &mut Graph,
    ) {
        let outer = std::mem::take(&mut self.out);
        self.mark_at(state.span);
        let current =
            self.parser_statements(&state.body, id, &format!("{path}{}", state.name), path, graph);
        let target = |t: hir::Target| match t {
            hir::Target::Accept => accept,
            hir::Target::Reject => Target::Reject,
            hir::Target::State(i) => Target::State(ids[i]),
        };
        let transition = match &state.transition {
            hir::Transition::To(t) => Transition::To(target(*t)),
            hir::Transition::Select { on, cases } => {
                if let Some(first) = on.first() {
                    self.mark_at(first.span);
                }
                let values = self.operands(on);
                let mut list = Vec::with_capacity(on.len());
                for (value, e) in values.into_iter().zip(on) {
                    list.push(match value {
                        _ if e.ty.is_empty() => super::build::boolean(false),
                        Value::Scalar(e) | Value::Symbol { code: e, .. } => e,
                        Value::Loc(loc) => {
                            self.read(&loc).unwrap_or_else(|| super::build::boolean(false))
                        }
                        _ => {
                            if !matches!(e.ty, Type::Unknown) {
                                self.unsupported(e.span, "selecting on this is");
                            }
                            super::build::boolean(false)
                        }
                    });
                }
                let cases = cases.iter().filter_map(|(sets, t)| {
                    let mut lowered = Vec::with_capacity(sets.len());
                    for (set, e) in sets.iter().zip(&list) {
                        let keyset = self.keyset(set, e.ty)?;
                        self.note_constant(set, &keyset, &e.kind);
                        lowered.push(keyset);
                    }
                    Some((lowered, target(*t)))
                });
                let cases = cases.collect();
                Transition::Select { on: list, cases }
            }
        };
        let body = std::mem::replace(&mut self.out, outer);
        graph.finish(current, body, transition);
    }

    /// Lowers a state's statements into the state `current` and additional states for sub-parsers.
    /// Returns the state that continues after them.
    fn parser_statements(
        &mut self,
        list: &[hir::Stmt],
        mut current: StateId,
        name: &str,
        path: &str,
        graph: &mut Graph,
    ) -> StateId {
        for s in list {
            if let Some((sub, site, args)) = self.sub_parser(s) {
                let (frame, bound) = self.bind_block(&sub, site, args);
                self.reporter.work(1 + name.len() as u64 / 32);
                let after = graph.add(format!("{name}.after"));
                let local = sub.name.rsplit('.').next().unwrap_or(&sub.name);
                let inner = format!("{path}{local}.");
                let accept = Target::State(after);
                let start = self
                    .deeper(|l| l.parser_block(&sub, frame, bound.copied, accept, &inner, graph));
                let body = std::mem::take(&mut self.out);
                graph.finish(current, body, Transition::To(Target::State(start)));
                current = after;
                for (to, from, ty) in &bound.copy_outs {
                    self.assign(to, Value::Loc(Loc::Store(from.clone())), ty);
                }
                continue;
            }
            match &s.kind {
                StmtKind::Block(list) if self.applies_parser(list) => {
                    current = self.parser_statements(list, current, name, path, graph);
                }
                StmtKind::If(condition, then, otherwise)
                    if self.applies_parser(then) || self.applies_parser(otherwise) =>
                {
                    let condition = self.scalar(condition);
                    let [yes, no, after] =
                        ["then", "else", "after"].map(|which| graph.add(format!("{name}.{which}")));
                    let body = std::mem::take(&mut self.out);
                    let cases = vec![
                        (vec![ir::Keyset::Value(Box::new([1]))], Target::State(yes)),
                        (vec![ir::Keyset::Any], Target::State(no)),
                    ];
                    graph.finish(current, body, Transition::Select { on: vec![condition], cases });
                    for (start, branch) in [(yes, then), (no, otherwise)] {
                        let end = self.parser_statements(branch, start, name, path, graph);
                        let body = std::mem::take(&mut self.out);
                        graph.finish(end, body, Transition::To(Target::State(after)));
                    }
                    current = after;
                }
                _ => self.statement(s),
            }
        }
        current
    }

    /// Whether a parser is applied among the statements.
    fn applies_parser(&self, list: &[hir::Stmt]) -> bool {
        list.iter().any(|s| match &s.kind {
            StmtKind::Call(e) => match &e.kind {
                ExprKind::Call(call) => match &call.target {
                    Callee::Block { instance } => match self.vars.get(instance) {
                        Some(Binding::Block(b)) => b.block.kind == BlockKind::Parser,
                        _ => false,
                    },
                    Callee::Direct { block, .. } => block.kind == BlockKind::Parser,
                    _ => false,
                },
                _ => false,
            },
            StmtKind::Block(list) => self.applies_parser(list),
            StmtKind::If(_, then, otherwise) => {
                self.applies_parser(then) || self.applies_parser(otherwise)
            }
            _ => false,
        })
    }

    /// The parser that a statement applies, if any.
    fn sub_parser<'s>(
        &mut self,
        s: &'s hir::Stmt,
    ) -> Option<(Rc<BlockInstance>, DeclId, &'s [hir::CallArg])> {
        let StmtKind::Call(e) = &s.kind else { return None };
        let ExprKind::Call(call) = &e.kind else { return None };
        let (instance, site) = match &call.target {
            Callee::Block { instance } => match self.vars.get(instance) {
                Some(Binding::Block(b)) => (b.clone(), *instance),
                _ => return None,
            },
            Callee::Direct { site, block } => (self.direct_instance(*site, block), *site),
            _ => return None,
        };
        (instance.block.kind == BlockKind::Parser).then_some((instance, site, &call.args))
    }
}

fn targets(states: &mut [State], mut f: impl FnMut(&mut StateId)) {
    for state in states {
        match &mut state.transition {
            Transition::To(Target::State(id)) => f(id),
            Transition::To(_) => {}
            Transition::Select { cases, .. } => {
                for (_, target) in cases {
                    if let Target::State(id) = target {
                        f(id);
                    }
                }
            }
        }
    }
}

/// Redirects all transitions from `from` to `to`.
fn redirect(states: &mut [State], from: StateId, to: StateId) {
    targets(states, |id| {
        if *id == from {
            *id = to;
        }
    });
}

/// Removes an unreachable state.
fn remove(states: &mut Vec<State>, id: StateId) {
    states.remove(id.index());
    targets(states, |target| {
        if *target > id {
            target.0 -= 1;
        }
    });
}
