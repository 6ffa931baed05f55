//! The states of a parser as Lua functions. Each returns the number of the next state, or zero where
//! the parser accepts.

use std::fmt::Write as _;

use tributary_p4::ir::{
    Expr, ExternCall, FieldId, HeaderId, HeaderRef, Keyset, Parser, Place, Program, Scalar,
    StateId, Stmt, Target, Transition,
};

use crate::dissector::expr::{Gap, Translator, ordered};
use crate::dissector::lua::{self, NUMBER_BITS};
use crate::dissector::plan::{Plan, candidates, copied, outputs};

/// Translates all states. Also returns where the dissector stops early, and why.
pub(crate) fn translate(program: &Program, parser: &Parser, plan: &Plan) -> (String, Vec<String>) {
    let mut all = States {
        translator: Translator { program, plan },
        text: String::new(),
        state: String::new(),
        scope: None,
        scopes: 0,
        gaps: Vec::new(),
    };
    for (number, state) in parser.states.iter().enumerate() {
        all.state.clone_from(&state.name);
        let comment = lua::comment(&state.name);
        let _ = writeln!(all.text, "\nstates[{}] = function(p, v) -- {comment}", number + 1);
        all.stmts(&state.body, 1);
        all.transition(&state.transition);
        all.text.push_str("end\n");
    }
    (all.text, all.gaps)
}

struct States<'p> {
    translator: Translator<'p>,
    text: String,
    /// Name of the state that is being translated.
    state: String,
    /// The block that a return leaves, and the number of blocks so far.
    scope: Option<u32>,
    scopes: u32,
    gaps: Vec<String>,
}

