//! The checked program: names are resolved, expressions typed, implicit casts explicit. Blocks are
//! still declarations; lowering instantiates them.

use std::rc::Rc;

use num_bigint::BigInt;

use crate::ast::UnaryOp;
use crate::ir::{self, BinaryOp};
use crate::source::Span;
use crate::types::{BlockKind, BlockType, Direction, Signature, Str, Type};

/// The ID of a declaration, unique in the program.
pub(crate) type DeclId = u32;

/// The input of lowering.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) errors: Vec<Str>,
    /// Instances at the top level, in order.
    pub(crate) instances: Vec<Rc<Instance>>,
    /// The instance called `main`.
    pub(crate) main: Option<Rc<Instance>>,
    /// The action `NoAction` of `core.p4`.
    pub(crate) no_action: Option<Rc<Action>>,
    /// The header types with `@controller_header`, used or not.
    pub(crate) controller_headers: Vec<Type>,
}

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) span: Span,
    pub(crate) ty: Type,
    pub(crate) kind: ExprKind,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    /// A value of an integer type or serialisable enum.
    Int(BigInt),
    Bool(bool),
    Text(Str),
    /// A member of an enum or of `error`, by position.
    Member(usize),
    Var(DeclId),
    Field(Box<Expr>, usize),
    /// An element of a stack or, with a constant index, of a tuple.
    Index(Box<Expr>, Box<Expr>),
    Next(Box<Expr>),
    Last(Box<Expr>),
    LastIndex(Box<Expr>),
    Slice(Box<Expr>, u32, u32),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Mux(Box<Expr>, Box<Expr>, Box<Expr>),
    Cast(Box<Expr>),
    /// The parts of a tuple or struct.
    List(Vec<Expr>),
    /// Named values before conversion to a struct type.
    Record(Vec<(Str, Expr)>),
    /// `{#}`.
    Invalid,
    /// `...` before it is known which values it replaces.
    Rest,
    IsValid(Box<Expr>),
    Call(Box<Call>),
    /// `table.apply()`, and the part of its result that is used.
    Apply(Rc<Table>, ApplyPart),
    Construct(Rc<Construct>),
    /// An error, which has been reported.
    Error,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ApplyPart {
    Whole,
    Hit,
    Miss,
    ActionRun,
}

/// An argument, at the index of its parameter.
#[derive(Clone, Debug)]
pub(crate) struct CallArg {
    pub(crate) direction: Direction,
    /// Its index in the call as written, which differs if arguments are named. Arguments are
    /// evaluated and written back from left to right.
    pub(crate) turn: usize,
    /// `None` for `_`.
    pub(crate) value: Option<Expr>,
    /// Type of the parameter.
    pub(crate) ty: Type,
}

/// The arguments with the indices of their parameters, from left to right in the call.
pub(crate) fn in_turn(args: &[CallArg]) -> Vec<(usize, &CallArg)> {
    let mut all: Vec<(usize, &CallArg)> = args.iter().enumerate().collect();
    all.sort_by_key(|(_, arg)| arg.turn);
    all
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) target: Callee,
    pub(crate) args: Vec<CallArg>,
}

#[derive(Clone, Debug)]
pub(crate) enum Callee {
    /// The instance, if it is a method, and the extern's name.
    Extern {
        instance: Option<(Expr, Str)>,
        signature: Rc<Signature>,
    },
    Function(Rc<Function>),
    Action(Rc<Action>),
    /// An instance by its declaration.
    Block {
        instance: DeclId,
    },
    /// `Type.apply(…)`: an instance without any other use.
    Direct {
        site: DeclId,
        block: Rc<Block>,
    },
    /// `this.predicate(cmplo, cmphi)` in a register action: one bit for each of the four
    /// combinations.
    Predicate,
    SetValid(Expr),
    SetInvalid(Expr),
    PushFront(Expr, u32),
    PopFront(Expr, u32),
}

#[derive(Clone, Debug)]
pub(crate) struct Stmt {
    pub(crate) span: Span,
    pub(crate) kind: StmtKind,
}

#[derive(Clone, Debug)]
pub(crate) enum StmtKind {
    Var(Rc<Variable>),
    Assign(Expr, Expr),
    /// `to op= …`: `value` reads the old value through the variable, so that `to` is evaluated
    /// once.
    Update {
        to: Expr,
        old: DeclId,
        value: Expr,
    },
    /// A call whose value, if any, is discarded.
    Call(Expr),
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    Block(Vec<Stmt>),
    /// A switch on a value with an integer representation: labels and bodies, then the default.
    Switch(Expr, Vec<(Vec<Expr>, Vec<Stmt>)>, Vec<Stmt>),
    /// A switch on the action that a table ran: indices into its action list.
    SwitchAction(Rc<Table>, Vec<(Vec<usize>, Vec<Stmt>)>, Vec<Stmt>),
    Exit,
    Return(Option<Expr>),
    /// The scope of the declarations in `init` is the loop.
    For {
        init: Vec<Stmt>,
        condition: Expr,
        update: Vec<Stmt>,
        body: Vec<Stmt>,
    },
    ForIn {
        variable: Rc<Variable>,
        through: Through,
        body: Vec<Stmt>,
    },
    Break,
    Continue,
}

/// The collection over which a loop iterates.
#[derive(Clone, Debug)]
pub(crate) enum Through {
    /// An inclusive range.
    Range(Expr, Expr),
    /// The elements of a stack.
    Stack(Expr),
    List(Vec<Expr>),
}

#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) id: DeclId,
    pub(crate) name: Str,
    pub(crate) ty: Type,
    pub(crate) init: Option<Expr>,
}

