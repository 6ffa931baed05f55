//! A syntax tree as a P4 program, which means the same.

use super::{Lines, list};
use crate::ast::{
    Aggregate, Annotation, AnnotationBody, Arg, BlockType, Decl, DeclKind, Direction, Expr,
    ExprKind, Ident, Method, Param, Program, PropertyKind, Stmt, StmtKind, Transition, TypeKind,
    TypeRef, UnaryOp,
};
use crate::ir::BinaryOp;

pub(super) fn print(program: &Program) -> String {
    let mut out = Lines::default();
    for decl in &program.decls {
        self::decl(&mut out, decl);
    }
    out.text
}

/// Annotations, each followed by a blank.
fn annotations(all: &[Annotation]) -> String {
    all.iter().map(|annotation| format!("{} ", self::annotation(annotation))).collect()
}

fn annotation(annotation: &Annotation) -> String {
    let name = &annotation.name.name;
    match &annotation.body {
        AnnotationBody::None => format!("@{name}"),
        AnnotationBody::Raw { text, .. } => format!("@{name}({text})"),
        // Some annotations have their values in parentheses.
        AnnotationBody::Structured { text, .. } if crate::lexer::values_in_parentheses(name) => {
            format!("@{name}({text})")
        }
        AnnotationBody::Structured { text, .. } => format!("@{name}[{text}]"),
    }
}

fn decl(out: &mut Lines, decl: &Decl) {
    let notes = annotations(&decl.annotations);
    let name = &decl.name.name;
    match &decl.kind {
        DeclKind::Const { ty, value } => {
            out.line(format!("{notes}const {} {name} = {};", self::ty(ty), expr(value)));
        }
        DeclKind::Alias { ty, new } => {
            let word = if *new { "type" } else { "typedef" };
            out.line(format!("{notes}{word} {} {name};", self::ty(ty)));
        }
        DeclKind::Enum { members } => {
            out.line(format!("{notes}enum {name} {{ {} }}", names(members)));
        }
        DeclKind::SerEnum { ty, members } => {
            out.block(format!("{notes}enum {} {name}", self::ty(ty)), "", |out| {
                for (member, value) in members {
                    out.line(format!("{} = {},", member.name, expr(value)));
                }
            });
        }
        DeclKind::Errors { members } => out.line(format!("error {{ {} }}", names(members))),
        DeclKind::MatchKinds { members } => {
            out.line(format!("match_kind {{ {} }}", names(members)));
        }
        DeclKind::Aggregate { what, type_params, fields } => {
            let word = match what {
                Aggregate::Header => "header",
                Aggregate::Struct => "struct",
                Aggregate::Union => "header_union",
            };
            let head = format!("{notes}{word} {name}{}", generic(type_params));
            out.block(head, "", |out| {
                for field in fields {
                    let notes = annotations(&field.annotations);
                    out.line(format!("{notes}{} {};", self::ty(&field.ty), field.name.name));
                }
            });
        }
        DeclKind::Extern { type_params, methods } => {
            out.block(format!("{notes}extern {name}{}", generic(type_params)), "", |out| {
                for method in methods {
                    out.line(format!("{};", self::method(method)));
                }
            });
        }
        DeclKind::ExternFunction(method) => {
            out.line(format!("{notes}extern {};", self::method(method)));
        }
        DeclKind::Package { type_params, params } => {
            let (generic, params) = (generic(type_params), self::params(params));
            out.line(format!("{notes}package {name}{generic}({params});"));
        }
        DeclKind::ParserType(ty) => out.line(format!("{notes}parser {name}{};", signature(ty))),
        DeclKind::ControlType(ty) => out.line(format!("{notes}control {name}{};", signature(ty))),
        DeclKind::Parser(parser) => {
            let ctor = constructor(&parser.ctor_params);
            let head = format!("{notes}parser {name}{}{ctor}", signature(&parser.signature));
            out.block(head, "", |out| {
                parser.locals.iter().for_each(|local| self::decl(out, local));
                for state in &parser.states {
                    out.block(format!("state {}", state.name.name), "", |out| {
                        stmts(out, &state.body);
                        transition(out, &state.transition);
                    });
                }
            });
        }
        DeclKind::Control(control) => {
            let ctor = constructor(&control.ctor_params);
            let head = format!("{notes}control {name}{}{ctor}", signature(&control.signature));
            out.block(head, "", |out| {
                control.locals.iter().for_each(|local| self::decl(out, local));
                out.block("apply", "", |out| stmts(out, &control.apply));
            });
        }
        DeclKind::Action(action) => {
            let head = format!("{notes}action {name}({})", params(&action.params));
            out.block(head, "", |out| stmts(out, &action.body));
        }
        DeclKind::Function(function) => {
            let (ret, generic) = (self::ty(&function.ret), generic(&function.type_params));
            let head = format!("{notes}{ret} {name}{generic}({})", params(&function.params));
            out.block(head, "", |out| stmts(out, &function.body));
        }
        DeclKind::Table(table) => {
            out.block(format!("{notes}table {name}"), "", |out| {
                table.properties.iter().for_each(|property| self::property(out, property));
            });
        }
        DeclKind::Instance { ty, args, body } => {
            let head = format!("{notes}{}({}) {name}", self::ty(ty), self::args(args));
            match body {
                None => out.line(format!("{head};")),
                Some(methods) => out.block(format!("{head} ="), ";", |out| {
                    methods.iter().for_each(|method| self::decl(out, method));
                }),
            }
        }
        DeclKind::Variable { .. } => out.line(format!("{};", variable(decl))),
        DeclKind::ValueSet { ty, args } => {
            let (ty, args) = (self::ty(ty), self::args(args));
            out.line(format!("{notes}value_set<{ty}>({args}) {name};"));
        }
    }
}

