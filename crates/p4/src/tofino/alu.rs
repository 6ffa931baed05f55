//! Whether a register action fits the stateful ALU: its body is executed symbolically, and its
//! comparisons, updates and outputs are mapped to the ALU's units.

mod compare;

use std::collections::HashMap;

use compare::Comparison;

use super::sym::{ALWAYS, Guard, HOLDS, Kind, Op, Operation, Sym, Word};
use super::{OPERATIONS, Refusal, SMALL, Step, Use};
use crate::ir::{
    Arg, BinaryOp, Expr, ExprKind, Extern, Field, FieldId, Place, Scalar, Stmt, UnaryOp,
};
use crate::source::Span;

/// A register action to be checked.
pub(crate) struct Action<'a> {
    pub(crate) fields: &'a [Field],
    pub(crate) externs: &'a [Extern],
    /// The cell's words.
    pub(crate) value: &'a [FieldId],
    pub(crate) result: Option<FieldId>,
    pub(crate) body: &'a [Step],
    pub(crate) span: Span,
}

/// A value under a condition.
struct Guarded<T> {
    guard: Guard,
    what: T,
    span: Span,
}

struct Machine<'a, 'u> {
    action: &'a Action<'a>,
    /// Width of one word of the cell.
    width: u32,
    comparisons: Vec<Comparison>,
    writes: [Vec<Guarded<Sym>>; 2],
    outputs: Vec<Guarded<Sym>>,
    /// The condition under which the new value of each word was read.
    read: [Guard; 2],
    predicate: Option<Span>,
    locals: HashMap<FieldId, Sym>,
    /// The position of the current statement.
    span: Span,
    used: &'u mut Use,
}

type Checked<T> = Result<T, Refusal>;

/// Checks one register action, and adds the resources that it needs to `used`.
pub(crate) fn check(action: &Action<'_>, used: &mut Use) -> Result<(), Refusal> {
    let words: Vec<Scalar> = action.value.iter().map(|f| action.fields[f.index()].ty).collect();
    let fits = match words.as_slice() {
        [one] => matches!(one.width, 1 | 8 | 16 | 32),
        [lo, hi] => lo == hi && matches!(lo.width, 8 | 16 | 32),
        _ => false,
    };
    if !fits {
        let found: Vec<String> = words.iter().map(ToString::to_string).collect();
        return Err(Refusal::new(
            action.span,
            format!("a cell of ({}) does not fit a register of Tofino", found.join(", ")),
            "make it bit<1>, bit<8>, bit<16> or bit<32>, or a struct of two equal ones of 8, 16 or 32 bits",
        ));
    }
    let mut machine = Machine {
        action,
        width: words[0].width,
        comparisons: Vec::new(),
        writes: [Vec::new(), Vec::new()],
        outputs: Vec::new(),
        read: [0; 2],
        predicate: None,
        locals: HashMap::new(),
        span: action.span,
        used,
    };
    machine.steps(action.body, ALWAYS)?;
    if machine.width == 1 {
        return machine.one_bit();
    }
    machine.stores()?;
    machine.output()
}

impl Machine<'_, '_> {
    fn refuse<T>(&self, message: impl Into<String>, help: impl Into<String>) -> Checked<T> {
        Err(Refusal::new(self.span, message, help))
    }

    fn steps(&mut self, steps: &[Step], guard: Guard) -> Checked<()> {
        for step in steps {
            match step {
                Step::Leaf(stmt, span) => {
                    self.span = *span;
                    self.statement(stmt, guard)?;
                }
                Step::If { condition, span, then, otherwise } => {
                    self.span = *span;
                    let holds = self.condition(condition, guard)?;
                    self.steps(then, guard & holds)?;
                    self.steps(otherwise, guard & !holds)?;
                }
                Step::Predicate { comparisons, span, .. } => {
                    self.span = *span;
                    for (i, e) in comparisons.iter().enumerate() {
                        let holds = self.condition(e, guard)?;
                        if holds != HOLDS[i] {
                            return self.refuse(
                                "`this.predicate` takes the action's first and second comparison, in this order",
                                "call it before the other comparisons, with one comparison an argument",
                            );
                        }
                    }
                    self.predicate = Some(*span);
                }
            }
        }
        Ok(())
    }