impl States<'_> {
    fn program(&self) -> &Program {
        self.translator.program
    }

    fn line(&mut self, depth: usize, line: &str) {
        let _ = writeln!(self.text, "{:1$}{line}", "", 2 * depth);
    }

    /// Emits a line, or a stop if it cannot be expressed.
    fn attempt(&mut self, depth: usize, line: Result<String, Gap>) {
        match line {
            Ok(line) => self.line(depth, &line),
            Err(gap) => self.stop(depth, &gap),
        }
    }

    /// Ends the dissection because of a gap.
    fn stop(&mut self, depth: usize, Gap(reason): &Gap) {
        let why = format!("state `{}` depends on {reason}", self.state);
        self.line(depth, &format!("stop(p, {})", lua::string(&why)));
        self.gaps.push(why);
    }

    fn stmts(&mut self, stmts: &[Stmt], depth: usize) {
        stmts.iter().for_each(|stmt| self.stmt(stmt, depth));
    }

    fn stmt(&mut self, stmt: &Stmt, depth: usize) {
        let Translator { program, plan } = self.translator;
        if !plan.matters(program, stmt) {
            return;
        }
        match stmt {
            Stmt::Assign(place, value) => {
                let line = self.translator.value(value).and_then(|value| self.store(place, &value));
                self.attempt(depth, line);
            }
            Stmt::CopyHeader { to: HeaderRef::Fixed(to), from: HeaderRef::Fixed(from) } => {
                self.copy_header(*to, *from, depth);
            }
            Stmt::SetValid(HeaderRef::Fixed(id)) => self.set_valid(*id, depth),
            Stmt::SetInvalid(HeaderRef::Fixed(id)) | Stmt::Displace(HeaderRef::Fixed(id)) => {
                if let Some(slot) = plan.slot(self.header(*id).valid) {
                    self.line(depth, &format!("v[{slot}] = 0"));
                }
            }
            Stmt::If { condition, then, otherwise } => {
                self.conditional(condition, then, otherwise, depth);
            }
            Stmt::Switch { on, cases, default } => self.switch(on, cases, default, depth),
            Stmt::Call(call) => {
                let gap = self.extern_result(call);
                self.stop(depth, &gap);
            }
            Stmt::Extract { header, varbit_bits } => {
                self.extract(header, varbit_bits.as_ref(), depth);
            }
            Stmt::Lookahead(fields) => {
                let line = self.look_ahead(fields);
                self.line(depth, &line);
            }
            Stmt::Advance(bits) => {
                let line = self.number(bits).map(|bits| format!("advance(p, {bits})"));
                self.attempt(depth, line);
            }
            Stmt::Verify { condition, error } => {
                let line = self.translator.condition(condition).map(|condition| {
                    let error = lua::string(&self.error_name(error));
                    format!("if not ({condition}) then stop(p, {error}) end")
                });
                self.attempt(depth, line);
            }
            Stmt::Block(body) => self.block(body, depth),
            Stmt::Labelled(label, body) => {
                self.line(depth, "do");
                self.stmts(body, depth + 1);
                self.line(depth, "end");
                self.line(depth, &format!("::leave_{}::", label.0));
            }
            Stmt::Loop(label, body) => {
                self.line(depth, "while true do");
                self.line(depth + 1, "step(p)");
                self.stmts(body, depth + 1);
                self.line(depth, "end");
                self.line(depth, &format!("::leave_{}::", label.0));
            }
            Stmt::Leave(label) => self.line(depth, &format!("goto leave_{}", label.0)),
            Stmt::Mark(_) => {}
            Stmt::CopyHeader { .. }
            | Stmt::SetValid(_)
            | Stmt::SetInvalid(_)
            | Stmt::Displace(_)
            | Stmt::PushFront(..)
            | Stmt::PopFront(..) => {
                let gap = "an operation on an element of a header stack, which is not translated";
                self.stop(depth, &Gap(gap.into()));
            }
            Stmt::Return => match self.scope {
                Some(scope) => self.line(depth, &format!("goto return_{scope}")),
                None => self.stop(depth, &Gap("a return, which is not translated".into())),
            },
            Stmt::Exit | Stmt::Apply { .. } | Stmt::Action(_) | Stmt::Emit(_) => {
                let gap = "a statement that is not translated";
                self.stop(depth, &Gap(gap.into()));
            }
        }
    }

    fn conditional(&mut self, condition: &Expr, then: &[Stmt], otherwise: &[Stmt], depth: usize) {
        match self.translator.condition(condition) {
            Err(gap) => self.stop(depth, &gap),
            Ok(condition) => {
                self.line(depth, &format!("if {condition} then"));
                self.stmts(then, depth + 1);
                self.line(depth, "else");
                self.stmts(otherwise, depth + 1);
                self.line(depth, "end");
            }
        }
    }

    fn switch(
        &mut self,
        on: &Expr,
        cases: &[(Box<[u64]>, Vec<Stmt>)],
        default: &[Stmt],
        depth: usize,
    ) {
        let width = on.ty.width;
        match self.translator.value(on) {
            Err(gap) => self.stop(depth, &gap),
            Ok(on) => {
                // One branch always exists, so that `else` has a condition before it.
                self.line(depth, "if false then");
                for (value, body) in cases {
                    let value = lua::value(value, width);
                    self.line(depth, &format!("elseif {on} == {value} then"));
                    self.stmts(body, depth + 1);
                }
                self.line(depth, "else");
                self.stmts(default, depth + 1);
                self.line(depth, "end");
            }
        }
    }

    /// A scope that a return leaves.
    fn block(&mut self, body: &[Stmt], depth: usize) {
        self.scopes += 1;
        let scope = self.scopes;
        let outer = self.scope.replace(scope);
        self.line(depth, "do");
        self.stmts(body, depth + 1);
        self.line(depth, "end");
        self.line(depth, &format!("::return_{scope}::"));
        self.scope = outer;
    }

    fn look_ahead(&self, fields: &[FieldId]) -> String {
        let mut at = 0;
        let mut wanted = Vec::new();
        for field in fields {
            let width = self.program().fields[field.index()].ty.width;
            if let Some(slot) = self.translator.plan.slot(*field) {
                wanted.push(format!("{{ {at}, {width}, {slot} }}"));
            }
            at += width;
        }
        format!("look_ahead(p, v, {at}, {{ {} }})", wanted.join(", "))
    }

    fn header(&self, id: HeaderId) -> &tributary_p4::ir::Header {
        &self.program().headers[id.index()]
    }

    /// A value as a number.
    fn number(&self, value: &Expr) -> Result<String, Gap> {
        if value.ty.width > NUMBER_BITS {
            return Err(Gap(format!(
                "a length of {} bits, which is not translated",
                value.ty.width
            )));
        }
        self.translator.value(value)
    }

    /// An assignment.
    fn store(&self, place: &Place, value: &str) -> Result<String, Gap> {
        let slot = |field| self.translator.plan.slot(field);
        match place {
            Place::Field(field) => {
                let slot = slot(*field).expect("an assignment that matters has a slot");
                Ok(format!("v[{slot}] = {value}"))
            }
            Place::Slice(field, hi, lo) => {
                let slot = slot(*field).expect("an assignment that matters has a slot");
                let width = self.program().fields[field.index()].ty.width;
                let whole = if width <= NUMBER_BITS { "with_part" } else { "with_digits" };
                Ok(format!("v[{slot}] = {whole}(v[{slot}], {hi}, {lo}, {value})"))
            }
            Place::Element(..) => Err(Gap(
                "an assignment to an element of a header stack, which is not translated".into(),
            )),
        }
    }

    fn copy_header(&mut self, to: HeaderId, from: HeaderId, depth: usize) {
        let Translator { program, plan } = self.translator;
        for (to, from) in copied(program, to, from) {
            if let (Some(to), Some(from)) = (plan.slot(to), plan.slot(from)) {
                self.line(depth, &format!("v[{to}] = v[{from}]"));
            }
        }
    }

    /// `setValid`: all fields of a header that was invalid are zero.
    fn set_valid(&mut self, id: HeaderId, depth: usize) {
        let Translator { program, plan } = self.translator;
        let header = &program.headers[id.index()];
        let valid = plan.slot(header.valid);
        let length = header.varbit.map(|(_, length)| length);
        let fields = header.fields.iter().copied().chain(length);
        let fields: Vec<_> = fields
            .filter_map(|field| Some((plan.slot(field)?, program.fields[field.index()].ty)))
            .collect();
        let Some(valid) = valid else { return };
        self.line(depth, &format!("if v[{valid}] == 0 then"));
        for (slot, Scalar { width, .. }) in fields {
            let zero = match width {
                ..=NUMBER_BITS => "0".to_owned(),
                _ => format!("(\"0\"):rep({width})"),
            };
            self.line(depth + 1, &format!("v[{slot}] = {zero}"));
        }
        self.line(depth + 1, &format!("v[{valid}] = 1"));
        self.line(depth, "end");
    }

    fn extract(&mut self, header: &HeaderRef, varbit: Option<&Expr>, depth: usize) {
        let line = self.extraction(header, varbit);
        self.attempt(depth, line);
        if let HeaderRef::Next(stack) = header {
            let Translator { program, plan } = self.translator;
            let next = plan.slot(program.stacks[stack.index()].next_index);
            let next = next.expect("the next index of an extraction has a slot");
            self.line(depth, &format!("v[{next}] = v[{next}] + 1"));
        }
    }

    fn extraction(&self, header: &HeaderRef, varbit: Option<&Expr>) -> Result<String, Gap> {
        let varbit = varbit.map(|bits| self.number(bits)).transpose()?;
        let varbit = varbit.map_or(String::new(), |bits| format!(", {bits}"));
        if let HeaderRef::Fixed(id) = header {
            return Ok(format!("extract(p, v, headers[{}]{varbit})", id.0 + 1));
        }
        let index = self.translator.index(header)?;
        let all = candidates(self.program(), header).into_iter();
        let all: Vec<_> = all.map(|id| format!("headers[{}]", id.0 + 1)).collect();
        Ok(format!("extract(p, v, element(p, {{ {} }}, {index}){varbit})", all.join(", ")))
    }

    /// Why the result of an extern is missing.
    fn extern_result(&self, call: &ExternCall) -> Gap {
        let what = call
            .instance
            .map_or("a function", |id| self.program().externs[id.index()].type_name.as_str());
        debug_assert!(outputs(call).next().is_some(), "only results matter");
        Gap(format!("the result of `{}` ({what}), which is not in the packet", call.method))
    }

    fn error_name(&self, error: &Expr) -> String {
        let code = match &error.kind {
            tributary_p4::ir::ExprKind::Const(limbs) => limbs.first().copied(),
            _ => None,
        };
        let name = code.and_then(|code| self.program().errors.get(usize::try_from(code).ok()?));
        name.map_or("the parser reports an error".into(), |name| {
            format!("the parser reports error.{name}")
        })
    }

    fn transition(&mut self, transition: &Transition) {
        match transition {
            Transition::To(target) => {
                let line = go(*target);
                self.line(1, &line);
            }
            Transition::Select { on, cases } => self.select(on, cases),
        }
    }

    fn select(&mut self, on: &[Expr], cases: &[(Vec<Keyset>, Target)]) {
        let is_compared = |at: usize| {
            let compares = |(keysets, _): &(Vec<Keyset>, Target)| {
                !matches!(keysets.get(at), None | Some(Keyset::Any))
            };
            cases.iter().any(compares)
        };
        // A key that no case compares is not computed: nothing was kept for it.
        let keys: Vec<Option<Result<String, Gap>>> = on
            .iter()
            .enumerate()
            .map(|(at, value)| is_compared(at).then(|| self.translator.value(value)))
            .collect();
        let text = |key: &Option<Result<String, Gap>>| match key {
            Some(Ok(value)) => value.clone(),
            _ => "0".into(),
        };
        if keys.iter().any(Option::is_some) {
            let values: Vec<_> = keys.iter().map(text).collect();
            self.line(1, &format!("local k = {{ {} }}", values.join(", ")));
        }
        for (keysets, target) in cases {
            // The tests that can be made, and the first one that cannot.
            let (mut tests, mut gap) = (Vec::new(), None);
            for (at, keyset) in keysets.iter().enumerate() {
                match (keyset, keys.get(at)) {
                    (Keyset::Any, _) => {}
                    (Keyset::ValueSet(id), _) => {
                        let name = &self.program().externs[id.index()].name;
                        gap.get_or_insert(Gap(format!(
                            "the value set `{name}`, which is not in the packet"
                        )));
                    }
                    (_, Some(Some(Err(unknown)))) => {
                        gap.get_or_insert_with(|| unknown.clone());
                    }
                    _ => tests.extend(test(&format!("k[{}]", at + 1), on[at].ty, keyset)),
                }
            }
            let condition = tests.join(" and ");
            match (gap, condition.is_empty()) {
                (None, true) => {
                    let line = go(*target);
                    self.line(1, &line);
                    return;
                }
                (None, false) => self.line(1, &format!("if {condition} then {} end", go(*target))),
                (Some(gap), true) => {
                    // The state ends here for all packets.
                    return self.stop(1, &gap);
                }
                (Some(gap), false) => {
                    self.line(1, &format!("if {condition} then"));
                    self.stop(2, &gap);
                    self.line(1, "end");
                }
            }
        }
        self.line(1, "stop(p, \"no case of the parser's select matches\")");
    }
}

