//! The typed intermediate representation: a P4 program after the resolution of names, generics,
//! types, constants and sub-blocks.
//!
//! # Shape
//!
//! Every scalar that a program can store is a [`Field`]: header fields, validity bits, metadata,
//! locals, parameters of actions and of inlined blocks. The state of a packet is one value per
//! field (BMv2 calls this the packet header vector). Blocks that a program instantiates within
//! others (sub-parsers, sub-controls) have been inlined under their hierarchical names, and copy-in
//! and copy-out are plain assignments. The parser is a graph of states, a control is a list of
//! statements, and the package assigns a role to each block.
//!
//! Externs (registers, counters, hashes, `mark_to_drop`, …) are data: an instance has a type name
//! and constructor arguments, a call has a method name and typed arguments. The execution engine
//! binds names to behaviour, so a new architecture changes no type in this module. The one
//! exception is an extern with a method defined by the program (a stateful action of TNA): its body
//! is a list of statements in a [`StatefulAction`].
//!
//! # TNA
//!
//! Ingress and egress of a `Switch` have separate headers and metadata. Their names may be equal
//! ([`Field::name`] is informative), but they share no fields. Roles of the blocks are
//! `ingress_parser`, `ingress`, `ingress_deparser`, `egress_parser`, `egress`, `egress_deparser`.
//! [`Program::intrinsic`] names the architecture's fields by role and member, independently of the
//! program's parameter names:
//!
//! | role | type in `tna.p4` | storage |
//! |---|---|---|
//! | `ig_intr_md` | `ingress_intrinsic_metadata_t` | header: the first 8 bytes that the ingress parser sees |
//! | `ig_prsr_md` | `ingress_intrinsic_metadata_from_parser_t` | written by the engine |
//! | `ig_dprsr_md` | `ingress_intrinsic_metadata_for_deparser_t` | read by the engine |
//! | `ig_tm_md` | `ingress_intrinsic_metadata_for_tm_t` | read by the engine |
//! | `eg_intr_md` | `egress_intrinsic_metadata_t` | header: the first 27 bytes that the egress parser sees |
//! | `eg_prsr_md` | `egress_intrinsic_metadata_from_parser_t` | written by the engine |
//! | `eg_dprsr_md` | `egress_intrinsic_metadata_for_deparser_t` | read by the engine |
//! | `eg_oport_md` | `egress_intrinsic_metadata_for_output_port_t` | read by the engine |
//!
//! A role is missing if no block of the program has it as a parameter. The fields of the two
//! intrinsic headers get their values when the parser extracts them, from bytes that the engine
//! prepends to the packet. A packet has a unicast copy only if the program writes
//! `ig_tm_md.ucast_egress_port`: the engine initialises that field with a value that is not a port.
//!
//! Semantics of calls (arguments as [`Arg`] describes, with a result last):
//!
//! - `RegisterAction.execute(In index, Out result)`, `DirectRegisterAction.execute(Out result)`:
//!   see [`StatefulAction`].
//! - `Mirror.emit(In session, List data?)`, `Resubmit.emit(List data?)`, `Digest.pack(List data)`,
//!   in deparsers: the call makes the request, with the scalars of the data in wire order. An
//!   instance that names its type (`Mirror(3w1)`) is already called under a condition on
//!   `mirror_type`, `resubmit_type` or `digest_type`.
//! - `Hash.get(List or In data, Out)`; constructor arguments `HashAlgorithm_t` and, for `CUSTOM`,
//!   the instance of `CRCPolynomial` (coefficient, reversed, msb, extended, initial value, final xor).
//! - `Random.get(Out)`, `Counter.count(In index, In adjustment?)`,
//!   `DirectCounter.count(In adjustment?)`.
//! - `Checksum.add(List or In)`, `subtract(…)`, `verify(Out bool)`, `get(Out)`,
//!   `subtract_all_and_deposit(Out)`, `update(List or In, In zeros_as_ones?, Out)`: the sum of an
//!   instance is zero at the start of each packet. `update` is the complement of the sum of its
//!   argument alone.
//!
//! `port_metadata_unpack`, `sizeInBits`, `sizeInBytes`, `max`, `min`, `funnel_shift_right`,
//! `invalidate` and `predicate` have already been converted to statements and expressions of the
//! IR.
//!
//! # v1model
//!
//! Calls have the arguments of `v1model.p4`, except `digest(In receiver, List data, Text name)`:
//! the name is that of the digest in P4Info.
//!
//! # Values
//!
//! Integers carry their width in bits; a value is stored in `ceil(width / 64)` limbs of 64 bits,
//! least significant first, bits above the width zero (also for signed types, which are two's
//! complement within their width). `bool` is an unsigned integer of width 1. Enums and errors are
//! unsigned integers that index [`Program::enums`] and [`Program::errors`].