    fn statement(&mut self, stmt: &Stmt, guard: Guard) -> Checked<()> {
        match stmt {
            Stmt::Assign(Place::Field(field), value) => self.assign(*field, value, guard),
            Stmt::If { condition, then, otherwise } => {
                let holds = self.condition(condition, guard)?;
                then.iter().try_for_each(|s| self.statement(s, guard & holds))?;
                otherwise.iter().try_for_each(|s| self.statement(s, guard & !holds))
            }
            // A register parameter that the control plane sets.
            Stmt::Call(call) if call.method == "read" => {
                match (call.instance, call.args.as_slice()) {
                    (Some(id), [Arg::Out(Place::Field(to), ty)]) => {
                        self.used.params.push(id);
                        self.locals.insert(*to, Sym { ty: *ty, kind: Kind::Param(id) });
                        Ok(())
                    }
                    _ => self.no_call(),
                }
            }
            Stmt::Call(call) if call.method == "execute" => {
                let unit = call.instance.filter(|id| {
                    let called = self.action.externs.get(id.index());
                    called.is_some_and(|called| called.type_name == "MathUnit")
                });
                match (unit, call.args.as_slice()) {
                    (Some(_), _) if guard == 0 => Ok(()),
                    (Some(id), [Arg::In(operand), Arg::Out(Place::Field(to), ty)]) => {
                        let operand = Box::new(self.value(operand, guard)?);
                        self.used.units.push(id);
                        let value = Sym { ty: *ty, kind: Kind::Math(id, operand) };
                        if self.word(*to).is_some() || Some(*to) == self.action.result {
                            return self.store(*to, value, guard);
                        }
                        if guard != ALWAYS && self.locals.contains_key(to) {
                            return self.local(*to, value, guard);
                        }
                        self.locals.insert(*to, value);
                        Ok(())
                    }
                    _ => self.no_call(),
                }
            }
            Stmt::Call(_) => self.no_call(),
            Stmt::Assign(..) => self.refuse(
                "the stateful ALU stores words as a whole, not bits of them",
                "assign to the whole field",
            ),
            Stmt::Return | Stmt::Block(_) => {
                self.refuse("a register action does not return early", "put the rest into `else`")
            }
            _ => self.refuse(
                "the stateful ALU has no such statement",
                "assignments and `if` are what it has",
            ),
        }
    }

    fn no_call<T>(&self) -> Checked<T> {
        self.refuse(
            "a register action calls no other extern",
            "call it before, in the control, and read the result from the metadata",
        )
    }

    fn assign(&mut self, field: FieldId, value: &Expr, guard: Guard) -> Checked<()> {
        if guard == 0 {
            return Ok(());
        }
        let value = self.value(value, guard)?;
        self.store(field, value, guard)
    }