#[derive(Clone, Debug)]
pub(crate) struct Param {
    pub(crate) id: DeclId,
    pub(crate) name: Str,
    pub(crate) direction: Direction,
    pub(crate) ty: Type,
    pub(crate) default: Option<Expr>,
    pub(crate) annotations: Vec<ir::Annotation>,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: Str,
    pub(crate) span: Span,
    pub(crate) params: Vec<Param>,
    pub(crate) ret: Type,
    pub(crate) body: Vec<Stmt>,
}

#[derive(Debug)]
pub(crate) struct Action {
    pub(crate) id: DeclId,
    pub(crate) name: Str,
    /// Whether it is declared outside of any control.
    pub(crate) top_level: bool,
    pub(crate) params: Vec<Param>,
    pub(crate) body: Vec<Stmt>,
    pub(crate) annotations: Vec<ir::Annotation>,
}

/// A parser or control.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) kind: BlockKind,
    pub(crate) name: Str,
    pub(crate) signature: Rc<BlockType>,
    pub(crate) params: Vec<Param>,
    pub(crate) ctor_params: Vec<Param>,
    pub(crate) locals: Vec<Local>,
    /// Of a control.
    pub(crate) body: Vec<Stmt>,
    /// Of a parser; `start` is `states[start]`.
    pub(crate) states: Vec<State>,
    pub(crate) start: usize,
    pub(crate) annotations: Vec<ir::Annotation>,
}

#[derive(Debug)]
pub(crate) enum Local {
    Variable(Rc<Variable>),
    Instance(Rc<Instance>),
    ValueSet(Rc<ValueSet>),
}

/// A parser value set.
#[derive(Debug)]
pub(crate) struct ValueSet {
    pub(crate) id: DeclId,
    pub(crate) name: Str,
    /// Type of the values.
    pub(crate) ty: Type,
    pub(crate) size: Expr,
    pub(crate) annotations: Vec<ir::Annotation>,
    pub(crate) span: Span,
}

/// A named instance of an extern, parser, control or package.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) id: DeclId,
    pub(crate) name: Str,
    pub(crate) annotations: Vec<ir::Annotation>,
    pub(crate) construct: Rc<Construct>,
    /// Methods defined by the instance itself.
    pub(crate) methods: Vec<Rc<Function>>,
    pub(crate) span: Span,
}

/// A constructor call. Its type is an extern, block or package with all type parameters resolved.
#[derive(Debug)]
pub(crate) struct Construct {
    pub(crate) ty: Type,
    /// The declaration, if it is a parser or control.
    pub(crate) block: Option<Rc<Block>>,
    pub(crate) args: Vec<Expr>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) span: Span,
    pub(crate) name: Str,
    pub(crate) body: Vec<Stmt>,
    pub(crate) transition: Transition,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    Accept,
    Reject,
    State(usize),
}

#[derive(Debug)]
pub(crate) enum Transition {
    To(Target),
    Select { on: Vec<Expr>, cases: Vec<(Vec<Keyset>, Target)> },
}

#[derive(Clone, Debug)]
pub(crate) enum Keyset {
    Any,
    Value(Expr),
    Mask(Expr, Expr),
    Range(Expr, Expr),
    /// A value set. If its values have several parts, it stands for all keys of the case.
    Set(DeclId),
}

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) id: DeclId,
    pub(crate) name: Str,
    pub(crate) span: Span,
    pub(crate) keys: Vec<Key>,
    pub(crate) actions: Vec<TableAction>,
    /// Index in `actions`, and the values of the run-time parameters.
    pub(crate) default: Option<(usize, Vec<Expr>)>,
    pub(crate) const_default: bool,
    pub(crate) entries: Vec<Entry>,
    pub(crate) const_entries: bool,
    /// Priorities of entries: whether the largest wins, and the distance between implicit ones.
    pub(crate) largest_priority_wins: bool,
    pub(crate) priority_delta: Option<Expr>,
    pub(crate) size: Option<Expr>,
    /// Extern instances of `implementation`, `counters`, `meters`.
    pub(crate) attached: Vec<Attached>,
    pub(crate) idle_timeout: bool,
    /// PSA's action for packets whose group has no members.
    pub(crate) empty_group: Option<(usize, Vec<Expr>)>,
    pub(crate) annotations: Vec<ir::Annotation>,
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: Str,
    pub(crate) value: Expr,
    pub(crate) kind: ir::MatchKind,
    pub(crate) annotations: Vec<ir::Annotation>,
}

#[derive(Debug)]
pub(crate) struct TableAction {
    pub(crate) action: Rc<Action>,
    /// Arguments of the parameters with a direction.
    pub(crate) args: Vec<CallArg>,
    pub(crate) scope: ir::Scope,
    pub(crate) annotations: Vec<ir::Annotation>,
}

/// An extern instance that a property attaches to a table.
#[derive(Debug)]
pub(crate) struct Attached {
    /// Name of the property.
    pub(crate) name: Str,
    pub(crate) annotations: Vec<ir::Annotation>,
    pub(crate) value: Expr,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) span: Span,
    pub(crate) keys: Vec<Keyset>,
    pub(crate) action: usize,
    pub(crate) args: Vec<Expr>,
    pub(crate) priority: Option<Expr>,
    pub(crate) is_const: bool,
    pub(crate) annotations: Vec<ir::Annotation>,
}

impl Expr {
    pub(crate) fn error(span: Span) -> Self {
        Self { span, ty: Type::Unknown, kind: ExprKind::Error }
    }

    /// The value, if it is a constant integer.
    pub(crate) fn int(&self) -> Option<&BigInt> {
        match &self.kind {
            ExprKind::Int(value) => Some(value),
            _ => None,
        }
    }
}