/// The transition to a target.
fn go(target: Target) -> String {
    match target {
        Target::Accept => "return 0".into(),
        Target::Reject => "stop(p, \"the parser rejects the packet\")".into(),
        Target::State(StateId(number)) => format!("return {}", number + 1),
    }
}

/// The tests whether a key is in a keyset.
fn test(key: &str, ty: Scalar, keyset: &Keyset) -> Vec<String> {
    let value = |limbs: &[u64]| lua::value(limbs, ty.width);
    let masked = |wanted: &[u64], mask: &[u64]| {
        let wanted: Vec<u64> =
            wanted.iter().zip(mask).map(|(wanted, mask)| wanted & mask).collect();
        let function = match ty.width {
            ..=NUMBER_BITS => format!("bit_and({key}, {})", value(mask)),
            _ => format!("digitwise(bit_and, {key}, {})", value(mask)),
        };
        vec![format!("{function} == {}", value(&wanted))]
    };
    match keyset {
        Keyset::Any | Keyset::ValueSet(_) => Vec::new(),
        Keyset::Value(wanted) => vec![format!("{key} == {}", value(wanted))],
        Keyset::Masked { value: wanted, mask } => masked(wanted, mask),
        Keyset::Prefix { value: wanted, len } => {
            let free = ty.width - len;
            let bits = |limb: u32| {
                (0..64).filter(move |bit| {
                    let at = 64 * limb + bit;
                    at >= free && at < ty.width
                })
            };
            let limbs = ty.limbs() as u32;
            let mask: Vec<u64> =
                (0..limbs).map(|limb| bits(limb).map(|bit| 1 << bit).sum()).collect();
            masked(wanted, &mask)
        }
        Keyset::Range { low, high } => {
            let key = ordered(key, ty);
            let (low, high) = (ordered(&value(low), ty), ordered(&value(high), ty));
            vec![format!("{key} >= {low}"), format!("{key} <= {high}")]
        }
    }
}