    fn store(&mut self, field: FieldId, value: Sym, guard: Guard) -> Checked<()> {
        let half = self.action.value.iter().position(|f| *f == field);
        if half.is_none() && Some(field) != self.action.result {
            return self.local(field, value, guard);
        }
        let mut value = value;
        if half.is_none() {
            // The output is 32 bits wide for any cell.
            while let Kind::Wide(inner) = value.kind {
                value = *inner;
            }
            // The compiler uses the updated word wherever an assignment precedes.
            if let Kind::Old(word) = value.kind
                && !self.writes[usize::from(word == Word::Hi)].is_empty()
            {
                value.kind = Kind::New(word);
            }
            if let Kind::New(word) = value.kind {
                self.read[usize::from(word == Word::Hi)] |= guard;
            }
            if let Kind::Truth(holds) = value.kind {
                let one = |v| Box::new(Sym { ty: Scalar::bit(1), kind: Kind::Const(v) });
                value.kind = Kind::Choice(holds, one(1), one(0));
            }
        }
        let same = |w: Word| half == Some(usize::from(w == Word::Hi));
        if matches!(value.kind, Kind::Old(word) if same(word)) {
            // A word that is not stored is unchanged.
            return Ok(());
        }
        if let (Kind::Choice(..), Some(_)) = (&value.kind, half) {
            return self.refuse(
                "the cell's new value is chosen by `? :`, which Tofino's compiler does not lay out",
                "write if (…) { … } else { … }",
            );
        }
        if let Kind::Choice(holds, a, b) = value.kind {
            for (guard, value) in [(guard & holds, *a), (guard & !holds, *b)] {
                if guard != 0 {
                    self.store(field, value, guard)?;
                }
            }
            return Ok(());
        }
        let span = self.span;
        let list = match half {
            Some(half) => &mut self.writes[half],
            None => &mut self.outputs,
        };
        // Zero is the output when no unit drives it, so it may be overridden. So may a value that
        // was not read.
        let zero = |s: &Sym| matches!(s.kind, Kind::Const(0));
        let read = half.map_or(0, |half| self.read[half]);
        list.retain(|g| {
            let overridden = g.guard & !guard == 0 && g.guard & read == 0;
            let undriven = half.is_none() && zero(&g.what);
            g.guard & guard == 0 || !(overridden || undriven)
        });
        // One unit drives the output on both paths if the value is the same.
        let again = |g: &Guarded<Sym>| half.is_none() && g.what == value;
        if list.iter().any(|g| g.guard & guard != 0 && !again(g)) {
            return self.refuse(
                "this is assigned twice on one path, which the stateful ALU cannot do in turn",
                "assign it once on each path: put the first assignment into `else`",
            );
        }
        list.push(Guarded { guard, what: value, span });
        Ok(())
    }

    /// A local variable represents its value.
    fn local(&mut self, field: FieldId, value: Sym, guard: Guard) -> Checked<()> {
        let role = self.action.fields[field.index()].role;
        if role != crate::ir::FieldRole::Local {
            return self.refuse(
                "a register action changes the cell and its `out` parameter only",
                "return the value, and store it in the control",
            );
        }
        if guard != ALWAYS {
            return self.refuse(
                "a local variable of a register action has one value on all paths",
                "assign to the cell or the `out` parameter on each path",
            );
        }
        self.locals.insert(field, value);
        Ok(())
    }

    /// The word of the cell that a field is.
    fn word(&self, field: FieldId) -> Option<Word> {
        match self.action.value.iter().position(|f| *f == field)? {
            0 => Some(Word::Lo),
            _ => Some(Word::Hi),
        }
    }