/// A variable's declaration without its end.
fn variable(decl: &Decl) -> String {
    let (notes, name) = (annotations(&decl.annotations), &decl.name.name);
    match &decl.kind {
        DeclKind::Variable { ty, init: Some(init) } => {
            format!("{notes}{} {name} = {}", self::ty(ty), expr(init))
        }
        DeclKind::Variable { ty, init: None } => format!("{notes}{} {name}", self::ty(ty)),
        _ => String::new(),
    }
}

fn names(all: &[Ident]) -> String {
    list(all, |name| name.name.to_string())
}

fn generic(type_params: &[Ident]) -> String {
    if type_params.is_empty() { String::new() } else { format!("<{}>", names(type_params)) }
}

fn method(method: &Method) -> String {
    let prefix = if method.is_abstract { "abstract " } else { "" };
    let ret = method.ret.as_ref().map_or(String::new(), |ret| format!("{} ", ty(ret)));
    let (generic, params) = (generic(&method.type_params), params(&method.params));
    format!("{prefix}{ret}{}{generic}({params})", method.name.name)
}

fn params(all: &[Param]) -> String {
    list(all, |param| {
        let direction = match param.direction {
            Direction::None => "",
            Direction::In => "in ",
            Direction::Out => "out ",
            Direction::Inout => "inout ",
        };
        let notes = annotations(&param.annotations);
        let default = param.default.as_ref().map_or(String::new(), |e| format!(" = {}", expr(e)));
        format!("{notes}{direction}{} {}{default}", ty(&param.ty), param.name.name)
    })
}

fn signature(block: &BlockType) -> String {
    format!("{}({})", generic(&block.type_params), params(&block.params))
}

fn constructor(params: &[Param]) -> String {
    if params.is_empty() { String::new() } else { format!("({})", self::params(params)) }
}

