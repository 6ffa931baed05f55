//! The values that a parser's decisions depend on, and the slots in which the dissector keeps them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use tributary_p4::ir::visit::{self, Visit};
use tributary_p4::ir::{
    Arg, Expr, ExprKind, ExternCall, FieldId, HeaderId, HeaderRef, Keyset, Parser, Place, Program,
    StackId, Stmt, Transition,
};

use crate::dissector::lua::{self, NUMBER_BITS};

/// Fields of v1model's metadata that a parser can read and a packet does not tell.
const V1MODEL_UNKNOWN: [&str; 2] = ["ingress_port", "ingress_global_timestamp"];

/// Those of TNA.
const TNA_UNKNOWN: [&str; 3] =
    ["ig_intr_md.ingress_port", "ig_intr_md.ingress_mac_tstamp", "ig_prsr_md.global_tstamp"];

/// Those of PSA. The path of a packet from outside is zero, `NORMAL`.
const PSA_UNKNOWN: [&str; 1] = ["ingress_parser_input.ingress_port"];

/// The metadata field of v1model that holds the length of the packet in bytes.
const PACKET_LENGTH: &str = "packet_length";

/// What the dissector keeps while it follows a parser.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Slot of each field that a decision depends on, from 1 on.
    slots: BTreeMap<FieldId, usize>,
    /// Fields whose values are not in the packet, with their names.
    unknown: BTreeMap<FieldId, String>,
}

impl Plan {
    pub(crate) fn new(program: &Program, parser: &Parser) -> Self {
        let mut needs = Needs { program, fields: BTreeSet::new() };
        // What an assignment needs is known when its target is needed, so repeat until nothing is
        // added.
        loop {
            let before = needs.fields.len();
            for state in &parser.states {
                needs.any(&state.body);
                needs.transition(&state.transition);
            }
            if needs.fields.len() == before {
                break;
            }
        }
        let slots = needs.fields.into_iter().zip(1..).collect();
        let unknown = V1MODEL_UNKNOWN.iter().chain(&TNA_UNKNOWN).chain(&PSA_UNKNOWN);
        let unknown = unknown.filter_map(|name| {
            program.intrinsic_field(name).map(|field| (field, (*name).to_owned()))
        });
        Self { slots, unknown: unknown.collect() }
    }

    /// The slot of a field, if a decision depends on it.
    pub(crate) fn slot(&self, field: FieldId) -> Option<usize> {
        self.slots.get(&field).copied()
    }

    /// The name of a field whose value is not in the packet.
    pub(crate) fn unknown(&self, field: FieldId) -> Option<&str> {
        self.unknown.get(&field).map(String::as_str)
    }

    /// Whether a statement can change what the dissector shows.
    pub(crate) fn matters(&self, program: &Program, stmt: &Stmt) -> bool {
        Needs { program, fields: self.slots.keys().copied().collect() }.stmt(stmt)
    }

    /// The function that makes the values at the start of a packet.
    pub(crate) fn initial_values(&self, program: &Program) -> String {
        let length = program.intrinsic_field(PACKET_LENGTH);
        let mut text = String::from("\ninitial_values = function(packet_length)\n  local v = {}\n");
        for (field, slot) in &self.slots {
            let width = program.fields[field.index()].ty.width;
            let value = match width {
                _ if Some(*field) == length => "packet_length".to_owned(),
                ..=NUMBER_BITS => "0".to_owned(),
                _ => format!("(\"0\"):rep({width})"),
            };
            let name = lua::comment(&program.fields[field.index()].name);
            let _ = writeln!(text, "  v[{slot}] = {value} -- {name}");
        }
        text.push_str("  return v\nend\n");
        text
    }
}

/// The headers to which a reference can lead.
pub(crate) fn candidates(program: &Program, header: &HeaderRef) -> Vec<HeaderId> {
    match header {
        HeaderRef::Fixed(id) => vec![*id],
        HeaderRef::Next(stack) | HeaderRef::Last(stack) | HeaderRef::Index(stack, _) => {
            program.stacks[stack.index()].elements.clone()
        }
    }
}

/// The field at a position of each element of a stack. The position after the last field is the length
/// of the varbit.
pub(crate) fn elements(program: &Program, stack: StackId, at: u32) -> Vec<FieldId> {
    let headers = program.stacks[stack.index()].elements.iter();
    let field = |id: &HeaderId| {
        let header = &program.headers[id.index()];
        let length = header.varbit.map(|(_, length)| length);
        header.fields.iter().copied().chain(length).nth(at as usize)
    };
    headers.filter_map(field).collect()
}

/// Collects the fields that decisions depend on.
struct Needs<'p> {
    program: &'p Program,
    fields: BTreeSet<FieldId>,
}