    fn value(&mut self, e: &Expr, guard: Guard) -> Checked<Sym> {
        let ty = e.ty;
        let sym = |kind| Ok(Sym { ty, kind });
        if ty == Scalar::BOOL && self.compares(e) {
            return sym(Kind::Truth(self.condition(e, guard)?));
        }
        match &e.kind {
            ExprKind::Const(limbs) => {
                let low = limbs.iter().take(2).rev().fold(0u128, |v, l| v << 64 | u128::from(*l));
                let value = low as i128;
                let negative = ty.signed && ty.width < 127 && value >> (ty.width - 1) & 1 == 1;
                sym(Kind::Const(if negative { value - (1 << ty.width) } else { value }))
            }
            ExprKind::Field(field) => {
                if let Some(word) = self.word(*field) {
                    let half = usize::from(word == Word::Hi);
                    let written = self.writes[half].iter().any(|g| g.guard & guard != 0);
                    return sym(if written { Kind::New(word) } else { Kind::Old(word) });
                }
                if Some(*field) == self.action.result {
                    return match self.outputs.as_slice() {
                        [Guarded { guard: ALWAYS, what, .. }] => Ok(what.clone()),
                        _ => self.refuse(
                            "the `out` parameter of a register action cannot be read",
                            "read the cell instead",
                        ),
                    };
                }
                match self.locals.get(field) {
                    Some(known) => Ok(known.clone()),
                    None => sym(Kind::Input(format!("{e:?}"))),
                }
            }
            _ if self.only_packet(e) => {
                if !crossbar(e) {
                    return self.packet_operation(e, guard);
                }
                sym(Kind::Input(format!("{e:?}")))
            }
            ExprKind::Unary(UnaryOp::BitNot, a) => sym(Kind::Not(Box::new(self.value(a, guard)?))),
            ExprKind::Unary(UnaryOp::Neg, a) => {
                let zero = Box::new(Sym { ty, kind: Kind::Const(0) });
                let a = Box::new(self.value(a, guard)?);
                sym(Kind::Binary(Op::Plain(BinaryOp::Sub), zero, a))
            }
            ExprKind::Binary(op, a, b) => self.binary(ty, *op, a, b, guard),
            ExprKind::Mux(c, a, b) => {
                if let Some(op) = extreme(c, a, b) {
                    let a = Box::new(self.value(a, guard)?);
                    let b = Box::new(self.value(b, guard)?);
                    return sym(Kind::Binary(op, a, b));
                }
                let holds = self.condition(c, guard)?;
                let (a, b) = (self.value(a, guard)?, self.value(b, guard)?);
                sym(Kind::Choice(holds, Box::new(a), Box::new(b)))
            }
            ExprKind::Cast(a) => {
                let inner = self.value(a, guard)?;
                match (inner.ty.width, ty.width) {
                    (from, to) if from == to => Ok(Sym { ty, kind: inner.kind }),
                    (from, to) if from > to => sym(Kind::Slice(Box::new(inner), 0)),
                    _ if inner.ty.signed => sym(Kind::Other("sign extension of the cell")),
                    _ => sym(Kind::Wide(Box::new(inner))),
                }
            }
            ExprKind::Slice { value, lo, .. } => {
                let inner = self.value(value, guard)?;
                sym(Kind::Slice(Box::new(inner), *lo))
            }
            ExprKind::Element(..) => sym(Kind::Other("element of a stack by a variable index")),
            _ => sym(Kind::Other("such value")),
        }
    }

    fn binary(
        &mut self,
        ty: Scalar,
        op: BinaryOp,
        a: &Expr,
        b: &Expr,
        guard: Guard,
    ) -> Checked<Sym> {
        let what = match op {
            BinaryOp::Shl | BinaryOp::Shr => Some("shift"),
            BinaryOp::Mul => Some("multiplication"),
            BinaryOp::Div | BinaryOp::Mod => Some("division"),
            BinaryOp::Concat => Some("concatenation with the cell"),
            _ => None,
        };
        if let Some(what) = what {
            return Ok(Sym { ty, kind: Kind::Other(what) });
        }
        let a = Box::new(self.value(a, guard)?);
        let b = Box::new(self.value(b, guard)?);
        Ok(Sym { ty, kind: Kind::Binary(Op::Plain(op), a, b) })
    }

    /// An operation on words of the packet alone. The ALU can perform it, too, if it supports the
    /// operation.
    fn packet_operation(&mut self, e: &Expr, guard: Guard) -> Checked<Sym> {
        match &e.kind {
            ExprKind::Binary(op, a, b) => self.binary(e.ty, *op, a, b, guard),
            ExprKind::Unary(UnaryOp::BitNot, a) => {
                let a = self.value(a, guard)?;
                Ok(Sym { ty: e.ty, kind: Kind::Not(Box::new(a)) })
            }
            ExprKind::Unary(_, a) => {
                let zero = Box::new(Sym { ty: e.ty, kind: Kind::Const(0) });
                let a = Box::new(self.value(a, guard)?);
                Ok(Sym { ty: e.ty, kind: Kind::Binary(Op::Plain(BinaryOp::Sub), zero, a) })
            }
            _ => Ok(Sym { ty: e.ty, kind: Kind::Other("such value") }),
        }
    }

