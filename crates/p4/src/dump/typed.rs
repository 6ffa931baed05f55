//! The checked program: what `main` reaches, each block, function, action and table once. Numbers
//! have their width, and conversions are casts.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::{Lines, list};
use crate::ast::UnaryOp;
use crate::hir::{
    Action, ApplyPart, Block, Call, CallArg, Callee, DeclId, Expr, ExprKind, Function, Instance,
    Keyset, Local, Param, Program, Stmt, StmtKind, Table, Target, Through, Transition, Variable,
};
use crate::types::{BlockKind, Direction, Str, Type};
use crate::walk;

pub(super) fn print(program: &Program) -> String {
    let mut printer = Printer::new(program);
    for instance in &program.instances {
        printer.reach_instance(instance);
    }
    if let Some(main) = &program.main {
        printer.reach_instance(main);
    }
    printer.all()
}

struct Printer<'p> {
    program: &'p Program,
    names: HashMap<DeclId, Str>,
    functions: Vec<Rc<Function>>,
    blocks: Vec<Rc<Block>>,
    seen: HashSet<*const ()>,
}

/// What is declared in a block: the actions and tables that its statements reach.
#[derive(Default)]
struct Reached {
    actions: Vec<Rc<Action>>,
    tables: Vec<Rc<Table>>,
    seen: HashSet<DeclId>,
}

impl<'p> Printer<'p> {
    fn new(program: &'p Program) -> Self {
        Self {
            program,
            names: HashMap::new(),
            functions: Vec::new(),
            blocks: Vec::new(),
            seen: HashSet::new(),
        }
    }

    // What is reached, and the names of all declarations in it.

    fn reach_instance(&mut self, instance: &Rc<Instance>) {
        self.names.insert(instance.id, instance.name.clone());
        self.reach_block(instance.construct.block.as_ref());
        instance.construct.args.iter().for_each(|e| self.reach_expr(e));
        for method in &instance.methods {
            self.note_params(&method.params);
            self.reach_stmts(&method.body);
        }
    }

    fn reach_block(&mut self, block: Option<&Rc<Block>>) {
        let Some(block) = block else { return };
        if !self.seen.insert(Rc::as_ptr(block).cast()) {
            return;
        }
        self.note_params(&block.params);
        self.note_params(&block.ctor_params);
        for local in &block.locals {
            match local {
                Local::Variable(v) => self.note_variable(v),
                Local::Instance(i) => self.reach_instance(i),
                Local::ValueSet(set) => {
                    self.names.insert(set.id, set.name.clone());
                }
            }
        }
        self.reach_stmts(&block.body);
        for state in &block.states {
            self.reach_stmts(&state.body);
            if let Transition::Select { on, .. } = &state.transition {
                on.iter().for_each(|e| self.reach_expr(e));
            }
        }
        self.blocks.push(block.clone());
    }

    fn note_params(&mut self, params: &[Param]) {
        self.names.extend(params.iter().map(|p| (p.id, p.name.clone())));
    }

    fn note_variable(&mut self, v: &Variable) {
        self.names.insert(v.id, v.name.clone());
        v.init.iter().for_each(|e| self.reach_expr(e));
    }

    fn reach_stmts(&mut self, all: &[Stmt]) {
        let mut found = Vec::new();
        walk::stmts(all, &mut |e| found.push(e));
        found.into_iter().for_each(|e| self.reach_one(e));
        self.note_stmts(all);
    }

    fn reach_expr(&mut self, e: &Expr) {
        let mut found = Vec::new();
        walk::expr(e, &mut |e| found.push(e));
        found.into_iter().for_each(|e| self.reach_one(e));
    }

