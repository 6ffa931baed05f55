//! Types in the checker.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

pub(crate) use crate::ast::{Aggregate, Direction, Str};
use crate::ast::{FieldDecl, Ident};
use crate::ir;
use crate::source::Span;

/// A type. Equal types are the same type; declared types are compared by identity.
#[derive(Clone, Debug)]
pub(crate) enum Type {
    /// The type of an invalid expression; compatible with every type.
    Unknown,
    Void,
    Bool,
    /// `error`.
    ErrorCode,
    Text,
    MatchKind,
    /// `int`: any integer known at compile time.
    Int,
    Bit(u32),
    Signed(u32),
    Varbit(u32),
    Struct(Rc<StructType>),
    Enum(Rc<EnumType>),
    SerEnum(Rc<SerEnumType>),
    /// Declared by `type`.
    New(Rc<NewType>),
    Stack(Rc<Type>, u32),
    /// A tuple, or a list expression.
    Tuple(Rc<[Type]>),
    /// `list<T>`: any number of values known at compile time.
    List(Rc<Type>),
    /// `{name = value}` before conversion to a struct.
    Record(Rc<[(Str, Type)]>),
    /// `{#}` before conversion to a header.
    Invalid,
    Extern(Rc<ExternType>, Rc<[Type]>),
    Block(Rc<BlockType>),
    Package(Rc<PackageType>),
    Var(TypeVar),
    /// A parser value set.
    ValueSet(Rc<Type>),
    /// A generic struct or header whose type arguments are not known yet.
    Generic(Rc<GenericStruct>, Rc<[Type]>),
    /// `...` before it is known which values it replaces.
    Rest,
    /// The result of `table.apply()`.
    ApplyResult,
    /// The result of `table.apply().action_run`.
    ActionRun,
}

/// A type parameter.
#[derive(Clone, Debug)]
pub(crate) struct TypeVar {
    pub(crate) id: u32,
    pub(crate) name: Str,
}

/// A header, struct or header union.
#[derive(Debug)]
pub(crate) struct StructType {
    pub(crate) id: u32,
    pub(crate) what: Aggregate,
    pub(crate) name: Str,
    /// The name in its declaration.
    pub(crate) span: Span,
    pub(crate) fields: Vec<FieldType>,
    pub(crate) extent: Extent,
    pub(crate) annotations: Vec<ir::Annotation>,
    /// The generic type and the type arguments from which it was instantiated.
    pub(crate) origin: Option<(u32, Rc<[Type]>)>,
}

/// The size of a type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Number of values, which bounds the work for a type: `bit<0>` and a struct without fields
    /// count as one.
    pub(crate) values: u64,
    /// Number of scalars that represent a value: `bit<0>` has none.
    pub(crate) scalars: u64,
    /// Nesting depth.
    pub(crate) depth: u32,
}

impl Extent {
    const SCALAR: Self = Self { values: 1, scalars: 1, depth: 0 };

    /// The extent of a type that consists of these parts.
    pub(crate) fn of_parts<'t>(parts: impl Iterator<Item = &'t Type>) -> Self {
        let none = Self { values: 0, scalars: 0, depth: 1 };
        let all = parts.map(Type::extent).fold(none, |all, part| Self {
            values: all.values.saturating_add(part.values),
            scalars: all.scalars.saturating_add(part.scalars),
            depth: all.depth.max(part.depth + 1),
        });
        Self { values: all.values.max(1), ..all }
    }
}

/// A generic struct, header or union.
#[derive(Debug)]
pub(crate) struct GenericStruct {
    pub(crate) id: u32,
    pub(crate) what: Aggregate,
    pub(crate) name: Ident,
    pub(crate) type_params: Vec<Ident>,
    pub(crate) fields: Vec<FieldDecl>,
    pub(crate) annotations: Vec<ir::Annotation>,
    /// Instances so far.
    pub(crate) made: RefCell<Vec<(Rc<[Type]>, Type)>>,
}

#[derive(Debug)]
pub(crate) struct FieldType {
    pub(crate) name: Str,
    pub(crate) ty: Type,
    pub(crate) annotations: Vec<ir::Annotation>,
}

impl StructType {
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|f| *f.name == *name)
    }

    /// Whether `@flexible` lets Tofino's compiler lay out fields of the type, which may be those of
    /// structs in it.
    pub(crate) fn is_flexible(&self) -> bool {
        let marked = |list: &[ir::Annotation]| list.iter().any(|a| a.name == "flexible");
        marked(&self.annotations)
            || self.fields.iter().any(|field| {
                let inner = matches!(&field.ty, Type::Struct(s) if s.is_flexible());
                inner || marked(&field.annotations)
            })
    }
}

