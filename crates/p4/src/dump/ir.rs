//! The intermediate representation: storage, externs, actions, tables, blocks.

use super::{Lines, list};
use crate::graph::{Text, number};
use crate::ir::{
    ActionCall, Arg, Block, CtorArg, ExternCall, FieldId, FieldRole, HeaderRef, Inlined, Keyset,
    Mark, MatchKind, Program, Stmt, Table, Target, Transition,
};

pub(super) fn print(program: &Program) -> String {
    let mut out = Lines::default();
    let printer = Printer { program, text: Text(program) };
    printer.storage(&mut out);
    printer.externs(&mut out);
    printer.actions(&mut out);
    program.tables.iter().for_each(|table| printer.table(&mut out, table));
    printer.parsers(&mut out);
    for control in &program.controls {
        out.block(format!("control {}", control.name), "", |out| {
            printer.stmts(out, &control.body);
        });
    }
    printer.package(&mut out);
    out.text
}

struct Printer<'p> {
    program: &'p Program,
    text: Text<'p>,
}

impl Printer<'_> {
    fn field(&self, field: FieldId) -> &str {
        &self.program.fields[field.index()].name
    }

    fn storage(&self, out: &mut Lines) {
        for field in &self.program.fields {
            // Fields of headers follow, with their headers.
            let role = match field.role {
                FieldRole::Header(_) | FieldRole::Validity(_) => continue,
                FieldRole::Intrinsic => "intrinsic",
                FieldRole::Metadata => "metadata",
                FieldRole::Local => "local",
                FieldRole::ActionParam => "parameter",
            };
            out.line(format!("{role} {} {};", field.ty, field.name));
        }
        for header in &self.program.headers {
            out.block(format!("header {}: {}", header.name, header.type_name), "", |out| {
                for field in &header.fields {
                    out.line(format!(
                        "{} {};",
                        self.program.fields[field.index()].ty,
                        self.field(*field)
                    ));
                }
                if let Some((at, length)) = header.varbit {
                    let (field, length) = (self.field(header.fields[at]), self.field(length));
                    out.line(format!("length of {field}: {length};"));
                }
            });
        }
        for stack in &self.program.stacks {
            let elements =
                list(&stack.elements, |header| self.program.headers[header.index()].name.clone());
            out.line(format!("stack {} = {{ {elements} }};", stack.name));
        }
    }

    fn externs(&self, out: &mut Lines) {
        for instance in &self.program.externs {
            let args = list(&instance.args, |arg| match arg {
                CtorArg::Int(value) => value.to_string(),
                CtorArg::Instance(id) => self.program.externs[id.index()].name.clone(),
                CtorArg::Symbol(ty, member) => format!("{ty}.{member}"),
                CtorArg::Text(text) => format!("{text:?}"),
            });
            let types = list(&instance.type_args, ToString::to_string);
            let types = if types.is_empty() { types } else { format!("<{types}>") };
            out.line(format!("extern {}{types}({args}) {};", instance.type_name, instance.name));
        }
        for action in &self.program.stateful {
            let name = |id: crate::ir::ExternId| &self.program.externs[id.index()].name;
            let cell = list(&action.value, |field| self.field(*field).to_owned());
            let result = action.result.map_or(String::new(), |f| format!(" → {}", self.field(f)));
            let head = format!(
                "stateful {} on {}({cell}){result}",
                name(action.instance),
                name(action.register)
            );
            out.block(head, "", |out| self.stmts(out, &action.body));
        }
    }

    fn actions(&self, out: &mut Lines) {
        for action in &self.program.actions {
            let params = list(&action.params, |param| {
                format!("{} {}", self.program.fields[param.index()].ty, self.field(*param))
            });
            out.block(format!("action {}({params})", action.name), "", |out| {
                self.stmts(out, &action.body);
            });
        }
    }

    fn table(&self, out: &mut Lines, table: &Table) {
        let call = |call: &ActionCall| {
            let action = &self.program.actions[table.actions[call.action as usize].action.index()];
            format!("{}({})", action.name, list(&call.args, |value| number(value)))
        };
        out.block(format!("table {}", table.name), "", |out| {
            for key in &table.keys {
                let kind = kind(key.kind);
                out.line(format!(
                    "key {} = {}: {kind};",
                    key.name,
                    self.text.whole_expr(&key.value)
                ));
            }
            for offered in &table.actions {
                let scope = match offered.scope.annotation() {
                    "" => String::new(),
                    annotation => format!(" {annotation}"),
                };
                let head = format!("action {}", self.program.actions[offered.action.index()].name);
                if offered.prologue.is_empty() {
                    out.line(format!("{head}{scope};"));
                } else {
                    out.block(format!("{head}{scope} after"), "", |out| {
                        self.stmts(out, &offered.prologue);
                    });
                }
            }
            let word = if table.const_default { "const " } else { "" };
            out.line(format!("{word}default_action = {};", call(&table.default_action)));
            for entry in &table.entries {
                let word = if entry.is_const || table.const_entries { "const " } else { "" };
                let priority = entry.priority.map_or(String::new(), |p| format!("{p}: "));
                let keys = list(&entry.keys, |key| self.keyset(key));
                out.line(format!("{word}entry {priority}({keys}): {};", call(&entry.call)));
            }
            out.line(format!("size = {};", table.size));
            for attached in &table.attached {
                out.line(format!("attached {};", self.program.externs[attached.index()].name));
            }
            if table.idle_timeout {
                out.line("idle_timeout;");
            }
        });
    }

    fn keyset(&self, keyset: &Keyset) -> String {
        match keyset {
            Keyset::Any => "_".to_owned(),
            other => self.text.keysets(std::slice::from_ref(other)),
        }
    }

    fn parsers(&self, out: &mut Lines) {
        for parser in &self.program.parsers {
            let target = |target: &Target| match target {
                Target::Accept => "accept".to_owned(),
                Target::Reject => "reject".to_owned(),
                Target::State(id) => parser.states[id.index()].name.clone(),
            };
            out.block(format!("parser {}", parser.name), "", |out| {
                for state in &parser.states {
                    out.block(format!("state {}", state.name), "", |out| {
                        self.stmts(out, &state.body);
                        match &state.transition {
                            Transition::To(to) => out.line(format!("transition {};", target(to))),
                            Transition::Select { on, cases } => {
                                let on = list(on, |e| self.text.whole_expr(e));
                                out.block(format!("transition select({on})"), "", |out| {
                                    for (keys, to) in cases {
                                        let keys = list(keys, |key| self.keyset(key));
                                        out.line(format!("({keys}): {};", target(to)));
                                    }
                                });
                            }
                        }
                    });
                }
            });
        }
    }

    fn package(&self, out: &mut Lines) {
        let blocks = list(&self.program.blocks, |(role, block)| {
            let name = match block {
                Block::Parser(id) => &self.program.parsers[id.index()].name,
                Block::Control(id) => &self.program.controls[id.index()].name,
            };
            format!("{role} = {name}")
        });
        out.line(format!("package {}({blocks});", self.program.package));
        for (number, fields) in &self.program.field_lists {
            let fields = list(fields, |field| self.field(*field).to_owned());
            out.line(format!("field_list {number} {{ {fields} }};"));
        }
    }

    fn stmts(&self, out: &mut Lines, all: &[Stmt]) {
        all.iter().for_each(|stmt| self.stmt(out, stmt));
    }

    fn stmt(&self, out: &mut Lines, stmt: &Stmt) {
        let value = |e| self.text.whole_expr(e);
        match stmt {
            Stmt::If { condition, then, otherwise } => {
                out.block(format!("if ({})", value(condition)), "", |out| self.stmts(out, then));
                if !otherwise.is_empty() {
                    out.block("else", "", |out| self.stmts(out, otherwise));
                }
            }
            Stmt::Switch { on, cases, default } => {
                out.block(format!("switch ({})", value(on)), "", |out| {
                    for (label, body) in cases {
                        out.block(format!("{}:", number(label)), "", |out| self.stmts(out, body));
                    }
                    out.block("default:", "", |out| self.stmts(out, default));
                });
            }
            Stmt::Block(body) => out.block("scope", "", |out| self.stmts(out, body)),
            Stmt::Loop(label, body) => {
                out.block(format!("loop {}", label.0), "", |out| self.stmts(out, body));
            }
            Stmt::Labelled(label, body) => {
                out.block(format!("scope {}", label.0), "", |out| self.stmts(out, body));
            }
            Stmt::Leave(label) => out.line(format!("leave {};", label.0)),
            Stmt::Apply { table, hit, action } => {
                let name = &self.program.tables[table.index()].name;
                let hit = hit.map_or(String::new(), |f| format!(", hit → {}", self.field(f)));
                let ran = action.map_or(String::new(), |f| format!(", action → {}", self.field(f)));
                out.line(format!("{name}.apply(){hit}{ran};"));
            }
            Stmt::Call(call) => out.line(format!("{};", self.call(call))),
            Stmt::Lookahead(fields) => {
                let fields = list(fields, |field| self.field(*field).to_owned());
                out.line(format!("{{ {fields} }} = lookahead;"));
            }
            Stmt::Verify { condition, error } => {
                out.line(format!("verify({}, {});", value(condition), value(error)));
            }
            Stmt::Displace(header) => out.line(format!("{}.displace();", self.header(header))),
            Stmt::Extract { header, varbit_bits } => {
                let bits =
                    varbit_bits.as_ref().map_or(String::new(), |e| format!(", {}", value(e)));
                out.line(format!("extract({}{bits});", self.header(header)));
            }
            Stmt::Mark(Mark::At(at, _)) => out.line(format!("// {}", self.program.place(*at))),
            Stmt::Mark(Mark::Enter(kind, name)) => {
                let kind = match kind {
                    Inlined::Function => "function",
                    Inlined::Action => "action",
                    Inlined::Control => "control",
                };
                out.line(format!("// {kind} {name}"));
            }
            Stmt::Mark(Mark::Leave) => out.line("// end"),
            plain => out.line(format!("{};", self.text.whole_stmt(plain))),
        }
    }

    fn header(&self, header: &HeaderRef) -> String {
        self.text.header(header)
    }

    fn call(&self, call: &ExternCall) -> String {
        let args = list(&call.args, |arg| match arg {
            Arg::In(value) => self.text.whole_expr(value),
            Arg::Out(place, _) => format!("out {}", self.text.place(place)),
            Arg::List(values) => {
                format!("{{ {} }}", list(values, |value| self.text.whole_expr(value)))
            }
            Arg::Header(header) => self.header(header),
            Arg::Opaque => "…".to_owned(),
            Arg::Copy(fields) => {
                let fields =
                    list(fields, |(name, field)| format!("{name} = {}", self.field(*field)));
                format!("{{ {fields} }}")
            }
            Arg::Text(text) => format!("{text:?}"),
            Arg::Symbol(ty, member) => format!("{ty}.{member}"),
        });
        match call.instance {
            Some(id) => {
                format!("{}.{}({args})", self.program.externs[id.index()].name, call.method)
            }
            None => format!("{}({args})", call.method),
        }
    }
}

fn kind(kind: MatchKind) -> String {
    format!("{kind:?}").to_lowercase()
}