fn transition(out: &mut Lines, transition: &Transition) {
    match transition {
        Transition::None => {}
        Transition::To(state) => out.line(format!("transition {};", state.name)),
        Transition::Select { on, cases } => {
            out.block(format!("transition select({})", list(on, expr)), "", |out| {
                for case in cases {
                    out.line(format!("{}: {};", keyset(&case.keyset), case.target.name));
                }
            });
        }
    }
}

fn property(out: &mut Lines, property: &crate::ast::Property) {
    let notes = annotations(&property.annotations);
    let word = if property.is_const { "const " } else { "" };
    let head = format!("{notes}{word}{} =", property.name.name);
    match &property.kind {
        PropertyKind::Key(keys) => out.block(head, "", |out| {
            for key in keys {
                let notes = suffix(&key.annotations);
                out.line(format!("{}: {}{notes};", expr(&key.value), key.kind.name));
            }
        }),
        PropertyKind::Actions(actions) => out.block(head, "", |out| {
            for action in actions {
                out.line(format!("{}{};", annotations(&action.annotations), expr(&action.value)));
            }
        }),
        PropertyKind::Entries(entries) => out.block(head, "", |out| {
            for entry in entries {
                let word = if entry.is_const { "const " } else { "" };
                let priority = entry.priority.as_ref();
                let priority =
                    priority.map_or(String::new(), |p| format!("priority = {}: ", expr(p)));
                let (keys, action) = (keyset(&entry.keyset), expr(&entry.action));
                let notes = suffix(&entry.annotations);
                out.line(format!("{word}{priority}{keys}: {action}{notes};"));
            }
        }),
        PropertyKind::Value(value) => out.line(format!("{head} {};", expr(value))),
    }
}

/// Annotations, each after a blank.
fn suffix(all: &[Annotation]) -> String {
    all.iter().map(|annotation| format!(" {}", self::annotation(annotation))).collect()
}

fn stmts(out: &mut Lines, all: &[Stmt]) {
    all.iter().for_each(|stmt| self::stmt(out, stmt));
}

fn stmt(out: &mut Lines, stmt: &Stmt) {
    match &stmt.kind {
        StmtKind::Decl(decl) => self::decl(out, decl),
        StmtKind::If(..) => conditional(out, "", stmt),
        StmtKind::Block(body) => out.block("", "", |out| stmts(out, body)),
        StmtKind::Switch(on, cases) => out.block(format!("switch ({})", expr(on)), "", |out| {
            for case in cases {
                let label = case.label.as_ref().map_or("default".to_owned(), expr);
                match &case.body {
                    None => out.line(format!("{label}:")),
                    Some(body) => out.block(format!("{label}:"), "", |out| stmts(out, body)),
                }
            }
        }),
        StmtKind::Exit => out.line("exit;"),
        StmtKind::Return(None) => out.line("return;"),
        StmtKind::Return(Some(value)) => out.line(format!("return {};", expr(value))),
        StmtKind::For { init, condition, update, body } => {
            let (init, update) = (list(init, simple), list(update, simple));
            let head = format!("for ({init}; {}; {update})", expr(condition));
            under(out, &head, body);
        }
        StmtKind::ForIn { variable, collection, body } => {
            let head = format!("for ({} in {})", self::variable(variable), expr(collection));
            under(out, &head, body);
        }
        StmtKind::Break => out.line("break;"),
        StmtKind::Continue => out.line("continue;"),
        StmtKind::Empty | StmtKind::Assign(..) | StmtKind::Update(..) | StmtKind::Call(_) => {
            out.line(format!("{};", simple(stmt)));
        }
    }
}

/// A statement without its end, as in the head of a loop.
fn simple(stmt: &Stmt) -> String {
    match &stmt.kind {
        StmtKind::Assign(to, value) => format!("{} = {}", expr(to), expr(value)),
        StmtKind::Update(op, to, value) => format!("{} {}= {}", expr(to), op.sign(), expr(value)),
        StmtKind::Call(call) => expr(call),
        StmtKind::Decl(decl) => variable(decl),
        _ => String::new(),
    }
}