use std::collections::BTreeMap;
use std::fmt;

use crate::Architecture;

/// Defines index newtypes for the vectors of [`Program`].
macro_rules! index {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);

        impl $name {
            /// The index as a `usize`.
            #[must_use]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

index! {
    /// Index into [`Program::fields`].
    FieldId,
    /// Index into [`Program::headers`].
    HeaderId,
    /// Index into [`Program::stacks`].
    StackId,
    /// Index into [`Program::actions`].
    ActionId,
    /// Index into [`Program::tables`].
    TableId,
    /// Index into [`Program::externs`].
    ExternId,
    /// Index into [`Program::parsers`].
    ParserId,
    /// Index into [`Program::controls`].
    ControlId,
    /// Index into [`Parser::states`].
    StateId,
    /// Label of a [`Stmt::Loop`] or [`Stmt::Labelled`], unique in the program.
    LabelId,
}

/// A whole program in executable form.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Name of the main source file.
    pub source: String,
    /// Names of the files that [`Position`]s are in.
    pub files: Vec<String>,
    /// Name of the package that `main` instantiates: `V1Switch` or `Switch`.
    pub package: String,
    /// Name of the package's pipeline argument, for TNA. p4c's identifiers of P4Info depend on it,
    /// but no name in the IR or in P4Info begins with it.
    pub pipeline: Option<String>,
    /// Scalar storage.
    pub fields: Vec<Field>,
    /// Header instances.
    pub headers: Vec<Header>,
    /// Header stacks; their elements are also in [`Program::headers`].
    pub stacks: Vec<Stack>,
    /// Actions, including inlined copies.
    pub actions: Vec<Action>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Extern instances.
    pub externs: Vec<Extern>,
    /// Parsers that the package names (sub-parsers are inlined).
    pub parsers: Vec<Parser>,
    /// Controls that the package names (sub-controls are inlined).
    pub controls: Vec<Control>,
    /// The package's blocks in order: formal parameter name (`p`, `vr`, `ig`, … for `V1Switch`,
    /// those of its `Pipeline` for `Switch`) and the bound block.
    pub blocks: Vec<(String, Block)>,
    /// Architecture metadata by name: for v1model the fields of `standard_metadata_t`, for TNA role
    /// and member, such as `ig_tm_md.ucast_egress_port`.
    pub intrinsic: Vec<(String, FieldId)>,
    /// Stateful actions: register actions whose `apply` the program defines.
    pub stateful: Vec<StatefulAction>,
    /// Members of `error`, in order of their codes: `NoError` first, the others as declared.
    pub errors: Vec<String>,
    /// Enum types: name and member names, in order of their codes.
    pub enums: Vec<(String, Vec<String>)>,
    /// What the program calls values of header fields. It has no effect on packets.
    pub names: ValueNames,
    /// The types whose values have names in the control plane. They have no effect on packets.
    pub translated: Vec<Translated>,
    /// The `@controller_header`s (`packet_in`, `packet_out`) that are the type of a header. P4Info
    /// has those, too, that no header has.
    pub controller_headers: Vec<String>,
    /// `@field_list(n)` metadata, by `n`: preserved by `resubmit_preserving_field_list(n)` and
    /// similar functions.
    pub field_lists: Vec<(u32, Vec<FieldId>)>,
}

/// A `type` whose values are strings in the control plane:
/// `@p4runtime_translation("…", string)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Translated {
    /// Name of the type, as in P4Info.
    pub name: String,
    /// Width in bits of a value in the data plane.
    pub width: u32,
    /// Strings and values that belong together in any case, from
    /// `@p4runtime_translation_mappings({{"…", value}, …})`.
    pub fixed: Vec<(String, u64)>,
}