#[derive(Debug)]
pub(crate) struct EnumType {
    pub(crate) id: u32,
    pub(crate) name: Str,
    pub(crate) members: Vec<Str>,
}

#[derive(Debug)]
pub(crate) struct SerEnumType {
    pub(crate) id: u32,
    pub(crate) name: Str,
    pub(crate) repr: Type,
    pub(crate) members: Vec<(Str, num_bigint::BigInt)>,
}

#[derive(Debug)]
pub(crate) struct NewType {
    pub(crate) id: u32,
    pub(crate) name: Str,
    pub(crate) repr: Type,
    pub(crate) annotations: Vec<ir::Annotation>,
}

impl NewType {
    /// Whether it stands for any type, in a generic function.
    pub(crate) fn is_opaque(&self) -> bool {
        matches!(self.repr, Type::Var(_))
    }
}

/// A parameter in a signature.
#[derive(Clone, Debug)]
pub(crate) struct ParamType {
    pub(crate) name: Str,
    pub(crate) direction: Direction,
    pub(crate) ty: Type,
    pub(crate) optional: bool,
}

/// A method or function of an extern, or a constructor.
#[derive(Debug)]
pub(crate) struct Signature {
    pub(crate) name: Str,
    pub(crate) type_params: Vec<TypeVar>,
    pub(crate) params: Vec<ParamType>,
    pub(crate) ret: Type,
    pub(crate) is_abstract: bool,
}

impl Signature {
    /// Whether no call can distinguish the two: overloads differ in the names of parameters.
    pub(crate) fn same_names(&self, other: &Self) -> bool {
        self.params.len() == other.params.len()
            && self.params.iter().zip(&other.params).all(|(a, b)| a.name == b.name)
    }
}