    /// Whether an expression contains neither the cell nor a local variable.
    fn only_packet(&self, e: &Expr) -> bool {
        match &e.kind {
            ExprKind::Const(_) | ExprKind::Valid(_) => true,
            ExprKind::Field(f) => {
                self.word(*f).is_none()
                    && Some(*f) != self.action.result
                    && !self.locals.contains_key(f)
            }
            ExprKind::Element(..) | ExprKind::Mux(..) => false,
            ExprKind::Unary(_, a) | ExprKind::Cast(a) => self.only_packet(a),
            ExprKind::Slice { value, .. } => self.only_packet(value),
            ExprKind::Binary(_, a, b) => self.only_packet(a) && self.only_packet(b),
        }
    }

    /// Whether a Boolean expression is more than a word of the packet.
    fn compares(&self, e: &Expr) -> bool {
        match &e.kind {
            ExprKind::Unary(UnaryOp::Not, _) => true,
            ExprKind::Binary(op, ..) => matches!(
                op,
                BinaryOp::Eq
                    | BinaryOp::Ne
                    | BinaryOp::Lt
                    | BinaryOp::Le
                    | BinaryOp::Gt
                    | BinaryOp::Ge
                    | BinaryOp::And
                    | BinaryOp::Or
            ),
            _ => false,
        }
    }

    fn note_input(&mut self, name: &str) {
        if !self.used.inputs.iter().any(|i| i == name) {
            self.used.inputs.push(name.to_owned());
        }
    }

    /// The operation that computes a value. Records its operands.
    fn operation(&mut self, value: &Sym, span: Span) -> Checked<Operation> {
        let operation =
            value.operation().map_err(|(message, help)| Refusal::new(span, message, help))?;
        for (operand, _) in &operation.operands {
            if operand.ty.width > self.width.max(8) {
                return Err(Refusal::new(
                    span,
                    format!(
                        "an operand has {} bits, but the register's words have {}",
                        operand.ty.width, self.width
                    ),
                    "cut it before, or make the register's words as wide",
                ));
            }
        }
        Ok(operation)
    }

    fn note_operation(&mut self, operation: &Operation) {
        for (operand, _) in &operation.operands {
            let operand = match &operand.kind {
                Kind::Math(_, inner) => inner,
                _ => operand,
            };
            match &operand.kind {
                Kind::Const(c) if !SMALL.contains(c) => self.used.constants.push(*c),
                Kind::Input(name) => self.note_input(&name.clone()),
                _ => {}
            }
        }
    }

    /// Maps the updates to the operations of each word.
    fn stores(&mut self) -> Checked<()> {
        for half in 0..2 {
            let list: Vec<(Sym, Span)> =
                self.writes[half].iter().map(|g| (g.what.clone(), g.span)).collect();
            if half == 1 {
                list.iter().try_for_each(|(value, span)| no_math(value, *span))?;
            }
            self.units(&list, true)?;
        }
        Ok(())
    }

    /// The operations that compute all values; each word has two operations. An `or` of two
    /// operations may use both at once.
    fn units(&mut self, list: &[(Sym, Span)], splits: bool) -> Checked<()> {
        let mut units: Vec<Operation> = Vec::new();
        let mut parts: Vec<Operation> = Vec::new();
        let mut last = self.span;
        let mut failed = None;
        for (value, span) in list {
            last = *span;
            match self.operation(value, *span) {
                Ok(operation) if !units.contains(&operation) => units.push(operation),
                Ok(_) => {}
                Err(refusal) => failed = failed.or(Some(refusal)),
            }
        }
        if failed.is_none() && units.len() <= OPERATIONS {
            units.iter().for_each(|u| self.note_operation(u));
            return Ok(());
        }
        for (value, span) in list {
            let sides: Vec<&Sym> = match &value.kind {
                Kind::Binary(Op::Plain(BinaryOp::BitOr), a, b) if splits => vec![a, b],
                _ => vec![value],
            };
            for side in sides {
                let operation = self.operation(side, *span)?;
                if !parts.contains(&operation) {
                    parts.push(operation);
                }
            }
        }
        if parts.len() > OPERATIONS {
            return Err(Refusal::new(
                last,
                format!(
                    "{} different operations give this its value, but the stateful ALU has {OPERATIONS} for a word",
                    parts.len().min(units.len().max(OPERATIONS + 1))
                ),
                "let two paths store the same expression, or choose the operand before, in the control",
            ));
        }
        parts.iter().for_each(|u| self.note_operation(u));
        Ok(())
    }