/// Names of values of header fields.
#[derive(Clone, Debug, Default)]
pub struct ValueNames {
    /// Serialisable enums of header fields: name, and members with their values. Values with more than
    /// 64 bits are left out.
    pub enums: Vec<(String, Vec<(u64, String)>)>,
    /// The fields that have these types: index into `enums`.
    pub fields: Vec<(FieldId, usize)>,
    /// Constants with which a parser's `select` compares fields of other types, in the order of the
    /// program.
    pub constants: Vec<(FieldId, u64, String)>,
}

impl ValueNames {
    /// The names of a field's values, by value. If the program has several names for a value, it is
    /// the first one.
    #[must_use]
    pub fn of(&self, field: FieldId) -> BTreeMap<u64, &str> {
        let by_type = self.fields.iter().filter(|(of, _)| *of == field);
        let members = by_type.flat_map(|(_, index)| &self.enums[*index].1);
        let members = members.map(|(value, name)| (*value, name.as_str()));
        let constants = self.constants.iter().filter(|(of, ..)| *of == field);
        let all = members.chain(constants.map(|(_, value, name)| (*value, name.as_str())));
        let mut names = BTreeMap::new();
        for (value, name) in all {
            names.entry(value).or_insert(name);
        }
        names
    }
}

impl Program {
    /// The architecture of the package, if known.
    #[must_use]
    pub fn architecture(&self) -> Option<Architecture> {
        Architecture::of_package(&self.package)
    }

    /// The stateful action of an extern instance.
    #[must_use]
    pub fn stateful_action(&self, instance: ExternId) -> Option<&StatefulAction> {
        self.stateful.iter().find(|s| s.instance == instance)
    }

    /// The architecture metadata field with this name.
    #[must_use]
    pub fn intrinsic_field(&self, name: &str) -> Option<FieldId> {
        self.intrinsic.iter().find(|(n, _)| n == name).map(|&(_, id)| id)
    }

    /// `file:line` of a position.
    #[must_use]
    pub fn place(&self, at: Position) -> String {
        let file = self.files.get(at.file as usize).map_or("?", String::as_str);
        format!("{file}:{}", at.line)
    }

    /// The block in this role of the package.
    #[must_use]
    pub fn block(&self, role: &str) -> Option<Block> {
        self.blocks.iter().find(|(n, _)| n == role).map(|&(_, b)| b)
    }

    /// The action profile that an `ActionSelector` of TNA selects from; any other extern is its own.
    #[must_use]
    pub fn profile_of(&self, id: ExternId) -> ExternId {
        match self.externs.get(id.index()) {
            Some(Extern { type_name, args, .. }) if type_name == "ActionSelector" => {
                match args.first() {
                    Some(&CtorArg::Instance(profile)) => profile,
                    _ => id,
                }
            }
            _ => id,
        }
    }

    /// The `ActionSelector` of TNA that selects from an action profile, if there is one.
    #[must_use]
    pub fn selector_of(&self, profile: ExternId) -> Option<&Extern> {
        let selects = |e: &&Extern| {
            let first = e.args.first();
            e.type_name == "ActionSelector"
                && matches!(first, Some(&CtorArg::Instance(of)) if of == profile)
        };
        self.externs.iter().find(selects)
    }

    /// The code of an error, by name.
    #[must_use]
    pub fn error_code(&self, name: &str) -> Option<u64> {
        self.errors.iter().position(|e| e == name).map(|i| i as u64)
    }
}

/// A block of the package.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Block {
    /// A parser.
    Parser(ParserId),
    /// A control.
    Control(ControlId),
}

/// A scalar field.
#[derive(Clone, Debug)]
pub struct Field {
    /// Hierarchical name, for example `hdr.ipv4.ttl`.
    pub name: String,
    /// Type.
    pub ty: Scalar,
    /// The object that contains it, which determines when it is reset.
    pub role: FieldRole,
}

/// The object that contains a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldRole {
    /// A field of a header instance.
    Header(HeaderId),
    /// The validity bit of a header instance.
    Validity(HeaderId),
    /// Architecture metadata that is not in a header.
    Intrinsic,
    /// The program's own metadata: zero at the start of each packet.
    Metadata,
    /// A local variable or an inlined parameter: zero at the start of each packet.
    Local,
    /// A run-time parameter of an action, written from the matching entry's action data or by the
    /// caller.
    ActionParam,
}