#[derive(Debug)]
pub(crate) struct ExternType {
    pub(crate) id: u32,
    pub(crate) name: Str,
    pub(crate) type_params: Vec<TypeVar>,
    pub(crate) constructors: Vec<Rc<Signature>>,
    pub(crate) methods: Vec<Rc<Signature>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockKind {
    Parser,
    Control,
}

/// The signature of a parser or control.
#[derive(Debug)]
pub(crate) struct BlockType {
    pub(crate) kind: BlockKind,
    pub(crate) name: Str,
    pub(crate) type_params: Vec<TypeVar>,
    pub(crate) params: Vec<ParamType>,
}

#[derive(Debug)]
pub(crate) struct PackageType {
    pub(crate) name: Str,
    pub(crate) type_params: Vec<TypeVar>,
    pub(crate) params: Vec<ParamType>,
}

/// Bindings of type parameters.
pub(crate) type Substitution = HashMap<u32, Type>;

impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Type::Unknown, Type::Unknown)
            | (Type::Void, Type::Void)
            | (Type::Bool, Type::Bool)
            | (Type::ErrorCode, Type::ErrorCode)
            | (Type::Text, Type::Text)
            | (Type::MatchKind, Type::MatchKind)
            | (Type::Int, Type::Int)
            | (Type::Invalid, Type::Invalid)
            | (Type::Rest, Type::Rest)
            | (Type::ApplyResult, Type::ApplyResult)
            | (Type::ActionRun, Type::ActionRun) => true,
            (Type::Bit(a), Type::Bit(b))
            | (Type::Signed(a), Type::Signed(b))
            | (Type::Varbit(a), Type::Varbit(b)) => a == b,
            (Type::Struct(a), Type::Struct(b)) => a.id == b.id,
            (Type::Enum(a), Type::Enum(b)) => a.id == b.id,
            (Type::SerEnum(a), Type::SerEnum(b)) => a.id == b.id,
            (Type::New(a), Type::New(b)) => a.id == b.id,
            (Type::Stack(a, n), Type::Stack(b, m)) => n == m && a == b,
            (Type::Tuple(a), Type::Tuple(b)) => a == b,
            (Type::List(a), Type::List(b)) | (Type::ValueSet(a), Type::ValueSet(b)) => a == b,
            (Type::Generic(a, s), Type::Generic(b, t)) => a.id == b.id && s == t,
            (Type::Record(a), Type::Record(b)) => a == b,
            (Type::Extern(a, s), Type::Extern(b, t)) => a.id == b.id && s == t,
            (Type::Var(a), Type::Var(b)) => a.id == b.id,
            (Type::Block(a), Type::Block(b)) => Rc::ptr_eq(a, b),
            (Type::Package(a), Type::Package(b)) => Rc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Type {
    /// The header type.
    pub(crate) fn as_header(&self) -> Option<&Rc<StructType>> {
        match self {
            Type::Struct(s) if s.what == Aggregate::Header => Some(s),
            _ => None,
        }
    }

    /// Whether it stands for any type, in a generic function.
    pub(crate) fn is_opaque(&self) -> bool {
        matches!(self, Type::New(new) if new.is_opaque())
    }

    /// Its size.
    pub(crate) fn extent(&self) -> Extent {
        match self {
            Type::Struct(s) => s.extent,
            Type::New(new) => {
                let of = new.repr.extent();
                Extent { depth: of.depth + 1, ..of }
            }
            Type::Tuple(items) => Extent::of_parts(items.iter()),
            Type::Record(items) => Extent::of_parts(items.iter().map(|(_, ty)| ty)),
            Type::Extern(_, args) | Type::Generic(_, args) => Extent::of_parts(args.iter()),
            Type::Stack(of, size) => {
                let of = of.extent();
                let times = |count: u64| count.saturating_mul(u64::from(*size));
                Extent { values: times(of.values), scalars: times(of.scalars), depth: of.depth + 1 }
            }
            Type::List(of) | Type::ValueSet(of) => {
                let of = of.extent();
                Extent { depth: of.depth + 1, ..of }
            }
            _ if self.is_empty() => Extent { scalars: 0, ..Extent::SCALAR },
            _ => Extent::SCALAR,
        }
    }

    /// Whether it contains a type parameter.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Type::Var(_) | Type::Generic(..) => true,
            Type::Tuple(items) => items.iter().any(Type::is_open),
            Type::Extern(_, args) => args.iter().any(Type::is_open),
            Type::Stack(of, _) | Type::List(of) => of.is_open(),
            Type::Block(b) => b.params.iter().any(|p| p.ty.is_open()),
            _ => false,
        }
    }

    /// The type with type parameters replaced.
    pub(crate) fn substitute(&self, map: &Substitution) -> Type {
        if map.is_empty() || !self.is_open() {
            return self.clone();
        }
        match self {
            Type::Var(v) => map.get(&v.id).cloned().unwrap_or_else(|| self.clone()),
            Type::Tuple(items) => Type::Tuple(items.iter().map(|t| t.substitute(map)).collect()),
            Type::Extern(e, args) => {
                Type::Extern(e.clone(), args.iter().map(|t| t.substitute(map)).collect())
            }
            Type::Generic(of, args) => {
                Type::Generic(of.clone(), args.iter().map(|t| t.substitute(map)).collect())
            }
            Type::Stack(of, n) => Type::Stack(Rc::new(of.substitute(map)), *n),
            Type::List(of) => Type::List(Rc::new(of.substitute(map))),
            Type::Block(b) => Type::Block(Rc::new(BlockType {
                kind: b.kind,
                name: b.name.clone(),
                type_params: Vec::new(),
                params: b
                    .params
                    .iter()
                    .map(|p| ParamType { ty: p.ty.substitute(map), ..p.clone() })
                    .collect(),
            })),
            other => other.clone(),
        }
    }

    /// The underlying type of `type` and serialisable enums.
    pub(crate) fn repr(&self) -> &Type {
        match self {
            Type::New(n) => n.repr.repr(),
            Type::SerEnum(e) => e.repr.repr(),
            other => other,
        }
    }

    /// The type that its values have in expressions that take integers: a serialisable enum converts
    /// to its underlying type there, and a type made by `type` does not.
    pub(crate) fn operand(&self) -> &Type {
        match self {
            Type::SerEnum(e) => e.repr.repr(),
            other => other,
        }
    }

    /// Whether it is `bit<0>`, or stands for it: its only value takes no storage.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.repr(), Type::Bit(0))
    }

    /// Number of scalars that represent a value.
    pub(crate) fn scalars(&self) -> u64 {
        self.extent().scalars
    }

    /// Types of its parts: fields, or elements.
    pub(crate) fn parts(&self) -> Vec<Type> {
        match self {
            Type::Struct(s) => s.fields.iter().map(|f| f.ty.clone()).collect(),
            Type::Tuple(items) => items.to_vec(),
            Type::Stack(of, size) => (0..*size).map(|_| (**of).clone()).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether all of its values are numbers: no headers, no varbits.
    pub(crate) fn is_plain(&self) -> bool {
        match self.repr() {
            Type::Bool | Type::Bit(_) | Type::Signed(_) | Type::Enum(_) | Type::ErrorCode => true,
            Type::Struct(s) => {
                s.what == Aggregate::Struct && s.fields.iter().all(|f| f.ty.is_plain())
            }
            Type::Stack(of, _) => of.is_plain(),
            Type::Tuple(items) => items.iter().all(Type::is_plain),
            _ => false,
        }
    }

    /// Whether its values differ in size because it contains a varbit.
    pub(crate) fn varies(&self) -> bool {
        match self.repr() {
            Type::Varbit(_) => true,
            Type::Struct(s) => s.fields.iter().any(|f| f.ty.varies()),
            Type::Stack(of, _) => of.varies(),
            Type::Tuple(items) => items.iter().any(Type::varies),
            _ => false,
        }
    }

    /// Width in bits, if fixed. A varbit counts as zero (`least`) or its maximum.
    pub(crate) fn size_bits(&self, least: bool) -> Option<u64> {
        Some(match self.repr() {
            Type::Bool => 1,
            Type::Bit(w) | Type::Signed(w) => u64::from(*w),
            Type::Varbit(w) => {
                if least {
                    0
                } else {
                    u64::from(*w)
                }
            }
            Type::Struct(s) => {
                let sizes = s.fields.iter().map(|f| f.ty.size_bits(least));
                if s.what == Aggregate::Union {
                    let sizes: Option<Vec<u64>> = sizes.collect();
                    let sizes = sizes?.into_iter();
                    if least { sizes.min()? } else { sizes.max()? }
                } else {
                    sizes.sum::<Option<u64>>()?
                }
            }
            Type::Stack(of, n) => of.size_bits(least)? * u64::from(*n),
            Type::Tuple(items) => items.iter().map(|t| t.size_bits(least)).sum::<Option<u64>>()?,
            _ => return None,
        })
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, items: &[Type]| {
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    f.write_str(", ")?;
                }
                write!(f, "{item}")?;
            }
            Ok(())
        };
        match self {
            Type::Unknown => f.write_str("an unknown type"),
            Type::Void => f.write_str("void"),
            Type::Bool => f.write_str("bool"),
            Type::ErrorCode => f.write_str("error"),
            Type::Text => f.write_str("string"),
            Type::MatchKind => f.write_str("match_kind"),
            Type::Int => f.write_str("int"),
            Type::Bit(w) => write!(f, "bit<{w}>"),
            Type::Signed(w) => write!(f, "int<{w}>"),
            Type::Varbit(w) => write!(f, "varbit<{w}>"),
            Type::Struct(s) => {
                let what = match s.what {
                    Aggregate::Header => "header",
                    Aggregate::Struct => "struct",
                    Aggregate::Union => "header_union",
                };
                write!(f, "{what} {}", s.name)
            }
            Type::Enum(e) => write!(f, "enum {}", e.name),
            Type::SerEnum(e) => write!(f, "enum {}", e.name),
            Type::New(n) => write!(f, "{}", n.name),
            Type::Stack(of, n) => write!(f, "{of}[{n}]"),
            Type::Tuple(items) => {
                f.write_str("tuple<")?;
                list(f, items)?;
                f.write_str(">")
            }
            Type::List(of) => write!(f, "list<{of}>"),
            Type::Record(_) => f.write_str("a list of named values"),
            Type::Invalid => f.write_str("an invalid header"),
            Type::Extern(e, args) if args.is_empty() => write!(f, "{}", e.name),
            Type::Extern(e, args) => {
                write!(f, "{}<", e.name)?;
                list(f, args)?;
                f.write_str(">")
            }
            Type::Block(b) => match b.kind {
                BlockKind::Parser => write!(f, "parser {}", b.name),
                BlockKind::Control => write!(f, "control {}", b.name),
            },
            Type::Package(p) => write!(f, "package {}", p.name),
            Type::Var(v) => write!(f, "{}", v.name),
            Type::ValueSet(of) => write!(f, "value_set<{of}>"),
            Type::Generic(of, args) => {
                write!(f, "{}<", of.name.name)?;
                list(f, args)?;
                f.write_str(">")
            }
            Type::Rest => f.write_str("default values"),
            Type::ApplyResult => f.write_str("the result of a table"),
            Type::ActionRun => f.write_str("the action that a table ran"),
        }
    }
}
