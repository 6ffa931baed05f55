//! Lowering: instantiates the package and everything in it, allocates storage, and writes IR.
//!
//! A parser or control is lowered once for each instance, in a frame that says what its names stand
//! for. Arguments are bound by reference where that cannot be told from copying (see [`calls`]).

mod build;
mod calls;
mod controls;
mod expr;
mod externs;
mod instances;
mod loops;
mod package;
mod parsers;
mod stateful;
mod stmt;
mod store;
mod tables;
mod tna;
mod unions;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::rc::Rc;

use crate::ast::Str;
use crate::hir::{self, DeclId};
use crate::ir::{self, ActionId, ExternId, FieldRole, HeaderId, StackId, TableId};
use crate::limits::CALL_DEPTH;
use crate::source::{Reporter, Span};
use crate::types::{Direction, Type};
use calls::BlockInstance;
use store::{Loc, Store};

/// What a name stands for.
#[derive(Clone)]
enum Binding {
    Loc(Loc),
    /// An `in` parameter or constructor parameter whose value is known.
    Value(Value),
    Extern(ExternId),
    Block(Rc<BlockInstance>),
    /// A package inside the package: its name and its constructor call.
    Package(Rc<str>, Rc<hir::Construct>),
    /// An object of the architecture that the compiler knows: `packet_in`, `packet_out`.
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
    /// An enum's member, which externs want by name.
    Symbol {
        enum_name: Str,
        member: Str,
        code: ir::Expr,
    },
    /// What `packet_in` and instances are worth as arguments.
    Object(Box<Binding>),
    Void,
}

/// A table that was lowered.
#[derive(Clone)]
struct LoweredTable {
    id: TableId,
    /// Computes keys that are no plain expressions.
    pre: Rc<[ir::Stmt]>,
    /// What these cost, see `limits`.
    steps: u64,
}

pub(crate) struct Lowerer<'r, 't> {
    reporter: &'r mut Reporter<'t>,
    program: ir::Program,
    /// Position of `NoError` in the order of declaration. Its code is zero even so, as all storage
    /// starts zeroed.
    no_error: usize,
    info: Info,
    /// Bindings of everything in scope; declarations are unique, so one map does. A block's
    /// bindings are put in when it is entered and taken out when it is left.
    vars: HashMap<DeclId, Binding>,
    /// Actions and tables of the block instance being lowered, and actions of the top level.
    actions: HashMap<DeclId, ActionId>,
    tables: HashMap<DeclId, LoweredTable>,
    top_actions: HashMap<DeclId, ActionId>,
    no_action: Option<Rc<hir::Action>>,
    /// Statements go here.
    out: Vec<ir::Stmt>,
    /// Hierarchical name of the block being lowered.
    prefix: String,
    temps: u32,
    /// Calls under way.
    depth: u32,
    /// Bits of all fields.
    bits: u64,
    labels: u32,
    /// Loops around the current statement, innermost last.
    loops: Vec<loops::Labels>,
    /// Whether the block being lowered belongs to TNA's egress.
    egress: bool,
    /// Whether an action's body is being lowered.
    in_action: bool,
    /// Where a function's `return` puts the value.
    result: Option<Store>,
    /// What `exit` must copy out, outermost call first.
    copy_outs: Vec<Vec<(Loc, Store, Type)>>,
    enums: HashMap<u32, usize>,
    /// For each header of a union, and each stack of one member of unions: all of that union.
    unions: HashMap<HeaderId, Rc<[HeaderId]>>,
    union_stacks: HashMap<StackId, Rc<[StackId]>>,
    /// What register actions take of their registers' stateful ALUs.
    uses: Vec<crate::tofino::Use>,
    /// The arguments of all calls of an instance in the block that declares it.
    sites: HashMap<DeclId, Vec<Vec<hir::CallArg>>>,
}

/// What P4Info needs beyond the IR.
#[derive(Debug, Default)]
pub(crate) struct Info {
    /// Annotations of `main`.
    pub(crate) package: Vec<ir::Annotation>,
    /// For each action: type and annotations of its run-time parameters.
    pub(crate) action_params: Vec<Vec<(Str, Type, Vec<ir::Annotation>)>>,
    /// For each action: whether a table has it or a block calls it. What only other actions call is
    /// part of those, and no business of a control plane.
    pub(crate) exposed: Vec<bool>,
    /// For each table.
    pub(crate) tables: Vec<TableInfo>,
    /// Actions that blocks call directly, with arguments, and so were inlined.
    pub(crate) inlined_actions: Vec<InlinedAction>,
    /// Name and type of each digest.
    pub(crate) digests: Vec<(String, Type)>,
    /// Header types with `@controller_header`.
    pub(crate) headers: Vec<Type>,
    /// For each extern: its type arguments.
    pub(crate) extern_types: Vec<Vec<Type>>,
    /// For each extern: where it is declared.
    pub(crate) extern_spans: Vec<Span>,
    /// Where calls of stateful actions stand, by the field that receives the result.
    pub(crate) calls: HashMap<ir::FieldId, Span>,
}

/// What P4Info needs of a table.
#[derive(Debug, Default)]
pub(crate) struct TableInfo {
    pub(crate) key_types: Vec<Type>,
    /// Annotations in the list of actions.
    pub(crate) action_annotations: Vec<Vec<ir::Annotation>>,
}

/// An action that has no place in the IR.
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
        vars: HashMap::new(),
        actions: HashMap::new(),
        tables: HashMap::new(),
        top_actions: HashMap::new(),
        no_action: program.no_action.clone(),
        out: Vec::new(),
        prefix: String::new(),
        temps: 0,
        depth: 0,
        bits: 0,
        labels: 0,
        loops: Vec::new(),
        egress: false,
        in_action: false,
        result: None,
        copy_outs: Vec::new(),
        enums: HashMap::new(),
        unions: HashMap::new(),
        union_stacks: HashMap::new(),
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

    /// Goes into a function, an action, a parser or a control.
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

    /// Statements that `f` emits, kept apart.
    fn buffered(&mut self, f: impl FnOnce(&mut Self)) -> Vec<ir::Stmt> {
        let outer = std::mem::take(&mut self.out);
        f(self);
        std::mem::replace(&mut self.out, outer)
    }

    fn emit(&mut self, stmt: ir::Stmt) {
        self.reporter.work(1);
        self.out.push(stmt);
    }

    /// Hierarchical name of a declaration: in the current block, or as `@name` says.
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

    /// The code of the error that is declared at a position.
    fn error_code(&self, position: usize) -> usize {
        match position.cmp(&self.no_error) {
            Ordering::Less => position + 1,
            Ordering::Equal => 0,
            Ordering::Greater => position,
        }
    }

    /// Storage for locals of any type.
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
