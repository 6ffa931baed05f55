//! The syntax tree as parsed: names are not resolved, and types are not checked.

use std::rc::Rc;

use num_bigint::BigInt;

use crate::ir::BinaryOp;
use crate::source::Span;

/// Text shared by all places that refer to it.
pub(crate) type Str = Rc<str>;

/// A name with its position.
#[derive(Clone, Debug)]
pub(crate) struct Ident {
    pub(crate) name: Str,
    pub(crate) span: Span,
}

/// `@name(body)`.
#[derive(Clone, Debug)]
pub(crate) struct Annotation {
    pub(crate) name: Ident,
    pub(crate) body: AnnotationBody,
}

/// The contents of an annotation's parentheses or brackets.
#[derive(Clone, Debug)]
pub(crate) enum AnnotationBody {
    None,
    /// `( … )` as text, and its value if it is a single string.
    Raw {
        text: Str,
        string: Option<Str>,
    },
    /// `[ … ]` as text and as expressions.
    Structured {
        text: Str,
        values: Vec<AnnotationValue>,
    },
}

/// `value` or `key = value` in a structured annotation.
#[derive(Clone, Debug)]
pub(crate) struct AnnotationValue {
    pub(crate) key: Option<Ident>,
    pub(crate) value: Expr,
}

pub(crate) type Annotations = Rc<[Annotation]>;

/// A whole program.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(crate) decls: Vec<Decl>,
}

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) span: Span,
    pub(crate) kind: ExprKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UnaryOp {
    Not,
    BitNot,
    Neg,
    Plus,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    /// A literal, with `(signed, width)` if it has a prefix.
    Int(BigInt, Option<(bool, u32)>),
    Bool(bool),
    Text(Str),
    Name(Ident),
    /// `.name`: looked up at the top level.
    Global(Ident),
    This,
    /// `error.X`, `Enum.X`, `Header.minSizeInBits`, `Control.apply`: a member of a type.
    TypeMember(Box<TypeRef>, Ident),
    Member(Box<Expr>, Ident),
    Index(Box<Expr>, Box<Expr>),
    Slice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `a[low +: width]`
    Part(Box<Expr>, Box<Expr>, Box<Expr>),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Mux(Box<Expr>, Box<Expr>, Box<Expr>),
    Cast(Box<TypeRef>, Box<Expr>),
    Call {
        callee: Box<Expr>,
        type_args: Vec<TypeRef>,
        args: Vec<Arg>,
    },
    /// `Type(args)`: an unnamed instance.
    Construct(Box<TypeRef>, Vec<Arg>),
    List(Vec<Expr>),
    Record(Vec<(Ident, Expr)>),
    /// `...`
    Ellipsis,
    /// `{#}`
    Invalid,
    /// `a &&& b`, in keysets.
    Mask(Box<Expr>, Box<Expr>),
    /// `a .. b`, in keysets.
    Range(Box<Expr>, Box<Expr>),
    /// `_` or `default`, in keysets; `_` as an argument.
    Any,
    /// Placeholder after a syntax error, which has been reported.
    Error,
}

#[derive(Clone, Debug)]
pub(crate) struct Arg {
    pub(crate) name: Option<Ident>,
    pub(crate) value: Expr,
}

#[derive(Clone, Debug)]
pub(crate) struct TypeRef {
    pub(crate) span: Span,
    pub(crate) kind: TypeKind,
}

#[derive(Clone, Debug)]
pub(crate) enum TypeKind {
    Void,
    Bool,
    Error,
    String,
    MatchKind,
    /// `int` without a width.
    Int,
    Bit(Option<Box<Expr>>),
    Signed(Box<Expr>),
    Varbit(Box<Expr>),
    Name(Ident),
    Specialised(Ident, Vec<TypeRef>),
    Stack(Box<TypeRef>, Box<Expr>),
    Tuple(Vec<TypeRef>),
    List(Box<TypeRef>),
    /// `_` as a type argument.
    DontCare,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    None,
    In,
    Out,
    Inout,
}

#[derive(Clone, Debug)]
pub(crate) struct Param {
    pub(crate) annotations: Annotations,
    pub(crate) direction: Direction,
    pub(crate) ty: TypeRef,
    pub(crate) name: Ident,
    pub(crate) default: Option<Expr>,
}

/// A field of a struct or header.
#[derive(Clone, Debug)]
pub(crate) struct FieldDecl {
    pub(crate) annotations: Annotations,
    pub(crate) ty: TypeRef,
    pub(crate) name: Ident,
}

