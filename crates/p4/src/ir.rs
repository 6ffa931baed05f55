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
//! # PSA
//!
//! Ingress and egress of a `PSA_Switch` have separate headers and metadata, as in TNA. Roles of the
//! blocks are `ip`, `ig`, `id` (ingress parser, ingress, ingress deparser), `ep`, `eg`, `ed`. The
//! architecture's fields are named by the struct that contains them, without `psa_` and
//! `_metadata_t`: `ingress_output.drop`. [`Program::bridges`] says what a deparser's `out` parameters
//! are for the parser of the packet's next pass.
//!
//! - A returned value is the last argument: `Register.read(In index, Out)`, `Hash.get_hash(List or In
//!   data, Out)` or `(In base, List or In data, In max, Out)`, `Meter.execute(In index, In colour?,
//!   Out)`, `Random.read(Out)`, `InternetChecksum.get(Out)`.
//! - `Digest.pack(List data)` as in TNA.
//! - A block's `Checksum` and `InternetChecksum` are cleared by calls at its start.
//!
//! `psa_clone_i2e` and its four relatives have already been converted to expressions.
//!
//! # v1model
//!
//! Calls have the arguments of `v1model.p4`, with these exceptions:
//!
//! - `digest(In receiver, List data, Text name)`: the name is that of the digest in P4Info.
//! - `register.read(Out …, In index)` has an `Out` for each scalar of the cell, and
//!   `register.write(In index, List or In value)` a list of them if the cell is a struct, a tuple or
//!   an array.
//!
//! # Values
//!
//! Integers carry their width in bits; a value is stored in `ceil(width / 64)` limbs of 64 bits,
//! least significant first, bits above the width zero (also for signed types, which are two's
//! complement within their width). `bool` is an unsigned integer of width 1. Enums and errors are
//! unsigned integers that index [`Program::enums`] and [`Program::errors`].

mod annotation;
mod expr;
mod externs;
mod origin;
mod parser;
mod stmt;
mod storage;
mod table;
pub mod visit;

use std::collections::BTreeMap;

use crate::Architecture;

pub use annotation::{Annotation, AnnotationForm, AnnotationValue};
pub use expr::{BinaryOp, Expr, ExprKind, HeaderRef, Place, UnaryOp};
pub use externs::{CtorArg, Extern, StatefulAction};
pub use origin::{Origin, Origins};
pub use parser::{Control, Parser, State, Target, Transition};
pub use stmt::{Arg, ExternCall, Inlined, Mark, Position, Stmt};
pub use storage::{Field, FieldRole, Header, Scalar, Stack};
pub use table::{Action, ActionCall, Entry, Key, Keyset, MatchKind, Scope, Table, TableAction};

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
    /// Name of the package that `main` instantiates: `V1Switch`, `Switch` or `PSA_Switch`.
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
    /// those of its `Pipeline` for `Switch`, those of its two pipelines for `PSA_Switch`) and the
    /// bound block.
    pub blocks: Vec<(String, Block)>,
    /// Architecture metadata by name: for v1model the fields of `standard_metadata_t`, for TNA role
    /// and member, such as `ig_tm_md.ucast_egress_port`, for PSA such as `ingress_output.drop`.
    pub intrinsic: Vec<(String, FieldId)>,
    /// What deparsers hand to the parsers of a packet's next pass (PSA).
    pub bridges: Vec<Bridge>,
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
    /// Where the program's parts come from.
    pub origins: Origins,
}

/// Metadata that travels with a packet from a deparser to the parser of its next pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bridge {
    /// The parameter of both: `normal_meta`, `clone_i2e_meta`, `clone_e2e_meta`, `resubmit_meta` or
    /// `recirculate_meta`.
    pub name: String,
    /// The deparser's fields.
    pub from: Vec<FieldId>,
    /// The parser's fields, in the same order and of the same types.
    pub to: Vec<FieldId>,
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
