//! Lowering: instantiates the package and its contents, allocates storage, and emits IR.
//!
//! A parser or control is lowered once per instance, in a frame that binds its names. Arguments are
//! bound by reference if that is indistinguishable from copying (see [`calls`]).

mod build;
mod calls;
mod choice;
mod controls;
mod expr;
mod externs;
mod instances;
mod integers;
mod loops;
mod marks;
mod names;
mod package;
mod parsers;
mod psa;
mod registers;
mod stateful;
mod stmt;
mod store;
mod tables;
mod tna;
mod tna_parser;
mod unions;

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::ast::Str;
use crate::hir::{self, DeclId};
use crate::ir::{self, ActionId, ExternId, FieldRole, HeaderId, StackId, TableId};
use crate::limits::CALL_DEPTH;
use crate::source::{Reporter, Span};
use crate::types::{Direction, Type};
use calls::BlockInstance;
use store::{Loc, Store};

/// The binding of a name.
#[derive(Clone)]
enum Binding {
    Loc(Loc),
    /// An `in` parameter or constructor parameter with a known value.
    Value(Value),
    Extern(ExternId),
    Block(Rc<BlockInstance>),
    /// A nested package: its name and its constructor call.
    Package(Rc<str>, Rc<hir::Construct>),
    /// An architecture object that the compiler knows: `packet_in`, `packet_out`.
    Packet,
}

/// The value of an expression.
#[derive(Clone)]
enum Value {
    Scalar(ir::Expr),
    /// Parts of a struct, tuple or header.
    List(Vec<Value>),
    Loc(Loc),
    /// `{#}`
    Invalid,
    Text(Str),
    /// A member of an enum, which externs need by name.
    Symbol {
        enum_name: Str,
        member: Str,
        code: ir::Expr,
    },
    /// `packet_in` or an instance as an argument.
    Object(Box<Binding>),
    Void,
}

/// A lowered table.
#[derive(Clone)]
struct LoweredTable {
    id: TableId,
    /// Computes keys that are not plain expressions.
    pre: Rc<[ir::Stmt]>,
    /// The cost of these statements, see `limits`.
    steps: u64,
}

pub(crate) struct Lowerer<'r, 't> {
    reporter: &'r mut Reporter<'t>,
    program: ir::Program,
    /// Position of `NoError` in the order of declaration. Its code is zero in any case, because
    /// storage starts zeroed.
    no_error: usize,
    info: Info,
    /// Whether to mark where statements come from.
    marks: bool,
    /// Bindings of everything in scope. Declarations are unique, so one map suffices. A block's
    /// bindings are inserted on entry and removed on exit.
    vars: HashMap<DeclId, Binding>,
    /// Actions and tables of the block instance that is being lowered, and top-level actions.
    actions: HashMap<DeclId, ActionId>,
    tables: HashMap<DeclId, LoweredTable>,
    /// Names of all tables.
    table_names: HashSet<String>,
    top_actions: HashMap<DeclId, ActionId>,
    no_action: Option<Rc<hir::Action>>,
    /// The output for statements.
    out: Vec<ir::Stmt>,
    /// Hierarchical name of the block that is being lowered.
    prefix: String,
    temps: u32,
    /// Depth of active calls.
    depth: u32,
    /// Total bits of all fields.
    bits: u64,
    labels: u32,
    /// Loops around the current statement, innermost last.
    loops: Vec<loops::Labels>,
    /// Storage of PSA's metadata that deparsers hand to parsers: block, parameter, type.
    bridged: Vec<psa::Bridged>,
    /// Whether the current block belongs to TNA's egress.
    egress: bool,
    /// Whether the current body is that of an action.
    in_action: bool,
    /// The storage for a function's return value.
    result: Option<Store>,
    /// The copies that `exit` must write back, outermost call first.
    copy_outs: Vec<Vec<(Loc, Store, Type)>>,
    enums: HashMap<u32, usize>,
    /// Serialisable enums of header fields, by ID: index into the names of values.
    value_enums: HashMap<u32, usize>,
    /// For each header of a union, and each stack of a union member: all headers or stacks of that
    /// union.
    unions: HashMap<HeaderId, Rc<[HeaderId]>>,
    union_stacks: HashMap<StackId, Rc<[StackId]>>,
    /// The storage of TNA's parser counters.
    parser_counters: HashMap<ExternId, ir::FieldId>,
    /// For each request of a TNA deparser (its type's field): whether it was written for this packet.
    requested: HashMap<ir::FieldId, ir::FieldId>,
    /// The resources that register actions use of their registers' stateful ALUs.
    uses: Vec<crate::tofino::Use>,
    /// The arguments of all calls of an instance in the block that declares it.
    sites: HashMap<DeclId, Vec<Vec<hir::CallArg>>>,
}

/// Information for P4Info that is not in the IR.
#[derive(Debug, Default)]
pub(crate) struct Info {
    /// Annotations of `main`.
    pub(crate) package: Vec<ir::Annotation>,
    /// For each action: type and annotations of its run-time parameters.
    pub(crate) action_params: Vec<Vec<(Str, Type, Vec<ir::Annotation>)>>,
    /// For each action: whether a table lists it or a block calls it. Actions that are only called
    /// by actions are inlined there, and the control plane does not see them.
    pub(crate) exposed: Vec<bool>,
    /// For each table.
    pub(crate) tables: Vec<TableInfo>,
    /// Actions that blocks call directly with arguments, which are inlined.
    pub(crate) inlined_actions: Vec<InlinedAction>,
    /// Name and type of each digest.
    pub(crate) digests: Vec<(String, Type)>,
    /// Header types with `@controller_header`.
    pub(crate) headers: Vec<Type>,
    /// For each extern: its type arguments.
    pub(crate) extern_types: Vec<Vec<Type>>,
    /// Positions of calls of stateful actions, by the field that receives the result.
    pub(crate) calls: HashMap<ir::FieldId, Span>,
}