    /// Maps the output. If the cell is not a pair, several values can use the operations of the
    /// free word. Which values can, and in which order, follows the compiler's behaviour.
    fn output(&mut self) -> Checked<()> {
        let outputs = std::mem::take(&mut self.outputs);
        let driven: Vec<(Sym, Span)> = outputs
            .into_iter()
            .filter(|g| !matches!(g.what.kind, Kind::Const(0)))
            .map(|g| (g.what, g.span))
            .collect();
        driven.iter().try_for_each(|(value, span)| no_math(value, *span))?;
        if let Some(span) = self.predicate {
            self.span = span;
            if !driven.is_empty() {
                return self.refuse(
                    "the output is the predicate on one path and something else on another",
                    "return one of the two on all paths",
                );
            }
            self.used.flags.push(None);
            return Ok(());
        }
        let pair = self.action.value.len() == 2;
        let mut direct: Option<Kind> = None;
        let mut computed: Vec<(Sym, Span)> = Vec::new();
        for (value, span) in driven {
            self.span = span;
            let source = matches!(
                value.kind,
                Kind::Old(_) | Kind::New(_) | Kind::Input(_) | Kind::Slice(..)
            );
            if let Some(known) = direct.as_ref() {
                if *known == value.kind {
                    continue;
                }
                // A value that was output directly so far now needs an operation.
                let moves = matches!(known, Kind::Old(_) | Kind::Input(_))
                    && matches!(value.kind, Kind::Const(_))
                    && !pair;
                if !moves {
                    return self.other_source(pair);
                }
                let ty = value.ty;
                computed.extend(direct.take().map(|kind| (Sym { ty, kind }, span)));
                computed.push((value, span));
            } else if source && computed.is_empty() {
                self.is_source(&value)?;
                direct = Some(value.kind);
            } else if source && !matches!(value.kind, Kind::Old(_)) {
                return self.other_source(pair);
            } else {
                computed.push((value, span));
            }
        }
        if let Some(Kind::Input(name)) = &direct {
            self.note_input(&name.clone());
        }
        if !pair {
            return self.units(&computed, false);
        }
        // The shifted results of the comparisons.
        let power = |kind: &Kind| match kind {
            Kind::Const(c) if *c > 0 && c & (c - 1) == 0 => Some(*c),
            _ => None,
        };
        for (value, span) in &computed {
            self.span = *span;
            if matches!(value.kind, Kind::Old(_)) {
                return self.other_source(true);
            }
            let Some(flag) = power(&value.kind) else {
                return self.refuse(
                    "where the cell is a pair, both of the stateful ALU's adders store: the output is a word of the cell, a word of the packet or one power of two",
                    "store the value in the cell and return it from there, or compute it in the control",
                );
            };
            if direct.is_some() || power(&computed[0].0.kind) != Some(flag) {
                return self.other_source(true);
            }
            self.used.flags.push(Some(flag));
        }
        Ok(())
    }

    /// Checks that a word can be output without an operation.
    fn is_source(&self, value: &Sym) -> Checked<()> {
        match &value.kind {
            Kind::Slice(inner, _)
                if !matches!(inner.kind, Kind::Old(_) | Kind::New(_) | Kind::Input(_)) =>
            {
                self.refuse(
                    "the stateful ALU does not cut the result of an operation",
                    "return the whole word, and cut it in the control",
                )
            }
            _ => Ok(()),
        }
    }

