//! Data of registers and digests: numbers, structs and tuples.

use tributary_dataplane::Value;
use tributary_p4runtime::p4::config::v1::{self as info, P4Info};
use tributary_p4runtime::p4::v1::p4_data::Data;
use tributary_p4runtime::p4::v1::{P4Data, P4StructLike};

use super::Refusal;
use super::values::{decode, decode_signed, encode, encode_signed};

/// Parts of a type. A controller's P4Info may name types within themselves.
const MOST_PARTS: u32 = 1 << 16;

/// Nesting of a type's parts.
const DEEPEST: u32 = 64;

/// The representation of a data type in P4Runtime.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// A plain value.
    Scalar(Scalar),
    /// A struct: its members in order.
    Struct(Vec<Form>),
    /// A tuple, in the same way.
    Tuple(Vec<Form>),
    /// `bit<0>`: an empty byte string, for which the engine stores nothing.
    Nothing,
}

impl Form {
    /// The representation of a type; `None` if it is not supported.
    pub(super) fn of(spec: &info::P4DataTypeSpec, p4info: &P4Info) -> Option<Self> {
        form_within(spec, p4info, DEEPEST, &mut { MOST_PARTS })
    }

    /// Number of values.
    pub(crate) fn scalars(&self) -> usize {
        match self {
            Self::Scalar(_) => 1,
            Self::Nothing => 0,
            Self::Struct(members) | Self::Tuple(members) => members.iter().map(Self::scalars).sum(),
        }
    }
}

/// The representation of one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scalar {
    /// `bit<W>`.
    Bits(u32),
    /// `int<W>`: two's complement.
    Int(u32),
    /// A serializable enum over `bit<W>`.
    Enum(u32),
    Bool,
}

fn form_within(
    spec: &info::P4DataTypeSpec,
    p4info: &P4Info,
    depth: u32,
    parts: &mut u32,
) -> Option<Form> {
    use info::p4_data_type_spec::TypeSpec;
    *parts = parts.checked_sub(1)?;
    let depth = depth.checked_sub(1)?;
    match spec.type_spec.as_ref()? {
        TypeSpec::Struct(named) => {
            let known = p4info.type_info.as_ref()?.structs.get(&named.name)?;
            let mut member = |member: &info::p4_struct_type_spec::Member| {
                form_within(member.type_spec.as_ref()?, p4info, depth, parts)
            };
            known.members.iter().map(&mut member).collect::<Option<_>>().map(Form::Struct)
        }
        TypeSpec::Tuple(tuple) => {
            let members = tuple.members.iter();
            let members = members.map(|member| form_within(member, p4info, depth, parts));
            members.collect::<Option<_>>().map(Form::Tuple)
        }
        _ => scalar(spec, p4info, depth).map(|scalar| match scalar {
            Scalar::Bits(0) => Form::Nothing,
            other => Form::Scalar(other),
        }),
    }
}

fn scalar(spec: &info::P4DataTypeSpec, p4info: &P4Info, depth: u32) -> Option<Scalar> {
    use info::p4_bitstring_like_type_spec::TypeSpec as Bits;
    use info::p4_data_type_spec::TypeSpec;
    use info::p4_new_type_spec::Representation;
    let width = |width: i32| u32::try_from(width).ok().filter(|&width| width > 0);
    match spec.type_spec.as_ref()? {
        TypeSpec::Bool(_) => Some(Scalar::Bool),
        TypeSpec::Bitstring(bits) => match bits.type_spec.as_ref()? {
            Bits::Bit(bit) => u32::try_from(bit.bitwidth).ok().map(Scalar::Bits),
            Bits::Int(int) => width(int.bitwidth).map(Scalar::Int),
            Bits::Varbit(_) => None,
        },
        TypeSpec::NewType(named) => {
            let known = p4info.type_info.as_ref()?.new_types.get(&named.name)?;
            match known.representation.as_ref()? {
                Representation::OriginalType(original) => {
                    scalar(original, p4info, depth.checked_sub(1)?)
                }
                Representation::TranslatedType(_) => None,
            }
        }
        TypeSpec::SerializableEnum(named) => {
            let known = p4info.type_info.as_ref()?.serializable_enums.get(&named.name)?;
            width(known.underlying_type.as_ref()?.bitwidth).map(Scalar::Enum)
        }
        _ => None,
    }
}

/// Decodes data of a type, and appends their scalars in order.
pub(super) fn decode_data(data: &P4Data, form: &Form, out: &mut Vec<Value>) -> Result<(), Refusal> {
    let (forms, given) = match (form, &data.data) {
        (_, None) => return Err(Refusal::invalid("the data is not set")),
        (Form::Scalar(scalar), Some(data)) => {
            out.push(decode_scalar(data, *scalar)?);
            return Ok(());
        }
        (Form::Nothing, Some(Data::Bitstring(bytes))) if bytes.is_empty() => return Ok(()),
        (Form::Struct(forms), Some(Data::Struct(given)))
        | (Form::Tuple(forms), Some(Data::Tuple(given))) => (forms, &given.members),
        (Form::Struct(_) | Form::Tuple(_) | Form::Nothing, Some(_)) => {
            return Err(Refusal::invalid("data of another type"));
        }
    };
    if forms.len() != given.len() {
        let (expected, got) = (forms.len(), given.len());
        return Err(Refusal::invalid(format!("{got} members, not {expected}")));
    }
    forms.iter().zip(given).try_for_each(|(form, data)| decode_data(data, form, out))
}

/// Encodes data of a type from their scalars; `None` if there are too few.
pub(super) fn encode_data(
    scalars: &mut impl Iterator<Item = Value>,
    form: &Form,
) -> Option<P4Data> {
    let mut list = |forms: &[Form]| {
        let members = forms.iter().map(|form| encode_data(&mut *scalars, form));
        Some(P4StructLike { members: members.collect::<Option<_>>()? })
    };
    let data = match form {
        Form::Struct(forms) => Data::Struct(list(forms)?),
        Form::Tuple(forms) => Data::Tuple(list(forms)?),
        Form::Scalar(scalar) => encode_scalar(&scalars.next()?, *scalar),
        Form::Nothing => Data::Bitstring(Vec::new()),
    };
    Some(P4Data { data: Some(data) })
}

/// Decodes a value of a data type.
fn decode_scalar(data: &Data, scalar: Scalar) -> Result<Value, Refusal> {
    match (scalar, data) {
        (Scalar::Bits(width), Data::Bitstring(bytes))
        | (Scalar::Enum(width), Data::EnumValue(bytes)) => decode(bytes, width, "value"),
        (Scalar::Int(width), Data::Bitstring(bytes)) => decode_signed(bytes, width),
        (Scalar::Bool, &Data::Bool(value)) => Ok(Value::from(u64::from(value))),
        _ => Err(Refusal::invalid("data of another type")),
    }
}

/// Encodes a value of a data type.
fn encode_scalar(value: &Value, scalar: Scalar) -> Data {
    match scalar {
        Scalar::Bits(_) => Data::Bitstring(encode(value)),
        Scalar::Enum(_) => Data::EnumValue(encode(value)),
        Scalar::Int(width) => Data::Bitstring(encode_signed(value, width)),
        Scalar::Bool => Data::Bool(*value != Value::zero()),
    }
}