/// Information on a table for P4Info.
#[derive(Debug, Default)]
pub(crate) struct TableInfo {
    pub(crate) key_types: Vec<Type>,
    /// Annotations in the action list.
    pub(crate) action_annotations: Vec<Vec<ir::Annotation>>,
}

/// An action that exists only inlined.
#[derive(Debug)]
pub(crate) struct InlinedAction {
    pub(crate) name: String,
    pub(crate) annotations: Vec<ir::Annotation>,
    pub(crate) params: Vec<(Str, Type, Vec<ir::Annotation>)>,
}

/// Lowers a checked program.
pub(crate) fn lower(
    reporter: &mut Reporter<'_>,
    program: &hir::Program,
    source: &str,
    marks: bool,
) -> (ir::Program, Info) {
    let no_error = program.errors.iter().position(|e| &**e == "NoError").unwrap_or(0);
    let mut errors: Vec<String> = program.errors.iter().map(ToString::to_string).collect();
    if let Some(front) = errors.get_mut(..=no_error) {
        front.rotate_right(1);
    }
    let mut lowerer = Lowerer {
        reporter,
        no_error,
        program: ir::Program { source: source.to_owned(), errors, ..ir::Program::default() },
        info: Info::default(),
        marks,
        vars: HashMap::new(),
        actions: HashMap::new(),
        tables: HashMap::new(),
        table_names: HashSet::new(),
        top_actions: HashMap::new(),
        no_action: program.no_action.clone(),
        out: Vec::new(),
        prefix: String::new(),
        temps: 0,
        depth: 0,
        bits: 0,
        labels: 0,
        loops: Vec::new(),
        bridged: Vec::new(),
        egress: false,
        in_action: false,
        result: None,
        copy_outs: Vec::new(),
        enums: HashMap::new(),
        value_enums: HashMap::new(),
        unions: HashMap::new(),
        union_stacks: HashMap::new(),
        parser_counters: HashMap::new(),
        requested: HashMap::new(),
        uses: Vec::new(),
        sites: HashMap::new(),
    };
    lowerer.package(program);
    lowerer.check_tofino();
    (lowerer.program, lowerer.info)
}

impl Lowerer<'_, '_> {
    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.reporter.error(span, message);
    }

    /// Enters a function, an action, a parser or a control.
    fn deeper<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        self.depth += 1;
        if self.depth > CALL_DEPTH {
            let message = format!(
                "more than {CALL_DEPTH} functions, actions, parsers or controls inside one another"
            );
            self.reporter.stop_here(message, "reduce how often they use one another");
        }
        let result = f(self);
        self.depth -= 1;
        result
    }

    fn unsupported(&mut self, span: Span, what: &str) {
        self.reporter.unsupported(span, what);
    }

    /// Collects the statements that `f` emits.
    fn buffered(&mut self, f: impl FnOnce(&mut Self)) -> Vec<ir::Stmt> {
        let outer = std::mem::take(&mut self.out);
        f(self);
        std::mem::replace(&mut self.out, outer)
    }

    fn emit(&mut self, stmt: ir::Stmt) {
        self.reporter.work(1);
        let request = match &stmt {
            ir::Stmt::Assign(ir::Place::Field(field) | ir::Place::Slice(field, ..), _) => {
                self.requested.get(field).copied()
            }
            _ => None,
        };
        self.out.push(stmt);
        if let Some(flag) = request {
            self.out.push(ir::Stmt::Assign(ir::Place::Field(flag), build::boolean(true)));
        }
    }

    /// Hierarchical name of a declaration: within the current block, or given by `@name`.
    fn qualify(&mut self, name: &str, annotations: &[ir::Annotation]) -> String {
        // The instance has a copy of its annotations.
        let copied: usize = annotations.iter().map(|a| 1 + a.body.len() / 32).sum();
        self.reporter.work((1 + self.prefix.len() / 32 + copied) as u64);
        let given = annotations.iter().find(|a| a.name == "name").map(|a| a.body.as_str());
        match given.unwrap_or(name) {
            absolute if absolute.starts_with('.') => absolute[1..].to_owned(),
            local if self.prefix.is_empty() => local.to_owned(),
            local => format!("{}.{local}", self.prefix),
        }
    }

    /// Index of an enum type in the program.
    fn enum_index(&mut self, e: &crate::types::EnumType) -> usize {
        let program = &mut self.program;
        *self.enums.entry(e.id).or_insert_with(|| {
            program
                .enums
                .push((e.name.to_string(), e.members.iter().map(ToString::to_string).collect()));
            program.enums.len() - 1
        })
    }

    /// The code of the error that is declared at this position.
    fn error_code(&self, position: usize) -> usize {
        match position.cmp(&self.no_error) {
            Ordering::Less => position + 1,
            Ordering::Equal => 0,
            Ordering::Greater => position,
        }
    }

    /// Allocates storage for a local of any type.
    fn local(&mut self, name: &str, ty: &Type) -> Store {
        let name = if self.prefix.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.prefix)
        };
        self.allocate(&name, ty, FieldRole::Local)
    }

    fn is_output(direction: Direction) -> bool {
        matches!(direction, Direction::Out | Direction::Inout)
    }
}