    fn other_source<T>(&self, pair: bool) -> Checked<T> {
        match pair {
            true => self.refuse(
                "the output has two different sources, but where the cell is a pair the stateful ALU has one",
                "return one word on all paths (zero on the others), or return it by two registers",
            ),
            false => self.refuse(
                "the output has two different sources that Tofino's compiler does not bring together",
                "return one word on all paths, or the old value and constants, and choose in the control",
            ),
        }
    }

    /// A register of single bits supports set, clear and read, but no comparison.
    fn one_bit(&mut self) -> Checked<()> {
        if !self.comparisons.is_empty() {
            return self.refuse(
                "a register of single bits has no comparisons",
                "choose between two register actions by a table, or make the cell bit<8>",
            );
        }
        for write in &self.writes[0] {
            if !matches!(write.what.kind, Kind::Const(_)) {
                return Err(Refusal::new(
                    write.span,
                    "a bit is set or cleared, not computed",
                    "choose between two register actions by a table, or make the cell bit<8>",
                ));
            }
        }
        for output in &self.outputs {
            let mut kind = &output.what.kind;
            while let Kind::Wide(inner) | Kind::Not(inner) = kind {
                kind = &inner.kind;
            }
            if !matches!(kind, Kind::Old(_) | Kind::Const(_)) {
                return Err(Refusal::new(
                    output.span,
                    "a register of single bits returns the bit as it was, or its complement",
                    "read the bit before it is assigned",
                ));
            }
        }
        Ok(())
    }
}

/// Refuses the result of the math unit, which only the operations of the cell's low word take.
fn no_math(value: &Sym, span: Span) -> Checked<()> {
    match value.has_math() {
        false => Ok(()),
        true => Err(Refusal::new(
            span,
            "the math unit's result can only be stored in the cell, in the first word of a pair",
            "store it there, and return that word",
        )),
    }
}

/// `max(a, b)` and `min(a, b)` in the form generated by the front end.
fn extreme(c: &Expr, a: &Expr, b: &Expr) -> Option<Op> {
    let ExprKind::Binary(op, x, y) = &c.kind else { return None };
    let op = match op {
        BinaryOp::Ge => Op::Max,
        BinaryOp::Le => Op::Min,
        _ => return None,
    };
    let same = |a: &Expr, b: &Expr| format!("{:?}", a.kind) == format!("{:?}", b.kind);
    (same(x, a) && same(y, b)).then_some(op)
}

/// Whether the input crossbar and the hash units can deliver an expression of the packet to the ALU
/// as one word: bits of fields, concatenated, extended, and XORed or masked on the way.
fn crossbar(e: &Expr) -> bool {
    fn inner(e: &Expr) -> bool {
        match &e.kind {
            ExprKind::Const(_) | ExprKind::Field(_) | ExprKind::Valid(_) => true,
            ExprKind::Slice { value, .. } => inner(value),
            ExprKind::Cast(a) => inner(a),
            ExprKind::Binary(BinaryOp::Concat | BinaryOp::BitXor, a, b) => inner(a) && inner(b),
            ExprKind::Binary(BinaryOp::BitAnd | BinaryOp::BitOr, a, b) => {
                let constant = |e: &Expr| matches!(e.kind, ExprKind::Const(_));
                (constant(a) || constant(b)) && inner(a) && inner(b)
            }
            _ => false,
        }
    }
    match &e.kind {
        ExprKind::Field(_) | ExprKind::Valid(_) => true,
        ExprKind::Slice { value, .. } => matches!(value.kind, ExprKind::Field(_)) || inner(value),
        ExprKind::Cast(_) | ExprKind::Binary(BinaryOp::Concat, ..) => inner(e),
        _ => false,
    }
}