impl Needs<'_> {
    fn needs(&self, field: FieldId) -> bool {
        self.fields.contains(&field)
    }

    /// Whether a decision depends on a field of a header, or on its validity.
    fn needs_header(&self, id: HeaderId) -> bool {
        let header = &self.program.headers[id.index()];
        let length = header.varbit.map(|(_, length)| length);
        let mut all = header.fields.iter().copied().chain([header.valid]).chain(length);
        all.any(|field| self.needs(field))
    }

    fn needs_headers(&self, header: &HeaderRef) -> bool {
        candidates(self.program, header).into_iter().any(|id| self.needs_header(id))
    }

    fn needs_place(&self, place: &Place) -> bool {
        match place {
            Place::Field(field) | Place::Slice(field, ..) => self.needs(*field),
            Place::Element(stack, _, at) => {
                elements(self.program, *stack, *at).into_iter().any(|field| self.needs(field))
            }
        }
    }

    fn transition(&mut self, transition: &Transition) {
        let Transition::Select { on, cases } = transition else { return };
        for (at, value) in on.iter().enumerate() {
            let compared =
                |keysets: &[Keyset]| !matches!(keysets.get(at), None | Some(Keyset::Any));
            if cases.iter().any(|(keysets, _)| compared(keysets)) {
                self.visit_expr(value);
            }
        }
    }

    /// Visits all statements. Returns whether one of them matters.
    fn any(&mut self, stmts: &[Stmt]) -> bool {
        stmts.iter().fold(false, |any, stmt| self.stmt(stmt) | any)
    }

    /// Whether a statement matters: it moves on in the packet, leaves a scope, or changes a value that
    /// is needed. If so, notes what it reads.
    fn stmt(&mut self, stmt: &Stmt) -> bool {
        match stmt {
            Stmt::Assign(place, value) => {
                let matters = self.needs_place(place);
                if matters {
                    if let Place::Element(_, index, _) = place {
                        self.visit_expr(index);
                    }
                    self.visit_expr(value);
                }
                matters
            }
            Stmt::CopyHeader { to, from } => {
                let matters = self.needs_headers(to);
                if matters && let (HeaderRef::Fixed(to), HeaderRef::Fixed(from)) = (to, from) {
                    let pairs: Vec<_> = copied(self.program, *to, *from).collect();
                    for (to, from) in pairs {
                        if self.needs(to) {
                            self.fields.insert(from);
                        }
                    }
                }
                matters
            }
            Stmt::SetValid(header) => {
                let matters = self.needs_headers(header);
                if matters {
                    // It sets the fields of an invalid header to zero.
                    let headers = candidates(self.program, header).into_iter();
                    let valid = headers.map(|id| self.program.headers[id.index()].valid);
                    self.fields.extend(valid);
                }
                matters
            }
            Stmt::SetInvalid(header) | Stmt::Displace(header) => self.needs_headers(header),
            Stmt::PushFront(stack, _) | Stmt::PopFront(stack, _) => {
                let stack = &self.program.stacks[stack.index()];
                self.needs(stack.next_index)
                    || stack.elements.iter().any(|id| self.needs_header(*id))
            }
            Stmt::If { condition, then, otherwise } => {
                let matters = self.any(then) | self.any(otherwise);
                if matters {
                    self.visit_expr(condition);
                }
                matters
            }
            Stmt::Switch { on, cases, default } => {
                let matters = cases.iter().fold(false, |any, (_, body)| self.any(body) | any);
                let matters = self.any(default) | matters;
                if matters {
                    self.visit_expr(on);
                }
                matters
            }
            Stmt::Call(call) => outputs(call).any(|place| self.needs_place(place)),
            Stmt::Extract { header, varbit_bits } => {
                self.visit_header(header);
                varbit_bits.iter().for_each(|bits| self.visit_expr(bits));
                true
            }
            Stmt::Advance(bits) => {
                self.visit_expr(bits);
                true
            }
            Stmt::Verify { condition, .. } => {
                self.visit_expr(condition);
                true
            }
            Stmt::Block(body) | Stmt::Loop(_, body) | Stmt::Labelled(_, body) => self.any(body),
            Stmt::Mark(_) => false,
            Stmt::Lookahead(_)
            | Stmt::Exit
            | Stmt::Return
            | Stmt::Leave(_)
            | Stmt::Apply { .. }
            | Stmt::Action(_)
            | Stmt::Emit(_) => true,
        }
    }
}

/// Notes what a value reads.
impl Visit<'_> for Needs<'_> {
    fn visit_expr(&mut self, value: &Expr) {
        match &value.kind {
            ExprKind::Field(field) => drop(self.fields.insert(*field)),
            ExprKind::Valid(header) => {
                for id in candidates(self.program, header) {
                    self.fields.insert(self.program.headers[id.index()].valid);
                }
            }
            ExprKind::Element(stack, _, at) => {
                self.fields.extend(elements(self.program, *stack, *at));
            }
            _ => {}
        }
        visit::walk_expr(self, value);
    }

    fn visit_header(&mut self, header: &HeaderRef) {
        if let HeaderRef::Next(stack) | HeaderRef::Last(stack) = header {
            self.fields.insert(self.program.stacks[stack.index()].next_index);
        }
        visit::walk_header(self, header);
    }
}

/// The fields that a copy of a header writes, each with the field that it reads.
pub(crate) fn copied(
    program: &Program,
    to: HeaderId,
    from: HeaderId,
) -> impl Iterator<Item = (FieldId, FieldId)> {
    let all = |id: HeaderId| {
        let header = &program.headers[id.index()];
        let length = header.varbit.map(|(_, length)| length);
        header.fields.iter().copied().chain([header.valid]).chain(length)
    };
    all(to).zip(all(from))
}

/// The places that a call writes to.
pub(crate) fn outputs(call: &ExternCall) -> impl Iterator<Item = &Place> {
    call.args.iter().filter_map(|arg| match arg {
        Arg::Out(place, _) => Some(place),
        _ => None,
    })
}
