//! Lowering: instantiates the package and everything in it, allocates storage, and writes IR.
//!
//! A parser or control is lowered once for each instance, in a frame that says what its names stand
//! for. Arguments are bound by reference where that cannot be told from copying (see [`calls`]).

mod build;
mod calls;
mod controls;
mod expr;
mod externs;
mod parsers;
mod stmt;
mod store;
mod tables;

use std::collections::HashMap;
use std::rc::Rc;

use num_bigint::BigInt;
use num_traits::ToPrimitive;

use crate::ast::Str;
use crate::hir::{self, DeclId, ExprKind};
use crate::ir::{self, ActionId, Block, CtorArg, ExternId, FieldRole, TableId};
use crate::source::{Reporter, Span};
use crate::types::{Aggregate, BlockKind, Direction, Type};
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
}

pub(crate) struct Lowerer<'r, 't> {
    reporter: &'r mut Reporter<'t>,
    program: ir::Program,
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
    /// Whether an action's body is being lowered.
    in_action: bool,
    /// Where a function's `return` puts the value.
    result: Option<Store>,
    /// What `exit` must copy out, outermost call first.
    copy_outs: Vec<Vec<(Loc, Store, Type)>>,
    enums: HashMap<u32, usize>,
    /// The arguments of all calls of an instance in the block that declares it.
    sites: HashMap<DeclId, Vec<Vec<hir::CallArg>>>,
}

/// What P4Info needs beyond the IR.
#[derive(Debug, Default)]
pub(crate) struct Info {
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
    let mut lowerer = Lowerer {
        reporter,
        program: ir::Program {
            source: source.to_owned(),
            errors: program.errors.iter().map(ToString::to_string).collect(),
            ..ir::Program::default()
        },
        info: Info::default(),
        vars: HashMap::new(),
        actions: HashMap::new(),
        tables: HashMap::new(),
        top_actions: HashMap::new(),
        no_action: program.no_action.clone(),
        out: Vec::new(),
        prefix: String::new(),
        temps: 0,
        in_action: false,
        result: None,
        copy_outs: Vec::new(),
        enums: HashMap::new(),
        sites: HashMap::new(),
    };
    lowerer.package(program);
    (lowerer.program, lowerer.info)
}

