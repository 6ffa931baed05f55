//! Prints expressions and statements in P4 syntax.

use crate::ir::{
    Arg, Expr, ExprKind, ExternCall, FieldId, HeaderRef, Keyset, Place, Program, StackId, Stmt,
    TableId, UnaryOp,
};

/// Maximum number of characters of a line.
const MOST_CHARACTERS: usize = 60;

/// Prints with the names of a program. Long lines are shortened.
#[derive(Clone, Copy)]
pub struct Text<'p>(pub &'p Program);

impl Text<'_> {
    /// An expression.
    #[must_use]
    pub fn expr(self, expr: &Expr) -> String {
        shortened(self.whole_expr(expr))
    }

    /// An expression, however long it is.
    pub(crate) fn whole_expr(self, expr: &Expr) -> String {
        self.whole(expr, false)
    }

    /// `inside` is whether the expression is an operand, so that it may need parentheses.
    fn whole(self, expr: &Expr, inside: bool) -> String {
        let text = match &expr.kind {
            ExprKind::Const(limbs) => return number(limbs),
            ExprKind::Field(field) => return self.field(*field),
            ExprKind::Valid(header) => return format!("{}.isValid()", self.header(header)),
            ExprKind::Element(stack, index, position) => {
                return self.element(*stack, index, *position);
            }
            ExprKind::Unary(op, value) => {
                let sign = match op {
                    UnaryOp::Not => "!",
                    UnaryOp::BitNot => "~",
                    UnaryOp::Neg => "-",
                };
                return format!("{sign}{}", self.whole(value, true));
            }
            ExprKind::Slice { value, hi, lo } => {
                return format!("{}[{hi}:{lo}]", self.whole(value, true));
            }
            ExprKind::Cast(value) => return format!("({}){}", expr.ty, self.whole(value, true)),
            ExprKind::Binary(op, a, b) => {
                format!("{} {} {}", self.whole(a, true), op.sign(), self.whole(b, true))
            }
            ExprKind::Mux(condition, then, otherwise) => format!(
                "{} ? {} : {}",
                self.whole(condition, true),
                self.whole(then, true),
                self.whole(otherwise, true)
            ),
        };
        if inside { format!("({text})") } else { text }
    }

    fn field(self, field: FieldId) -> String {
        self.0.fields[field.index()].name.clone()
    }

    fn element(self, stack: StackId, index: &Expr, position: u32) -> String {
        let stack = &self.0.stacks[stack.index()];
        let header = stack.elements.first().map(|header| &self.0.headers[header.index()]);
        let field = header.and_then(|header| header.fields.get(position as usize));
        let name = field.map(|field| self.field(*field)).unwrap_or_default();
        let last = name.rsplit('.').next().unwrap_or_default();
        format!("{}[{}].{last}", stack.name, self.whole(index, false))
    }

    pub(crate) fn header(self, header: &HeaderRef) -> String {
        let stack = |id: &StackId| &self.0.stacks[id.index()].name;
        match header {
            HeaderRef::Fixed(id) => self.0.headers[id.index()].name.clone(),
            HeaderRef::Next(id) => format!("{}.next", stack(id)),
            HeaderRef::Last(id) => format!("{}.last", stack(id)),
            HeaderRef::Index(id, index) => format!("{}[{}]", stack(id), self.whole(index, false)),
        }
    }

    pub(crate) fn place(self, place: &Place) -> String {
        match place {
            Place::Field(field) => self.field(*field),
            Place::Slice(field, hi, lo) => format!("{}[{hi}:{lo}]", self.field(*field)),
            Place::Element(stack, index, position) => self.element(*stack, index, *position),
        }
    }

    /// A statement, without those inside it.
    #[must_use]
    pub fn stmt(self, stmt: &Stmt) -> String {
        shortened(self.whole_stmt(stmt))
    }

    /// The same, however long it is.
    pub(crate) fn whole_stmt(self, stmt: &Stmt) -> String {
        match stmt {
            Stmt::Assign(place, value) => {
                format!("{} = {}", self.place(place), self.whole(value, false))
            }
            Stmt::CopyHeader { to, from } => {
                format!("{} = {}", self.header(to), self.header(from))
            }
            Stmt::SetValid(header) => format!("{}.setValid()", self.header(header)),
            Stmt::SetInvalid(header) | Stmt::Displace(header) => {
                format!("{}.setInvalid()", self.header(header))
            }
            Stmt::PushFront(stack, count) => {
                format!("{}.push_front({count})", self.0.stacks[stack.index()].name)
            }
            Stmt::PopFront(stack, count) => {
                format!("{}.pop_front({count})", self.0.stacks[stack.index()].name)
            }
            Stmt::If { condition, .. } => format!("if ({}) …", self.whole(condition, false)),
            Stmt::Switch { on, .. } => format!("switch ({}) …", self.whole(on, false)),
            Stmt::Apply { table, .. } => format!("{}.apply()", self.0.tables[table.index()].name),
            Stmt::Action(action) => format!("{}()", self.0.actions[action.index()].name),
            Stmt::Call(call) => self.call(call),
            Stmt::Extract { header, varbit_bits: None } => {
                format!("extract {}", self.header(header))
            }
            Stmt::Extract { header, varbit_bits: Some(bits) } => {
                format!("extract {} ({} bits)", self.header(header), self.whole(bits, false))
            }
            Stmt::Lookahead(fields) => match fields.first() {
                Some(first) => format!("{} = lookahead", self.field(*first)),
                None => "lookahead".to_owned(),
            },
            Stmt::Advance(bits) => format!("advance {} bits", self.whole(bits, false)),
            Stmt::Verify { condition, .. } => format!("verify {}", self.whole(condition, false)),
            Stmt::Emit(header) => format!("emit {}", self.header(header)),
            Stmt::Exit => "exit".to_owned(),
            Stmt::Return => "return".to_owned(),
            Stmt::Mark(_) => String::new(),
            Stmt::Loop(..) => "loop …".to_owned(),
            Stmt::Leave(_) => "leave".to_owned(),
            Stmt::Block(body) | Stmt::Labelled(_, body) => match body.first() {
                Some(first) => format!("{} …", self.stmt(first)),
                None => String::new(),
            },
        }
    }

    fn call(self, call: &ExternCall) -> String {
        let instance = call.instance.map(|id| self.0.externs[id.index()].name.as_str());
        let argument = |argument: &Arg| match argument {
            Arg::In(value) => self.whole(value, false),
            Arg::Out(place, _) => self.place(place),
            Arg::List(values) => match values.as_slice() {
                [first, _, ..] => format!("{{{}, …}}", self.whole(first, false)),
                [only] => format!("{{{}}}", self.whole(only, false)),
                [] => "{}".to_owned(),
            },
            Arg::Header(header) => self.header(header),
            Arg::Opaque | Arg::Copy(_) => "…".to_owned(),
            Arg::Text(text) => format!("\"{text}\""),
            Arg::Symbol(_, member) => member.clone(),
        };
        let arguments: Vec<String> = call.args.iter().map(argument).collect();
        let call = format!("{}({})", call.method, arguments.join(", "));
        instance.map_or(call.clone(), |instance| format!("{instance}.{call}"))
    }

    /// Name, keys and actions of a table.
    #[must_use]
    pub fn table(self, table: TableId) -> Vec<String> {
        let table = &self.0.tables[table.index()];
        let mut lines = vec![table.name.clone()];
        for key in &table.keys {
            let kind = format!("{:?}", key.kind).to_lowercase();
            lines.push(shortened(format!("{}: {kind}", key.name)));
        }
        let default = table.default_action.action;
        for (number, action) in table.actions.iter().enumerate() {
            let name = &self.0.actions[action.action.index()].name;
            let own = name.rsplit('.').next().unwrap_or(name);
            let mark = if number as u32 == default { " (default)" } else { "" };
            lines.push(format!("→ {own}{mark}"));
        }
        lines
    }

    /// The value of a `switch` case, or the name of the action in a switch on `action_run`.
    #[must_use]
    pub fn case(self, on: &Expr, value: &[u64]) -> String {
        let table = match &on.kind {
            ExprKind::Field(field) => self.table_of(*field),
            _ => None,
        };
        let action = table.zip(value.first()).and_then(|(table, number)| {
            let action = self.0.tables[table.index()].actions.get(*number as usize)?;
            let name = &self.0.actions[action.action.index()].name;
            Some(name.rsplit('.').next().unwrap_or(name).to_owned())
        });
        action.unwrap_or_else(|| number(value))
    }

    /// The table whose outcome is stored in a field.
    fn table_of(self, field: FieldId) -> Option<TableId> {
        fn find(body: &[Stmt], field: FieldId) -> Option<TableId> {
            body.iter().find_map(|stmt| match stmt {
                Stmt::Apply { table, action: Some(action), .. } if *action == field => Some(*table),
                Stmt::If { then, otherwise, .. } => {
                    find(then, field).or_else(|| find(otherwise, field))
                }
                Stmt::Switch { cases, default, .. } => cases
                    .iter()
                    .find_map(|(_, body)| find(body, field))
                    .or_else(|| find(default, field)),
                Stmt::Block(body) => find(body, field),
                _ => None,
            })
        }
        self.0.controls.iter().find_map(|control| find(&control.body, field))
    }

    /// The keysets of a case.
    #[must_use]
    pub fn keysets(self, keysets: &[Keyset]) -> String {
        let keyset = |keyset: &Keyset| match keyset {
            Keyset::Any => "_".to_owned(),
            Keyset::Value(value) => number(value),
            Keyset::Masked { value, mask } => format!("{} &&& {}", number(value), number(mask)),
            Keyset::Prefix { value, len } => format!("{}/{len}", number(value)),
            Keyset::Range { low, high } => format!("{}..{}", number(low), number(high)),
            Keyset::ValueSet(id) => self.0.externs[id.index()].name.clone(),
        };
        let all: Vec<String> = keysets.iter().map(keyset).collect();
        if all.iter().all(|one| one == "_") { "default".to_owned() } else { all.join(", ") }
    }
}

/// Small numbers in decimal, large ones in hexadecimal notation.
pub(crate) fn number(limbs: &[u64]) -> String {
    let used = limbs.iter().rposition(|limb| *limb != 0).map_or(0, |highest| highest + 1);
    match limbs[..used].split_last() {
        None => "0".to_owned(),
        Some((only, [])) if *only < 256 => only.to_string(),
        Some((highest, rest)) => rest
            .iter()
            .rev()
            .fold(format!("{highest:#x}"), |text, limb| format!("{text}{limb:016x}")),
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