/// A scalar type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scalar {
    /// Width in bits, at least 1. For a varbit field, the maximum width.
    pub width: u32,
    /// Whether it is in two's complement (`int<W>`), unlike `bit<W>`, `bool`, enums and errors.
    pub signed: bool,
}

impl Scalar {
    /// `bit<width>`.
    #[must_use]
    pub const fn bit(width: u32) -> Self {
        Self { width, signed: false }
    }

    /// `bool`.
    pub const BOOL: Self = Self::bit(1);

    /// Number of 64-bit limbs of a value.
    #[must_use]
    pub const fn limbs(self) -> usize {
        self.width.div_ceil(64) as usize
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}<{}>", if self.signed { "int" } else { "bit" }, self.width)
    }
}

/// A header instance.
#[derive(Clone, Debug)]
pub struct Header {
    /// Hierarchical name, for example `hdr.ipv4`.
    pub name: String,
    /// Name of its type.
    pub type_name: String,
    /// Its fields in wire order.
    pub fields: Vec<FieldId>,
    /// One bit: valid or not.
    pub valid: FieldId,
    /// For a header with a varbit field: that field's index in `fields`, and the field that holds
    /// its length in bits.
    pub varbit: Option<(usize, FieldId)>,
}

/// A header stack.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Hierarchical name.
    pub name: String,
    /// Its elements.
    pub elements: Vec<HeaderId>,
    /// The 32-bit field that holds `nextIndex`.
    pub next_index: FieldId,
}

/// A reference to a header.
#[derive(Clone, Debug)]
pub enum HeaderRef {
    /// A known instance.
    Fixed(HeaderId),
    /// `stack.next`: extraction only.
    Next(StackId),
    /// `stack.last`.
    Last(StackId),
    /// `stack[index]` with an index that is not constant.
    Index(StackId, Box<Expr>),
}

/// A typed expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Type of the value.
    pub ty: Scalar,
    /// The computation.
    pub kind: ExprKind,
}

/// The computation of a value.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A constant, with the number of limbs given by [`Scalar::limbs`].
    Const(Box<[u64]>),
    /// A field's value.
    Field(FieldId),
    /// Whether a header is valid (`BOOL`).
    Valid(HeaderRef),
    /// A field of a stack element with a run-time index: stack, index, index of the field in the
    /// header. The index after the last field refers to the varbit's length. Out of range reads as
    /// zero.
    Element(StackId, Box<Expr>, u32),
    /// An operation on one value of the same type.
    Unary(UnaryOp, Box<Expr>),
    /// An operation on two values. Both have the expression's type, with three exceptions:
    /// comparisons (two equal types, result `BOOL`), shifts (any unsigned type on the right),
    /// [`BinaryOp::Concat`].
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// Bits `hi..=lo` of a value.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    Slice { value: Box<Expr>, hi: u32, lo: u32 },
    /// A conversion to another type: truncation, or extension by the sign of the *operand's* type.
    Cast(Box<Expr>),
    /// `condition ? then : otherwise`; only the selected side is evaluated.
    Mux(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// Unary operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryOp {
    /// `!` on `bool`.
    Not,
    /// `~`.
    BitNot,
    /// `-`, modulo the width.
    Neg,
}

/// Binary operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the specification's operators, by name")]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    /// `|+|`: saturates within the (signed or unsigned) type.
    AddSat,
    /// `|-|`.
    SubSat,
    BitAnd,
    BitOr,
    BitXor,
    /// The left operand's bits above those of the right one.
    Concat,
    Shl,
    /// An arithmetic shift if the left type is signed.
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// `&&`: the right side is evaluated only if needed.
    And,
    /// `||`: the right side is evaluated only if needed.
    Or,
}

impl BinaryOp {
    /// The operator in P4 syntax.
    #[must_use]
    pub fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::Mod => "%",
            Self::AddSat => "|+|",
            Self::SubSat => "|-|",
            Self::BitAnd => "&",
            Self::BitOr => "|",
            Self::BitXor => "^",
            Self::Concat => "++",
            Self::Shl => "<<",
            Self::Shr => ">>",
            Self::Eq => "==",
            Self::Ne => "!=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
            Self::And => "&&",
            Self::Or => "||",
        }
    }
}