impl Lowerer<'_, '_> {
    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.reporter.error(span, message);
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
        self.out.push(stmt);
    }

    fn package(&mut self, program: &hir::Program) {
        let Some(main) = &program.main else {
            self.error(
                Span::default(),
                "the program has no `main`: instantiate a package, as in `V1Switch(…) main;`",
            );
            return;
        };
        let Type::Package(package) = &main.construct.ty else {
            self.error(main.span, "`main` is not an instance of a package");
            return;
        };
        self.program.package = package.name.to_string();
        for instance in &program.instances {
            let binding = self.instance(instance);
            self.vars.insert(instance.id, binding);
        }
        // Parameters of one package type are one storage: the headers that the parser fills are
        // those that the controls change and the deparser emits.
        let mut shared: Vec<(Type, Store)> = Vec::new();
        for (param, arg) in package.params.iter().zip(&main.construct.args) {
            let Some(construct) = self.block_argument(arg) else { continue };
            let Some(block) = construct.block.clone() else { continue };
            let Type::Block(formal) = &param.ty else { continue };
            let mut binds = Vec::with_capacity(block.params.len());
            for (p, f) in block.params.iter().zip(&formal.params) {
                binds.push(self.package_param(p, &f.ty, &mut shared));
            }
            let ctor = self.constructor_bindings(&block, &construct.args);
            let instance =
                Rc::new(BlockInstance::new(block.clone(), block.name.to_string(), Rc::new(ctor)));
            let bound = block.params.iter().map(|p| p.id).zip(binds).collect();
            let block = match block.kind {
                BlockKind::Control => Block::Control(self.top_control(&instance, bound)),
                BlockKind::Parser => Block::Parser(self.top_parser(&instance, bound)),
            };
            self.program.blocks.push((param.name.to_string(), block));
        }
    }

    /// The constructor call of a package argument: in place, or of a named instance.
    fn block_argument(&mut self, arg: &hir::Expr) -> Option<Rc<hir::Construct>> {
        match &arg.kind {
            ExprKind::Construct(c) => Some(c.clone()),
            ExprKind::Var(id) => match self.vars.get(id) {
                Some(Binding::Block(b)) => b.construct.clone(),
                _ => None,
            },
            ExprKind::Error => None,
            _ => {
                self.unsupported(arg.span, "package arguments other than parsers and controls are");
                None
            }
        }
    }

    fn package_param(
        &mut self,
        p: &hir::Param,
        formal: &Type,
        shared: &mut Vec<(Type, Store)>,
    ) -> Binding {
        if let Type::Extern(..) = p.ty {
            return Binding::Packet;
        }
        if let Some((_, store)) = shared.iter().find(|(ty, _)| ty == formal) {
            return Binding::Loc(Loc::Store(store.clone()));
        }
        let role = match formal {
            Type::Var(_) => FieldRole::Metadata,
            _ => FieldRole::Intrinsic,
        };
        let store = self.allocate(&p.name, &p.ty, role);
        if let (FieldRole::Intrinsic, Type::Struct(s), Store::Struct(parts)) = (role, &p.ty, &store)
        {
            for (field, part) in s.fields.iter().zip(parts.iter()) {
                if let Store::Scalar(id) = part {
                    self.program.intrinsic.push((field.name.to_string(), *id));
                }
            }
        }
        self.collect_controller_headers(&p.ty);
        shared.push((formal.clone(), store.clone()));
        Binding::Loc(Loc::Store(store))
    }

    fn collect_controller_headers(&mut self, ty: &Type) {
        let Type::Struct(s) = ty else { return };
        if s.what == Aggregate::Header {
            let wanted = s.annotations.iter().any(|a| a.name == "controller_header");
            if wanted && !self.info.headers.contains(ty) {
                self.info.headers.push(ty.clone());
            }
            return;
        }
        for field in &s.fields {
            self.collect_controller_headers(&field.ty);
        }
    }

    /// What an instance's name stands for; externs are created.
    fn instance(&mut self, instance: &hir::Instance) -> Binding {
        let name = self.qualify(&instance.name, &instance.annotations);
        let construct = &instance.construct;
        match &construct.ty {
            Type::Extern(e, type_args) => {
                let args = construct.args.iter().map(|a| self.ctor_arg(a)).collect();
                let id = ExternId(self.program.externs.len() as u32);
                self.program.externs.push(ir::Extern {
                    name,
                    type_name: e.name.to_string(),
                    type_args: type_args.iter().filter_map(store::scalar).collect(),
                    args,
                    annotations: instance.annotations.clone(),
                });
                self.info.extern_types.push(type_args.to_vec());
                Binding::Extern(id)
            }
            _ => match &construct.block {
                Some(block) => {
                    let ctor = self.constructor_bindings(block, &construct.args);
                    let mut new = BlockInstance::new(block.clone(), name, Rc::new(ctor));
                    new.construct = Some(construct.clone());
                    Binding::Block(Rc::new(new))
                }
                None => {
                    self.unsupported(instance.span, "packages inside packages are");
                    Binding::Value(Value::Void)
                }
            },
        }
    }

    /// What the constructor parameters of a block stand for.
    fn constructor_bindings(
        &mut self,
        block: &hir::Block,
        args: &[hir::Expr],
    ) -> HashMap<DeclId, Binding> {
        let mut map = HashMap::new();
        for (param, arg) in block.ctor_params.iter().zip(args) {
            let value = self.value(arg);
            let binding = match value {
                Value::Object(binding) => *binding,
                Value::Scalar(e) if build::value(&e).is_none() => {
                    self.error(arg.span, "a constructor's argument must be known at compile time");
                    Binding::Value(Value::Scalar(e))
                }
                value => Binding::Value(value),
            };
            map.insert(param.id, binding);
        }
        map
    }

    fn ctor_arg(&mut self, arg: &hir::Expr) -> CtorArg {
        match self.value(arg) {
            Value::Text(t) => CtorArg::Text(t.to_string()),
            Value::Symbol { enum_name, member, .. } => {
                CtorArg::Symbol(enum_name.to_string(), member.to_string())
            }
            Value::Scalar(e) => match build::value(&e).as_ref().and_then(BigInt::to_u128) {
                Some(v) => CtorArg::Int(v),
                None => {
                    self.error(arg.span, "a constructor's argument must be known at compile time");
                    CtorArg::Int(0)
                }
            },
            _ => {
                self.unsupported(arg.span, "constructor arguments of this type are");
                CtorArg::Int(0)
            }
        }
    }

    /// Hierarchical name of a declaration: in the current block, or as `@name` says.
    fn qualify(&self, name: &str, annotations: &[ir::Annotation]) -> String {
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

    /// A number of a field list: a literal.
    fn field_list_number(&mut self, text: &str) -> Option<u32> {
        let digits = text.rsplit('w').next()?;
        match digits.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => digits.parse().ok(),
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
