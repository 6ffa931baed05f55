//! Notes in the code for observed packets.

use tributary_p4::graph::Text;
use tributary_p4::ir::visit::{self, Visit};
use tributary_p4::ir::{
    Block, Expr, ExprKind, ExternCall, FieldId, HeaderRef, Mark, ParserId, Program, StateId, Stmt,
    Target,
};

use super::{Intrinsics, Loader};
use crate::code::Op;
use crate::slot::Item;
use crate::trace::{Event, Names, Note, Request};

/// What the code tells an observer.
#[derive(Debug, Default)]
pub(super) struct Notes {
    notes: Vec<Note>,
    branches: u32,
    /// The parser and the state that is being compiled.
    state: Option<(ParserId, StateId)>,
}

impl<'p> Loader<'p> {
    /// Adds a note, if the code is for observed packets.
    pub(super) fn note(&mut self, note: impl FnOnce() -> Note) {
        let Some(notes) = &mut self.notes else { return };
        let number = notes.notes.len() as u32;
        notes.notes.push(note());
        self.jump(Op::Note(number));
    }

    pub(super) fn note_mark(&mut self, mark: &Mark) {
        self.note(|| {
            Note::Event(match mark {
                Mark::At(position, _) => Event::At(*position),
                Mark::Enter(kind, name) => Event::Enter { kind: *kind, name: name.clone() },
                Mark::Leave => Event::Leave,
            })
        });
    }

    pub(super) fn note_call(&mut self, call: &ExternCall) {
        let program = self.program;
        self.note(|| {
            let text = Text(program).stmt(&Stmt::Call(call.clone()));
            Note::Event(Event::Call { text })
        });
    }

    /// The number of the next branch.
    pub(super) fn next_branch(&mut self) -> u32 {
        self.notes.as_mut().map_or(0, |notes| {
            notes.branches += 1;
            notes.branches - 1
        })
    }

    pub(super) fn note_condition(&mut self, branch: u32, condition: &Expr, holds: bool) {
        let program = self.program;
        self.note(|| {
            let mut reads = Reads { program, fields: Vec::new() };
            reads.visit_expr(condition);
            let text = Text(program).expr(condition);
            Note::Condition { branch, text, reads: reads.fields, holds }
        });
    }

    pub(super) fn note_switch(
        &mut self,
        branch: u32,
        on: &Expr,
        item: Item,
        case: Option<(usize, &[u64])>,
    ) {
        let program = self.program;
        self.note(|| {
            let text = Text(program);
            let label = case.map_or("default".to_owned(), |(_, value)| text.case(on, value));
            let case = case.map(|(number, _)| number);
            Note::Switch { branch, text: text.expr(on), on: item, case, label }
        });
    }

    /// Notes the start of a parser state.
    pub(super) fn note_state(&mut self, parser: ParserId, state: StateId) {
        if let Some(notes) = &mut self.notes {
            notes.state = Some((parser, state));
        }
        self.note(|| Note::Event(Event::State { parser, state }));
    }

    /// Notes a transition from the current state.
    pub(super) fn note_transition(&mut self, on: &[Item], case: Option<usize>, target: Target) {
        let at = self.notes.as_ref().and_then(|notes| notes.state);
        if let Some((parser, state)) = at {
            self.note(|| Note::Transition { parser, state, on: on.to_vec(), case, target });
        }
    }

    /// The notes, and the names that their events need.
    pub(super) fn names(&mut self) -> Option<Names> {
        let notes = self.notes.take()?.notes;
        let program = self.program;
        let fields = (0..program.fields.len() as u32).map(|field| self.item(FieldId(field)));
        let requests = match &self.intrinsics {
            Intrinsics::V1model(meta) => vec![
                (meta.clone, Request::Clone),
                (meta.clone_list, Request::CloneList),
                (meta.resubmit, Request::Resubmit),
                (meta.recirculate, Request::Recirculate),
                (meta.truncate, Request::Truncate),
                (meta.digest, Request::Digest),
                (meta.failed, Request::Drop),
            ],
            Intrinsics::Psa(meta) => vec![(meta.failed, Request::Drop)],
            // Calls of externs request everything.
            Intrinsics::Tna(_) => Vec::new(),
        };
        let name = |block: &Block| match *block {
            Block::Parser(id) => program.parsers[id.index()].name.clone(),
            Block::Control(id) => program.controls[id.index()].name.clone(),
        };
        let blocks = self.roles.iter().map(|role| {
            let block = program.block(role);
            ((*role).to_owned(), block.as_ref().map(name).unwrap_or_default())
        });
        Some(Names { notes, fields: fields.collect(), requests, blocks: blocks.collect() })
    }
}

/// Collects the fields that an expression reads, each once.
struct Reads<'p> {
    program: &'p Program,
    fields: Vec<FieldId>,
}

impl Visit<'_> for Reads<'_> {
    fn visit_expr(&mut self, expr: &Expr) {
        let field = match &expr.kind {
            ExprKind::Field(field) => Some(*field),
            ExprKind::Valid(HeaderRef::Fixed(header)) => {
                Some(self.program.headers[header.index()].valid)
            }
            ExprKind::Valid(HeaderRef::Next(stack) | HeaderRef::Last(stack)) => {
                Some(self.program.stacks[stack.index()].next_index)
            }
            _ => None,
        };
        self.fields.extend(field.filter(|field| !self.fields.contains(field)));
        visit::walk_expr(self, expr);
    }
}