    /// What one expression refers to, without its parts.
    fn reach_one(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Construct(construct) => {
                self.reach_block(construct.block.as_ref());
                construct.args.iter().for_each(|e| self.reach_expr(e));
            }
            ExprKind::Apply(table, _) => self.reach_table(table),
            ExprKind::Call(call) => match &call.target {
                Callee::Function(function) if self.seen.insert(Rc::as_ptr(function).cast()) => {
                    self.note_params(&function.params);
                    self.reach_stmts(&function.body);
                    self.functions.push(function.clone());
                }
                Callee::Action(action) => self.reach_action(action),
                Callee::Direct { block, .. } => self.reach_block(Some(block)),
                _ => {}
            },
            _ => {}
        }
    }

    fn reach_action(&mut self, action: &Rc<Action>) {
        if self.seen.insert(Rc::as_ptr(action).cast()) {
            self.note_params(&action.params);
            self.reach_stmts(&action.body);
        }
    }

    fn reach_table(&mut self, table: &Rc<Table>) {
        if self.seen.insert(Rc::as_ptr(table).cast()) {
            table.keys.iter().for_each(|key| self.reach_expr(&key.value));
            table.actions.iter().for_each(|offered| self.reach_action(&offered.action));
        }
    }

    /// The names of variables in statements, and tables that statements switch on.
    fn note_stmts(&mut self, all: &[Stmt]) {
        for stmt in all {
            match &stmt.kind {
                StmtKind::Var(v) => {
                    self.names.insert(v.id, v.name.clone());
                }
                StmtKind::Update { old, .. } => {
                    self.names.insert(*old, "$old".into());
                }
                StmtKind::If(_, then, otherwise) => {
                    self.note_stmts(then);
                    self.note_stmts(otherwise);
                }
                StmtKind::Block(body) => self.note_stmts(body),
                StmtKind::Switch(_, cases, default) => {
                    cases.iter().for_each(|(_, body)| self.note_stmts(body));
                    self.note_stmts(default);
                }
                StmtKind::SwitchAction(table, cases, default) => {
                    self.reach_table(table);
                    cases.iter().for_each(|(_, body)| self.note_stmts(body));
                    self.note_stmts(default);
                }
                StmtKind::For { init, update, body, .. } => {
                    [init, update, body].into_iter().for_each(|list| self.note_stmts(list));
                }
                StmtKind::ForIn { variable, body, .. } => {
                    self.names.insert(variable.id, variable.name.clone());
                    self.note_stmts(body);
                }
                _ => {}
            }
        }
    }

    // Printing.

    fn all(&self) -> String {
        let mut out = Lines::default();
        out.line(format!("error {{ {} }}", list(&self.program.errors, ToString::to_string)));
        for function in &self.functions {
            self.function(&mut out, function);
        }
        for block in &self.blocks {
            self.block(&mut out, block);
        }
        let main = self
            .program
            .main
            .iter()
            .filter(|main| !self.program.instances.iter().any(|other| Rc::ptr_eq(other, main)));
        for instance in self.program.instances.iter().chain(main) {
            self.instance(&mut out, instance);
        }
        out.text
    }

    fn function(&self, out: &mut Lines, function: &Function) {
        let head = format!("{} {}({})", function.ret, function.name, self.params(&function.params));
        out.block(head, "", |out| self.stmts(out, &function.body));
    }

    fn params(&self, all: &[Param]) -> String {
        list(all, |param| {
            let direction = match param.direction {
                Direction::None => "",
                Direction::In => "in ",
                Direction::Out => "out ",
                Direction::Inout => "inout ",
            };
            format!("{direction}{} {}", param.ty, param.name)
        })
    }

    fn instance(&self, out: &mut Lines, instance: &Instance) {
        let construct = &instance.construct;
        let args = list(&construct.args, |e| self.expr(e));
        let head = format!("{}({args}) {}", construct.ty, instance.name);
        if instance.methods.is_empty() {
            out.line(format!("{head};"));
        } else {
            out.block(format!("{head} ="), ";", |out| {
                instance.methods.iter().for_each(|method| self.function(out, method));
            });
        }
    }

    fn block(&self, out: &mut Lines, block: &Block) {
        let word = match block.kind {
            BlockKind::Parser => "parser",
            BlockKind::Control => "control",
        };
        let mut head = format!("{word} {}({})", block.name, self.params(&block.params));
        if !block.ctor_params.is_empty() {
            head += &format!("({})", self.params(&block.ctor_params));
        }
        out.block(head, "", |out| {
            for local in &block.locals {
                match local {
                    Local::Variable(v) => out.line(format!("{};", self.variable(v))),
                    Local::Instance(i) => self.instance(out, i),
                    Local::ValueSet(set) => {
                        let size = self.expr(&set.size);
                        out.line(format!("value_set<{}>({size}) {};", set.ty, set.name));
                    }
                }
            }
            let mut reached = Reached::default();
            reached.stmts(&block.body);
            block.states.iter().for_each(|state| reached.stmts(&state.body));
            for action in &reached.actions {
                let head = format!("action {}({})", action.name, self.params(&action.params));
                out.block(head, "", |out| self.stmts(out, &action.body));
            }
            reached.tables.iter().for_each(|table| self.table(out, table));
            for state in &block.states {
                out.block(format!("state {}", state.name), "", |out| {
                    self.stmts(out, &state.body);
                    self.transition(out, block, &state.transition);
                });
            }
            if block.kind == BlockKind::Control {
                out.block("apply", "", |out| self.stmts(out, &block.body));
            }
        });
    }

    fn transition(&self, out: &mut Lines, block: &Block, transition: &Transition) {
        let target = |target: &Target| match target {
            Target::Accept => "accept".to_owned(),
            Target::Reject => "reject".to_owned(),
            Target::State(number) => block.states[*number].name.to_string(),
        };
        match transition {
            Transition::To(to) => out.line(format!("transition {};", target(to))),
            Transition::Select { on, cases } => {
                let on = list(on, |e| format!("{}: {}", self.expr(e), e.ty));
                out.block(format!("transition select({on})"), "", |out| {
                    for (keys, to) in cases {
                        let keys = list(keys, |key| self.keyset(key));
                        out.line(format!("({keys}): {};", target(to)));
                    }
                });
            }
        }
    }

    fn table(&self, out: &mut Lines, table: &Table) {
        let call = |(at, args): &(usize, Vec<Expr>)| {
            let name = &table.actions[*at].action.name;
            format!("{name}({})", list(args, |e| self.expr(e)))
        };
        out.block(format!("table {}", table.name), "", |out| {
            for key in &table.keys {
                let (value, ty) = (self.expr(&key.value), &key.value.ty);
                let kind = format!("{:?}", key.kind).to_lowercase();
                out.line(format!("key {} = {value}: {ty}, {kind};", key.name));
            }
            for offered in &table.actions {
                let args = self.args(&offered.args);
                let scope = match offered.scope.annotation() {
                    "" => String::new(),
                    annotation => format!(" {annotation}"),
                };
                out.line(format!("action {}({args}){scope};", offered.action.name));
            }
            if let Some(default) = &table.default {
                let word = if table.const_default { "const " } else { "" };
                out.line(format!("{word}default_action = {};", call(default)));
            }
            for entry in &table.entries {
                let word = if entry.is_const || table.const_entries { "const " } else { "" };
                let priority = entry.priority.as_ref();
                let priority = priority.map_or(String::new(), |p| format!("{}: ", self.expr(p)));
                let keys = list(&entry.keys, |key| self.keyset(key));
                let action = call(&(entry.action, entry.args.clone()));
                out.line(format!("{word}entry {priority}({keys}): {action};"));
            }
            if let Some(size) = &table.size {
                out.line(format!("size = {};", self.expr(size)));
            }
            for attached in &table.attached {
                out.line(format!("{} = {};", attached.name, self.expr(&attached.value)));
            }
            if table.idle_timeout {
                out.line("support_timeout = true;");
            }
        });
    }

    fn keyset(&self, keyset: &Keyset) -> String {
        match keyset {
            Keyset::Any => "_".to_owned(),
            Keyset::Value(value) => self.expr(value),
            Keyset::Mask(value, mask) => format!("{} &&& {}", self.expr(value), self.expr(mask)),
            Keyset::Range(low, high) => format!("{} .. {}", self.expr(low), self.expr(high)),
            Keyset::Set(id) => self.name(*id),
        }
    }

    fn variable(&self, v: &Variable) -> String {
        match &v.init {
            Some(init) => format!("{} {} = {}", v.ty, v.name, self.expr(init)),
            None => format!("{} {}", v.ty, v.name),
        }
    }

    fn stmts(&self, out: &mut Lines, all: &[Stmt]) {
        all.iter().for_each(|stmt| self.stmt(out, stmt));
    }

    fn stmt(&self, out: &mut Lines, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Var(v) => out.line(format!("{};", self.variable(v))),
            StmtKind::Assign(to, value) => {
                out.line(format!("{} = {};", self.expr(to), self.expr(value)));
            }
            StmtKind::Update { to, value, .. } => {
                // The old value of the place is `$old` in the new one.
                out.line(format!("{} = {};", self.expr(to), self.expr(value)));
            }
            StmtKind::Call(call) => out.line(format!("{};", self.expr(call))),
            StmtKind::If(condition, then, otherwise) => {
                let head = format!("if ({})", self.expr(condition));
                out.block(head, "", |out| self.stmts(out, then));
                if !otherwise.is_empty() {
                    out.block("else", "", |out| self.stmts(out, otherwise));
                }
            }
            StmtKind::Block(body) => out.block("", "", |out| self.stmts(out, body)),
            StmtKind::Switch(on, cases, default) => {
                out.block(format!("switch ({}: {})", self.expr(on), on.ty), "", |out| {
                    for (labels, body) in cases {
                        let labels = list(labels, |e| self.expr(e));
                        out.block(format!("{labels}:"), "", |out| self.stmts(out, body));
                    }
                    out.block("default:", "", |out| self.stmts(out, default));
                });
            }
            StmtKind::SwitchAction(table, cases, default) => {
                out.block(format!("switch ({}.apply().action_run)", table.name), "", |out| {
                    for (positions, body) in cases {
                        let names =
                            list(positions, |at| table.actions[*at].action.name.to_string());
                        out.block(format!("{names}:"), "", |out| self.stmts(out, body));
                    }
                    out.block("default:", "", |out| self.stmts(out, default));
                });
            }
            StmtKind::Exit => out.line("exit;"),
            StmtKind::Return(None) => out.line("return;"),
            StmtKind::Return(Some(value)) => out.line(format!("return {};", self.expr(value))),
            StmtKind::For { init, condition, update, body } => {
                out.block("for", "", |out| {
                    out.block("first", "", |out| self.stmts(out, init));
                    out.line(format!("while {};", self.expr(condition)));
                    out.block("then", "", |out| self.stmts(out, update));
                    self.stmts(out, body);
                });
            }
            StmtKind::ForIn { variable, through, body } => {
                let through = match through {
                    Through::Range(low, high) => {
                        format!("{} .. {}", self.expr(low), self.expr(high))
                    }
                    Through::Stack(stack) => self.expr(stack),
                    Through::List(items) => format!("{{ {} }}", list(items, |e| self.expr(e))),
                };
                let head = format!("for ({} {} in {through})", variable.ty, variable.name);
                out.block(head, "", |out| self.stmts(out, body));
            }
            StmtKind::Break => out.line("break;"),
            StmtKind::Continue => out.line("continue;"),
        }
    }

    fn name(&self, id: DeclId) -> String {
        self.names.get(&id).map_or_else(|| format!("${id}"), ToString::to_string)
    }

    fn args(&self, args: &[CallArg]) -> String {
        list(args, |arg| {
            let direction = match arg.direction {
                Direction::None | Direction::In => "",
                Direction::Out => "out ",
                Direction::Inout => "inout ",
            };
            let value = arg.value.as_ref().map_or("_".to_owned(), |e| self.expr(e));
            format!("{direction}{value}")
        })
    }

    fn call(&self, call: &Call) -> String {
        let args = self.args(&call.args);
        match &call.target {
            Callee::Extern { instance: Some((object, _)), signature } => {
                format!("{}.{}({args})", self.expr(object), signature.name)
            }
            Callee::Extern { instance: None, signature } => format!("{}({args})", signature.name),
            Callee::Function(function) => format!("{}({args})", function.name),
            Callee::Action(action) => format!("{}({args})", action.name),
            Callee::Block { instance } => format!("{}.apply({args})", self.name(*instance)),
            Callee::Direct { block, .. } => format!("{}.apply({args})", block.name),
            Callee::Predicate => format!("this.predicate({args})"),
            Callee::SetValid(header) => format!("{}.setValid()", self.expr(header)),
            Callee::SetInvalid(header) => format!("{}.setInvalid()", self.expr(header)),
            Callee::PushFront(stack, count) => format!("{}.push_front({count})", self.expr(stack)),
            Callee::PopFront(stack, count) => format!("{}.pop_front({count})", self.expr(stack)),
        }
    }

    fn expr(&self, e: &Expr) -> String {
        let inner = |e: &Expr| match &e.kind {
            ExprKind::Binary(..) | ExprKind::Mux(..) | ExprKind::Cast(_) => {
                format!("({})", self.expr(e))
            }
            _ => self.expr(e),
        };
        match &e.kind {
            ExprKind::Int(value) => match &e.ty {
                Type::Bit(width) => format!("{width}w{value}"),
                Type::Signed(width) => format!("{width}s{value}"),
                Type::Int => value.to_string(),
                other => format!("({other}){value}"),
            },
            ExprKind::Bool(value) => value.to_string(),
            ExprKind::Text(text) => format!("{text:?}"),
            ExprKind::Member(at) => match &e.ty {
                Type::Enum(ty) => format!("{}.{}", ty.name, ty.members[*at]),
                _ => format!("error.{}", self.program.errors[*at]),
            },
            ExprKind::Var(id) => self.name(*id),
            ExprKind::Field(base, at) => match &base.ty {
                Type::Struct(s) => format!("{}.{}", inner(base), s.fields[*at].name),
                _ => format!("{}.{at}", inner(base)),
            },
            ExprKind::Index(base, index) => format!("{}[{}]", inner(base), self.expr(index)),
            ExprKind::Next(base) => format!("{}.next", inner(base)),
            ExprKind::Last(base) => format!("{}.last", inner(base)),
            ExprKind::LastIndex(base) => format!("{}.lastIndex", inner(base)),
            ExprKind::Slice(base, hi, lo) => format!("{}[{hi}:{lo}]", inner(base)),
            ExprKind::Unary(op, value) => {
                let sign = match op {
                    UnaryOp::Not => "!",
                    UnaryOp::BitNot => "~",
                    UnaryOp::Neg => "-",
                    UnaryOp::Plus => "+",
                };
                format!("{sign}{}", inner(value))
            }
            ExprKind::Binary(op, a, b) => format!("{} {} {}", inner(a), op.sign(), inner(b)),
            ExprKind::Mux(condition, then, otherwise) => {
                format!("{} ? {} : {}", inner(condition), inner(then), inner(otherwise))
            }
            ExprKind::Cast(value) => format!("({}){}", e.ty, inner(value)),
            ExprKind::List(items) => format!("{{ {} }}", list(items, |e| self.expr(e))),
            ExprKind::Record(items) => {
                let item = |(name, e): &(Str, Expr)| format!("{name} = {}", self.expr(e));
                format!("{{ {} }}", list(items, item))
            }
            ExprKind::Invalid => "{#}".to_owned(),
            ExprKind::Rest => "...".to_owned(),
            ExprKind::IsValid(header) => format!("{}.isValid()", inner(header)),
            ExprKind::Call(call) => self.call(call),
            ExprKind::Apply(table, part) => {
                let part = match part {
                    ApplyPart::Whole => "",
                    ApplyPart::Hit => ".hit",
                    ApplyPart::Miss => ".miss",
                    ApplyPart::ActionRun => ".action_run",
                };
                format!("{}.apply(){part}", table.name)
            }
            ExprKind::Construct(construct) => {
                format!("{}({})", construct.ty, list(&construct.args, |e| self.expr(e)))
            }
            ExprKind::Error => "/* an error */".to_owned(),
        }
    }
}