/// A statement below a head: a block as it is, anything else on its own line.
fn under(out: &mut Lines, head: &str, body: &Stmt) {
    match &body.kind {
        StmtKind::Block(body) => out.block(head, "", |out| stmts(out, body)),
        _ => {
            out.line(head);
            out.depth += 1;
            stmt(out, body);
            out.depth -= 1;
        }
    }
}

/// `if`, after `else` or not.
fn conditional(out: &mut Lines, prefix: &str, stmt: &Stmt) {
    let StmtKind::If(condition, then, otherwise) = &stmt.kind else { return };
    let head = format!("{prefix}if ({})", expr(condition));
    // A block around the first statement, so that `else` belongs to this `if` when it is read again.
    match &then.kind {
        StmtKind::If(..) | StmtKind::For { .. } | StmtKind::ForIn { .. } if otherwise.is_some() => {
            out.block(head, "", |out| self::stmt(out, then));
        }
        _ => under(out, &head, then),
    }
    match otherwise.as_deref() {
        None => {}
        Some(next) if matches!(next.kind, StmtKind::If(..)) => conditional(out, "else ", next),
        Some(next) => under(out, "else", next),
    }
}

fn args(all: &[Arg]) -> String {
    list(all, |arg| match &arg.name {
        Some(name) => format!("{} = {}", name.name, expr(&arg.value)),
        None => expr(&arg.value),
    })
}

fn ty(ty: &TypeRef) -> String {
    match &ty.kind {
        TypeKind::Void => "void".to_owned(),
        TypeKind::Bool => "bool".to_owned(),
        TypeKind::Error => "error".to_owned(),
        TypeKind::String => "string".to_owned(),
        TypeKind::MatchKind => "match_kind".to_owned(),
        TypeKind::Int => "int".to_owned(),
        TypeKind::Bit(None) => "bit".to_owned(),
        TypeKind::Bit(Some(width)) => format!("bit<{}>", size(width)),
        TypeKind::Signed(width) => format!("int<{}>", size(width)),
        TypeKind::Varbit(width) => format!("varbit<{}>", size(width)),
        TypeKind::Name(name) => name.name.to_string(),
        TypeKind::Specialised(name, args) => format!("{}<{}>", name.name, list(args, self::ty)),
        TypeKind::Stack(of, size) => format!("{}[{}]", self::ty(of), expr(size)),
        TypeKind::Tuple(items) => format!("tuple<{}>", list(items, self::ty)),
        TypeKind::List(of) => format!("list<{}>", self::ty(of)),
        TypeKind::DontCare => "_".to_owned(),
    }
}

/// A width: anything but a number and a name in parentheses, because `>` ends it.
fn size(width: &Expr) -> String {
    match &width.kind {
        ExprKind::Int(..) | ExprKind::Name(_) => expr(width),
        _ => format!("({})", expr(width)),
    }
}

/// A keyset: several values stand in parentheses, not in braces.
fn keyset(e: &Expr) -> String {
    match &e.kind {
        ExprKind::List(items) if items.len() > 1 => format!("({})", list(items, expr)),
        _ => expr(e),
    }
}

/// How strongly an expression holds its parts together.
fn level(e: &Expr) -> u8 {
    match &e.kind {
        ExprKind::Mask(..) | ExprKind::Range(..) => 0,
        ExprKind::Mux(..) => 1,
        ExprKind::Binary(op, ..) => 2 + strength(*op),
        ExprKind::Unary(..) | ExprKind::Cast(..) => 20,
        _ => 30,
    }
}