/// An lvalue.
#[derive(Clone, Debug)]
pub enum Place {
    /// A whole field.
    Field(FieldId),
    /// Bits `hi..=lo` of a field.
    Slice(FieldId, u32, u32),
    /// A field of a stack element with a run-time index: stack, index, index of the field in the
    /// header. Out of range stores nothing.
    Element(StackId, Box<Expr>, u32),
}

/// A statement.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// Stores a value of the place's type.
    Assign(Place, Expr),
    /// Copies a header of the same type, including its validity.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    CopyHeader { to: HeaderRef, from: HeaderRef },
    /// `setValid()`.
    SetValid(HeaderRef),
    /// `setInvalid()`.
    SetInvalid(HeaderRef),
    /// Invalidates a header because another header of its union became valid. The packet's length
    /// does not change, as in BMv2.
    Displace(HeaderRef),
    /// `push_front(count)`.
    PushFront(StackId, u32),
    /// `pop_front(count)`.
    PopFront(StackId, u32),
    /// Branch.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    If { condition: Expr, then: Vec<Stmt>, otherwise: Vec<Stmt> },
    /// Branch on an integer value.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    Switch { on: Expr, cases: Vec<(Box<[u64]>, Vec<Stmt>)>, default: Vec<Stmt> },
    /// Applies a table. `hit` (one bit) and `action` (32 bits: index into [`Table::actions`])
    /// receive the outcome if the program uses it.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    Apply { table: TableId, hit: Option<FieldId>, action: Option<FieldId> },
    /// Runs an action's body, after its parameters have been assigned.
    Action(ActionId),
    /// Calls an extern's method or an extern function.
    Call(ExternCall),
    /// `packet.extract(header)`; `varbit_bits` for the two-argument form.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    Extract { header: HeaderRef, varbit_bits: Option<Expr> },
    /// `packet.lookahead`: splits the next bits of the packet, without consuming them, into these
    /// fields in wire order.
    Lookahead(Vec<FieldId>),
    /// `packet.advance(bits)`.
    Advance(Expr),
    /// `verify(condition, error)`: the parser stops with the error if the condition is false.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    Verify { condition: Expr, error: Expr },
    /// `packet.emit(header)`: appended if valid.
    Emit(HeaderRef),
    /// Ends the block for this packet, at any nesting depth.
    Exit,
    /// Leaves the enclosing [`Stmt::Block`] (an inlined control or function) or action body.
    Return,
    /// A scope that [`Stmt::Return`] leaves.
    Block(Vec<Stmt>),
    /// Statements that are repeated until [`Stmt::Leave`] or a statement that leaves an outer
    /// scope.
    Loop(LabelId, Vec<Stmt>),
    /// Statements that [`Stmt::Leave`] can leave early.
    Labelled(LabelId, Vec<Stmt>),
    /// Continues after the enclosing [`Stmt::Loop`] or [`Stmt::Labelled`] with this label.
    Leave(LabelId),
    /// Where the statements that follow come from.
    Mark(Mark),
}

/// The origin of statements. It has no effect on packets, and is there only if the program was
/// compiled with marks ([`crate::compile_marked`]). Without its marks, such a program is equal to
/// the one that is compiled without.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mark {
    /// The statements that follow come from this position. Copies of a statement have the same number,
    /// different statements on a line have different ones.
    At(Position, u32),
    /// The statements up to the corresponding [`Mark::Leave`] are those of a function, an action or
    /// a control that is inlined here. `exit` and errors leave it without.
    Enter(Inlined, String),
    /// The end of what [`Mark::Enter`] started.
    Leave,
}

/// The kind of an inlined part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "by name")]
pub enum Inlined {
    Function,
    Action,
    Control,
}

/// A position in the source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Position {
    /// Index into [`Program::files`].
    pub file: u32,
    /// The line, from 1 on.
    pub line: u32,
}

/// A call of an extern's method, or of an extern function.
#[derive(Clone, Debug)]
pub struct ExternCall {
    /// The instance, or `None` for a function.
    pub instance: Option<ExternId>,
    /// Method or function name: `read`, `count`, `mark_to_drop`, `update_checksum`, …
    pub method: String,
    /// Arguments in the order of the formal parameters. If the extern returns a value, an
    /// additional [`Arg::Out`] at the end receives it.
    pub args: Vec<Arg>,
}