impl Reached {
    fn stmts(&mut self, all: &[Stmt]) {
        let mut found = Vec::new();
        walk::stmts(all, &mut |e| match &e.kind {
            ExprKind::Apply(table, _) => found.push((Some(table.clone()), None)),
            ExprKind::Call(call) => {
                if let Callee::Action(action) = &call.target {
                    found.push((None, Some(action.clone())));
                }
            }
            _ => {}
        });
        for (table, action) in found {
            table.iter().for_each(|table| self.table(table));
            action.iter().for_each(|action| self.action(action));
        }
        self.switches(all);
    }

    fn table(&mut self, table: &Rc<Table>) {
        if self.seen.insert(table.id) {
            table.actions.iter().for_each(|offered| self.action(&offered.action));
            self.tables.push(table.clone());
        }
    }

    fn action(&mut self, action: &Rc<Action>) {
        if self.seen.insert(action.id) {
            self.stmts(&action.body);
            self.actions.push(action.clone());
        }
    }

    /// Tables that statements switch on.
    fn switches(&mut self, all: &[Stmt]) {
        for stmt in all {
            match &stmt.kind {
                StmtKind::SwitchAction(table, cases, default) => {
                    self.table(table);
                    cases.iter().for_each(|(_, body)| self.switches(body));
                    self.switches(default);
                }
                StmtKind::If(_, then, otherwise) => {
                    self.switches(then);
                    self.switches(otherwise);
                }
                StmtKind::Block(body) => self.switches(body),
                StmtKind::Switch(_, cases, default) => {
                    cases.iter().for_each(|(_, body)| self.switches(body));
                    self.switches(default);
                }
                StmtKind::For { body, .. } | StmtKind::ForIn { body, .. } => self.switches(body),
                _ => {}
            }
        }
    }
}