fn strength(op: BinaryOp) -> u8 {
    match op {
        BinaryOp::Or => 0,
        BinaryOp::And => 1,
        BinaryOp::Eq | BinaryOp::Ne => 2,
        BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => 3,
        BinaryOp::BitOr => 4,
        BinaryOp::BitXor => 5,
        BinaryOp::BitAnd => 6,
        BinaryOp::Shl | BinaryOp::Shr => 7,
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::AddSat | BinaryOp::SubSat | BinaryOp::Concat => 8,
        BinaryOp::Mul | BinaryOp::Div | BinaryOp::Mod => 9,
    }
}

/// An operand, in parentheses if it holds less strongly than needed.
fn operand(e: &Expr, least: u8) -> String {
    if level(e) < least { format!("({})", expr(e)) } else { expr(e) }
}

fn expr(e: &Expr) -> String {
    match &e.kind {
        ExprKind::Int(value, None) => value.to_string(),
        ExprKind::Int(value, Some((signed, width))) => {
            format!("{width}{}{value}", if *signed { 's' } else { 'w' })
        }
        ExprKind::Bool(value) => value.to_string(),
        ExprKind::Text(text) => quoted(text),
        ExprKind::Name(name) => name.name.to_string(),
        ExprKind::Global(name) => format!(".{}", name.name),
        ExprKind::This => "this".to_owned(),
        ExprKind::TypeMember(of, member) => format!("{}.{}", ty(of), member.name),
        ExprKind::Member(of, member) => format!("{}.{}", operand(of, 30), member.name),
        ExprKind::Index(of, index) => format!("{}[{}]", operand(of, 30), expr(index)),
        ExprKind::Slice(of, hi, lo) => format!("{}[{}:{}]", operand(of, 30), expr(hi), expr(lo)),
        ExprKind::Part(of, lo, width) => {
            format!("{}[{}+:{}]", operand(of, 30), expr(lo), expr(width))
        }
        ExprKind::Unary(op, value) => {
            let sign = match op {
                UnaryOp::Not => "!",
                UnaryOp::BitNot => "~",
                UnaryOp::Neg => "-",
                UnaryOp::Plus => "+",
            };
            // `- -a` and `+ +a` are not `--a` and `++a`.
            let gap = if matches!(value.kind, ExprKind::Unary(..)) { " " } else { "" };
            format!("{sign}{gap}{}", operand(value, 20))
        }
        ExprKind::Binary(op, a, b) => {
            let own = level(e);
            format!("{} {} {}", operand(a, own), op.sign(), operand(b, own + 1))
        }
        ExprKind::Mux(condition, then, otherwise) => {
            format!("{} ? {} : {}", operand(condition, 1), operand(then, 1), operand(otherwise, 2))
        }
        ExprKind::Cast(to, value) => format!("({}){}", ty(to), operand(value, 20)),
        ExprKind::Call { callee, type_args, args } => {
            let generic = match type_args.is_empty() {
                true => String::new(),
                false => format!("<{}>", list(type_args, ty)),
            };
            format!("{}{generic}({})", operand(callee, 30), self::args(args))
        }
        ExprKind::Construct(of, args) => format!("{}({})", ty(of), self::args(args)),
        ExprKind::List(items) => format!("{{ {} }}", list(items, expr)),
        ExprKind::Record(items) => {
            let item = |(name, value): &(Ident, Expr)| match &value.kind {
                ExprKind::Ellipsis if &*name.name == "..." => "...".to_owned(),
                _ => format!("{} = {}", name.name, expr(value)),
            };
            format!("{{ {} }}", list(items, item))
        }
        ExprKind::Ellipsis => "...".to_owned(),
        ExprKind::Invalid => "{#}".to_owned(),
        ExprKind::Mask(value, mask) => format!("{} &&& {}", operand(value, 1), operand(mask, 1)),
        ExprKind::Range(low, high) => format!("{} .. {}", operand(low, 1), operand(high, 1)),
        ExprKind::Any => "_".to_owned(),
        ExprKind::Error => "/* an error */".to_owned(),
    }
}

/// A string literal.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '"' | '\\' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