/// An argument of an extern call.
#[derive(Clone, Debug)]
pub enum Arg {
    /// An input value.
    In(Expr),
    /// A place that receives a value (`out`), or that is read and then written (`inout`).
    Out(Place, Scalar),
    /// A list or tuple expression, flattened.
    List(Vec<Expr>),
    /// A header argument.
    Header(HeaderRef),
    /// A struct or header passed whole to an extern that accesses it directly, such as
    /// `standard_metadata` of `mark_to_drop`.
    Opaque,
    /// A copy of such a struct: its fields by name.
    Copy(Vec<(String, FieldId)>),
    /// A string literal.
    Text(String),
    /// A member of an extern enum such as `HashAlgorithm.crc16`: type and member.
    Symbol(String, String),
}

/// An action.
#[derive(Clone, Debug)]
pub struct Action {
    /// Hierarchical name in the control plane, for example `ingress.forwarding.to_port`.
    pub name: String,
    /// Run-time parameters, in order.
    pub params: Vec<FieldId>,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// The body.
    pub body: Vec<Stmt>,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Hierarchical name.
    pub name: String,
    /// The match keys.
    pub keys: Vec<Key>,
    /// Its actions.
    pub actions: Vec<TableAction>,
    /// The action on a miss, with the values of its run-time parameters.
    pub default_action: ActionCall,
    /// Whether the control plane may not change the default action.
    pub const_default: bool,
    /// Entries from the program, in order of precedence.
    pub entries: Vec<Entry>,
    /// Whether the control plane may not change the entries.
    pub const_entries: bool,
    /// Number of entries that the program requests.
    pub size: u64,
    /// The attached extern instances: `implementation`, a direct counter, a direct meter.
    pub attached: Vec<ExternId>,
    /// Whether `support_timeout` is set.
    pub idle_timeout: bool,
    /// Annotations.
    pub annotations: Vec<Annotation>,
}

/// A key of a table.
#[derive(Clone, Debug)]
pub struct Key {
    /// Name in the control plane.
    pub name: String,
    /// The matched value.
    pub value: Expr,
    /// The match kind.
    pub kind: MatchKind,
    /// Annotations.
    pub annotations: Vec<Annotation>,
}

/// A match kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the match kinds of core.p4 and v1model.p4, by name")]
pub enum MatchKind {
    Exact,
    Lpm,
    Ternary,
    Range,
    Optional,
    Selector,
}

/// An action in a table's action list.
#[derive(Clone, Debug)]
pub struct TableAction {
    /// The action.
    pub action: ActionId,
    /// Statements that assign the parameters bound in the table's action list. They run before the
    /// body.
    pub prologue: Vec<Stmt>,
    /// `@tableonly`: never the default action.
    pub table_only: bool,
    /// `@defaultonly`: never in an entry.
    pub default_only: bool,
}

/// An action with the values of its run-time parameters (limbs according to the parameters' types).
#[derive(Clone, Debug)]
pub struct ActionCall {
    /// Index into [`Table::actions`].
    pub action: u32,
    /// Values.
    pub args: Vec<Box<[u64]>>,
}

/// An entry that the program installs.
#[derive(Clone, Debug)]
pub struct Entry {
    /// One keyset per key.
    pub keys: Vec<Keyset>,
    /// The action.
    pub call: ActionCall,
    /// The priority as stated in the program, if any. Only the order of [`Table::entries`]
    /// determines which entry wins.
    pub priority: Option<u32>,
    /// Whether the control plane may not change it.
    pub is_const: bool,
}

/// A keyset, in `select` and in entries.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Keyset {
    /// `_` or `default`.
    Any,
    /// Equal.
    Value(Box<[u64]>),
    /// Equal under a mask.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    Masked { value: Box<[u64]>, mask: Box<[u64]> },
    /// `value/prefix_len`, in entries of lpm keys.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    Prefix { value: Box<[u64]>, len: u32 },
    /// An inclusive range.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    Range { low: Box<[u64]>, high: Box<[u64]> },
    /// The parser value set of this extern instance. The instance has the type `value_set`. Its
    /// type arguments are the scalars of a value; its arguments are the size and, for each scalar,
    /// the symbol of its `match_kind`. A set of several scalars is the only keyset of its case, and
    /// covers all selected values. BMv2 matches all of them exactly.
    ValueSet(ExternId),
}