#[derive(Clone, Debug)]
pub(crate) struct Decl {
    pub(crate) annotations: Annotations,
    pub(crate) span: Span,
    pub(crate) name: Ident,
    pub(crate) kind: DeclKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Aggregate {
    Header,
    Struct,
    Union,
}

#[derive(Clone, Debug)]
pub(crate) enum DeclKind {
    Const {
        ty: TypeRef,
        value: Expr,
    },
    /// `typedef` or, if `new`, `type`.
    Alias {
        ty: TypeRef,
        new: bool,
    },
    Enum {
        members: Vec<Ident>,
    },
    SerEnum {
        ty: TypeRef,
        members: Vec<(Ident, Expr)>,
    },
    Errors {
        members: Vec<Ident>,
    },
    MatchKinds {
        members: Vec<Ident>,
    },
    Aggregate {
        what: Aggregate,
        type_params: Vec<Ident>,
        fields: Vec<FieldDecl>,
    },
    Extern {
        type_params: Vec<Ident>,
        methods: Vec<Method>,
    },
    ExternFunction(Method),
    Package {
        type_params: Vec<Ident>,
        params: Vec<Param>,
    },
    ParserType(BlockType),
    ControlType(BlockType),
    Parser(Rc<ParserDecl>),
    Control(Rc<ControlDecl>),
    Action(Rc<ActionDecl>),
    Function(Rc<FunctionDecl>),
    Table(Rc<TableDecl>),
    Instance {
        ty: TypeRef,
        args: Vec<Arg>,
        /// Methods defined by the instance itself (`= { void apply(…) { … } }`).
        body: Option<Vec<Decl>>,
    },
    Variable {
        ty: TypeRef,
        init: Option<Expr>,
    },
    ValueSet {
        ty: TypeRef,
        args: Vec<Arg>,
    },
}

/// A method or function of an extern.
#[derive(Clone, Debug)]
pub(crate) struct Method {
    pub(crate) name: Ident,
    /// `None` for a constructor.
    pub(crate) ret: Option<TypeRef>,
    pub(crate) type_params: Vec<Ident>,
    pub(crate) params: Vec<Param>,
    pub(crate) is_abstract: bool,
}

/// The signature of a parser or control.
#[derive(Clone, Debug)]
pub(crate) struct BlockType {
    pub(crate) type_params: Vec<Ident>,
    pub(crate) params: Vec<Param>,
}

#[derive(Clone, Debug)]
pub(crate) struct ParserDecl {
    pub(crate) signature: BlockType,
    pub(crate) ctor_params: Vec<Param>,
    pub(crate) locals: Vec<Decl>,
    pub(crate) states: Vec<StateDecl>,
}

#[derive(Clone, Debug)]
pub(crate) struct StateDecl {
    pub(crate) name: Ident,
    pub(crate) body: Vec<Stmt>,
    pub(crate) transition: Transition,
}

#[derive(Clone, Debug)]
pub(crate) enum Transition {
    /// No transition statement: reject.
    None,
    To(Ident),
    Select {
        on: Vec<Expr>,
        cases: Vec<SelectCase>,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct SelectCase {
    pub(crate) keyset: Expr,
    pub(crate) target: Ident,
}

#[derive(Clone, Debug)]
pub(crate) struct ControlDecl {
    pub(crate) signature: BlockType,
    pub(crate) ctor_params: Vec<Param>,
    pub(crate) locals: Vec<Decl>,
    pub(crate) apply: Vec<Stmt>,
}

#[derive(Clone, Debug)]
pub(crate) struct ActionDecl {
    pub(crate) params: Vec<Param>,
    pub(crate) body: Vec<Stmt>,
}

#[derive(Clone, Debug)]
pub(crate) struct FunctionDecl {
    pub(crate) ret: TypeRef,
    pub(crate) type_params: Vec<Ident>,
    pub(crate) params: Vec<Param>,
    pub(crate) body: Vec<Stmt>,
}

#[derive(Clone, Debug)]
pub(crate) struct TableDecl {
    pub(crate) properties: Vec<Property>,
}

impl TableDecl {
    /// Whether its list of keys is empty.
    pub(crate) fn has_no_keys(&self) -> bool {
        self.properties
            .iter()
            .any(|p| matches!(&p.kind, PropertyKind::Key(keys) if keys.is_empty()))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Property {
    pub(crate) annotations: Annotations,
    pub(crate) is_const: bool,
    pub(crate) name: Ident,
    pub(crate) kind: PropertyKind,
}

#[derive(Clone, Debug)]
pub(crate) enum PropertyKind {
    Key(Vec<KeyElement>),
    Actions(Vec<ActionRef>),
    Entries(Vec<EntryDecl>),
    Value(Expr),
}

#[derive(Clone, Debug)]
pub(crate) struct KeyElement {
    pub(crate) annotations: Annotations,
    pub(crate) value: Expr,
    pub(crate) kind: Ident,
}

#[derive(Clone, Debug)]
pub(crate) struct ActionRef {
    pub(crate) annotations: Annotations,
    /// A name or a call.
    pub(crate) value: Expr,
}

#[derive(Clone, Debug)]
pub(crate) struct EntryDecl {
    pub(crate) annotations: Annotations,
    pub(crate) is_const: bool,
    pub(crate) priority: Option<Expr>,
    pub(crate) keyset: Expr,
    pub(crate) action: Expr,
}

#[derive(Clone, Debug)]
pub(crate) struct Stmt {
    pub(crate) span: Span,
    pub(crate) kind: StmtKind,
}

#[derive(Clone, Debug)]
pub(crate) enum StmtKind {
    Empty,
    Decl(Box<Decl>),
    Assign(Expr, Expr),
    /// `a op= b`
    Update(BinaryOp, Expr, Expr),
    Call(Expr),
    If(Expr, Box<Stmt>, Option<Box<Stmt>>),
    Block(Vec<Stmt>),
    Switch(Expr, Vec<SwitchCase>),
    Exit,
    Return(Option<Expr>),
    /// `for (init; condition; update) body`
    For {
        init: Vec<Stmt>,
        condition: Expr,
        update: Vec<Stmt>,
        body: Box<Stmt>,
    },
    /// `for (T x in collection) body`. The collection is a stack, a list or an [`ExprKind::Range`].
    ForIn {
        variable: Box<Decl>,
        collection: Expr,
        body: Box<Stmt>,
    },
    Break,
    Continue,
}

#[derive(Clone, Debug)]
pub(crate) struct SwitchCase {
    pub(crate) span: Span,
    /// `None` for `default`.
    pub(crate) label: Option<Expr>,
    /// `None` falls through to the next case.
    pub(crate) body: Option<Vec<Stmt>>,
}