/// A parser.
#[derive(Clone, Debug)]
pub struct Parser {
    /// Name of its declaration.
    pub name: String,
    /// States; the first is `start`.
    pub states: Vec<State>,
}

/// A parser state.
#[derive(Clone, Debug)]
pub struct State {
    /// Hierarchical name.
    pub name: String,
    /// The statements.
    pub body: Vec<Stmt>,
    /// The transition.
    pub transition: Transition,
}

/// A parser transition.
#[derive(Clone, Debug)]
pub enum Transition {
    /// Unconditional.
    To(Target),
    /// The first case whose keysets all match. If none does, the packet is rejected: on Tofino with
    /// the error `NoMatch`, on BMv2 without an error.
    #[expect(missing_docs, reason = "the variant's text says what its fields are")]
    Select { on: Vec<Expr>, cases: Vec<(Vec<Keyset>, Target)> },
}

/// The target of a transition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The final state `accept`.
    Accept,
    /// The final state `reject`.
    Reject,
    /// Another state.
    State(StateId),
}

/// A control that the package names: a pipeline, a checksum block or a deparser.
#[derive(Clone, Debug)]
pub struct Control {
    /// Name of its declaration.
    pub name: String,
    /// The body.
    pub body: Vec<Stmt>,
}

/// An extern instance.
#[derive(Clone, Debug)]
pub struct Extern {
    /// Hierarchical name.
    pub name: String,
    /// Its type: `register`, `counter`, `direct_counter`, `meter`, `action_profile`, `value_set`, …
    pub type_name: String,
    /// The scalars of its resolved type arguments, in order; a struct counts as its scalars. For
    /// TNA's `Register` and `DirectRegister` only those of the cell: one, or two for a pair.
    pub type_args: Vec<Scalar>,
    /// Constructor arguments.
    pub args: Vec<CtorArg>,
    /// Annotations.
    pub annotations: Vec<Annotation>,
}

/// The operation of a register action on one cell of its register (`RegisterAction`,
/// `DirectRegisterAction`).
///
/// `execute` does the following:
///
/// 1. It copies the cell's scalars into the fields of `value`.
/// 2. It sets the field of `result`, if any, to zero.
/// 3. It runs `body`.
/// 4. It copies the fields of `value` back into the cell.
///
/// The call's result is the field of `result`, or zero if there is none. An index beyond the
/// register's end reads zero and stores nothing. No other access to the register may happen in
/// between.
#[derive(Clone, Debug)]
pub struct StatefulAction {
    /// The `RegisterAction` or `DirectRegisterAction`.
    pub instance: ExternId,
    /// Its `Register` or `DirectRegister`. For the latter, the cell is that of the matching table
    /// entry, and the table has the register in [`Table::attached`].
    pub register: ExternId,
    /// The cell: one field, or two (`lo`, then `hi`, in the order of the struct).
    pub value: Vec<FieldId>,
    /// The `out` parameter of `apply`.
    pub result: Option<FieldId>,
    /// The body of `apply`. Its `Return` leaves the body. It applies no table and calls no stateful
    /// extern.
    pub body: Vec<Stmt>,
}

/// A constructor argument.
#[derive(Clone, Debug)]
pub enum CtorArg {
    /// An integer or `bool`; negative integers in two's complement of the parameter's width. A
    /// struct becomes one argument per scalar (the initial value of a register of pairs).
    Int(u128),
    /// Another instance.
    Instance(ExternId),
    /// An enum member: type and member, such as `CounterType.packets`.
    Symbol(String, String),
    /// A string.
    Text(String),
}

/// An annotation, as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Annotation {
    /// Name without the `@`.
    pub name: String,
    /// Text between its parentheses or brackets, unquoted if it is a single string; empty if there
    /// is none.
    pub body: String,
    /// The form of its contents.
    pub form: AnnotationForm,
}

/// The form of an annotation's contents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AnnotationForm {
    /// None, or unstructured words in parentheses.
    Words,
    /// One string in parentheses.
    Text,
    /// Constants in brackets.
    List(Vec<AnnotationValue>),
    /// Named constants in brackets.
    Pairs(Vec<(String, AnnotationValue)>),
}

/// A constant in a structured annotation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AnnotationValue {
    /// An integer. P4Info has 64 bits for it.
    Int(i64),
    /// A Boolean.
    Bool(bool),
    /// A string.
    Text(String),
}
