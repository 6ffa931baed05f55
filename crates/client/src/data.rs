//! Values of registers and digests as text: numbers, `true` and `false`, names of enumerations, and
//! `{a=1, b={2, 3}}` for structures.

use num_bigint::{BigInt, BigUint, Sign};
use tributary_p4runtime::p4::config::v1::{
    P4BitstringLikeTypeSpec, P4DataTypeSpec, P4TypeInfo, p4_bitstring_like_type_spec as bits,
    p4_data_type_spec::TypeSpec, p4_new_type_spec, p4_new_type_translation,
};
use tributary_p4runtime::p4::v1::{P4Data, P4StructLike, p4_data::Data};

use crate::Error;
use crate::value;

/// Structures deeper than this are not shown.
const DEPTH: u32 = 16;

/// Writes a value of a type.
#[must_use]
pub fn show(types: Option<&P4TypeInfo>, spec: Option<&P4DataTypeSpec>, data: &P4Data) -> String {
    text(types, spec, data, DEPTH)
}

fn text(
    types: Option<&P4TypeInfo>,
    spec: Option<&P4DataTypeSpec>,
    data: &P4Data,
    depth: u32,
) -> String {
    let Some(depth) = depth.checked_sub(1) else { return "…".to_owned() };
    let (spec, string) = resolved(types, spec);
    match &data.data {
        Some(Data::Bitstring(bytes)) if string => {
            crate::words::quote(&String::from_utf8_lossy(bytes))
        }
        Some(Data::Bitstring(bytes)) => number(spec, bytes),
        Some(Data::Varbit(varbit)) => number(None, &varbit.bitstring),
        Some(Data::Bool(value)) => value.to_string(),
        Some(Data::Enum(name) | Data::Error(name)) => name.clone(),
        Some(Data::EnumValue(bytes)) => enum_name(types, spec, bytes),
        Some(Data::Struct(inner) | Data::Tuple(inner)) => {
            let members = members(types, spec);
            let parts = inner.members.iter().enumerate().map(|(at, data)| {
                let member = members.get(at);
                let value = text(types, member.and_then(|(_, spec)| spec.as_ref()), data, depth);
                named(member.map_or("", |(name, _)| name), &value)
            });
            format!("{{{}}}", parts.collect::<Vec<String>>().join(", "))
        }
        Some(Data::Header(header)) if !header.is_valid => "invalid".to_owned(),
        Some(Data::Header(header)) => {
            let members = members(types, spec);
            let parts = header.bitstrings.iter().enumerate().map(|(at, bytes)| {
                named(members.get(at).map_or("", |(name, _)| name), &number(None, bytes))
            });
            format!("{{{}}}", parts.collect::<Vec<String>>().join(", "))
        }
        _ => "?".to_owned(),
    }
}

fn named(name: &str, value: &str) -> String {
    if name.is_empty() { value.to_owned() } else { format!("{name}={value}") }
}

/// The type behind new names, and whether its values are strings.
fn resolved<'a>(
    types: Option<&'a P4TypeInfo>,
    mut spec: Option<&'a P4DataTypeSpec>,
) -> (Option<&'a TypeSpec>, bool) {
    use p4_new_type_spec::Representation;
    for _ in 0..DEPTH {
        let found = spec.and_then(|spec| spec.type_spec.as_ref());
        let Some(TypeSpec::NewType(name)) = found else { return (found, false) };
        let new = types.and_then(|types| types.new_types.get(&name.name));
        spec = match new.and_then(|new| new.representation.as_ref()) {
            Some(Representation::OriginalType(original)) => Some(original),
            Some(Representation::TranslatedType(translated)) => {
                use p4_new_type_translation::SdnType::SdnString;
                return (None, matches!(translated.sdn_type, Some(SdnString(_))));
            }
            None => None,
        };
    }
    (None, false)
}

fn width(spec: &P4BitstringLikeTypeSpec) -> (u32, bool) {
    let (width, signed) = match &spec.type_spec {
        Some(bits::TypeSpec::Bit(bit)) => (bit.bitwidth, false),
        Some(bits::TypeSpec::Int(int)) => (int.bitwidth, true),
        Some(bits::TypeSpec::Varbit(varbit)) => (varbit.max_bitwidth, false),
        None => (0, false),
    };
    (u32::try_from(width).unwrap_or(0), signed)
}

fn number(spec: Option<&TypeSpec>, bytes: &[u8]) -> String {
    if let Some(TypeSpec::Bitstring(spec)) = spec
        && let (width @ 1.., true) = width(spec)
    {
        let value = BigUint::from_bytes_be(bytes);
        // P4Runtime sends the two's complement, which may be shortened.
        let sign = BigUint::from(1u8) << (width - 1);
        let value = match value >= sign {
            true => BigInt::from(value) - (BigInt::from(1) << width),
            false => BigInt::from_biguint(Sign::Plus, value),
        };
        return value.to_string();
    }
    value::show(bytes, value::Type::Bits(0), value::Format::Number)
}

fn enum_name(types: Option<&P4TypeInfo>, spec: Option<&TypeSpec>, bytes: &[u8]) -> String {
    let value = BigUint::from_bytes_be(bytes);
    let known = match spec {
        Some(TypeSpec::SerializableEnum(name)) => {
            types.and_then(|types| types.serializable_enums.get(&name.name))
        }
        _ => None,
    };
    let mut members = known.iter().flat_map(|known| &known.members);
    let member = members.find(|member| BigUint::from_bytes_be(&member.value) == value);
    member.map_or_else(|| number(None, bytes), |member| member.name.clone())
}

/// The members of a structure: names, which tuples do not have, and types.
fn members(
    types: Option<&P4TypeInfo>,
    spec: Option<&TypeSpec>,
) -> Vec<(String, Option<P4DataTypeSpec>)> {
    match spec {
        Some(TypeSpec::Tuple(tuple)) => {
            tuple.members.iter().map(|spec| (String::new(), Some(spec.clone()))).collect()
        }
        Some(TypeSpec::Struct(name)) => {
            let known = types.and_then(|types| types.structs.get(&name.name));
            let members = known.iter().flat_map(|known| &known.members);
            members.map(|member| (member.name.clone(), member.type_spec.clone())).collect()
        }
        Some(TypeSpec::Header(name)) => {
            let known = types.and_then(|types| types.headers.get(&name.name));
            let members = known.iter().flat_map(|known| &known.members);
            members.map(|member| (member.name.clone(), None)).collect()
        }
        _ => Vec::new(),
    }
}

/// Reads a value of a type, as [`show`] writes it. Members of structures may also be given in their order without
/// names.
///
/// # Errors
/// One line with the part that is wrong.
pub fn parse(
    types: Option<&P4TypeInfo>,
    spec: Option<&P4DataTypeSpec>,
    text: &str,
) -> Result<P4Data, Error> {
    let text = text.trim();
    let (spec, string) = resolved(types, spec);
    let data = match spec {
        _ if string => Data::Bitstring(text.trim_matches('"').as_bytes().to_vec()),
        None => {
            return Err(Error::input(format!("`{text}`: values of this type cannot be written")));
        }
        Some(TypeSpec::Bitstring(spec)) => {
            let number = value::number(text, width(spec).0).map_err(Error::Input)?;
            Data::Bitstring(value::bytes(&number))
        }
        Some(TypeSpec::Bool(_)) => match text {
            "true" | "1" => Data::Bool(true),
            "false" | "0" => Data::Bool(false),
            _ => return Err(Error::input(format!("`{text}`: write true or false"))),
        },
        Some(TypeSpec::SerializableEnum(name)) => {
            let known = types.and_then(|types| types.serializable_enums.get(&name.name));
            let mut members = known.iter().flat_map(|known| &known.members);
            match members.find(|member| member.name == text) {
                Some(member) => Data::EnumValue(member.value.clone()),
                None => {
                    let width = known.and_then(|known| known.underlying_type);
                    let width = width.map_or(0, |ty| u32::try_from(ty.bitwidth).unwrap_or(0));
                    let number = value::number(text, width).map_err(Error::Input)?;
                    Data::EnumValue(value::bytes(&number))
                }
            }
        }
        Some(spec @ (TypeSpec::Struct(_) | TypeSpec::Tuple(_))) => {
            let members = structure(types, spec, text)?;
            match spec {
                TypeSpec::Struct(_) => Data::Struct(P4StructLike { members }),
                _ => Data::Tuple(P4StructLike { members }),
            }
        }
        Some(_) => {
            return Err(Error::input(format!("`{text}`: values of this type cannot be written")));
        }
    };
    Ok(P4Data { data: Some(data) })
}

fn structure(
    types: Option<&P4TypeInfo>,
    spec: &TypeSpec,
    text: &str,
) -> Result<Vec<P4Data>, Error> {
    let members = members(types, Some(spec));
    let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    let wanted = || {
        let names = names
            .iter()
            .map(|name| if name.is_empty() { "VALUE".into() } else { format!("{name}=VALUE") });
        format!("{{{}}}", names.collect::<Vec<String>>().join(", "))
    };
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let inner = inner.ok_or_else(|| Error::input(format!("`{text}`: write {}", wanted())))?;
    let mut values = vec![None; members.len()];
    for (at, part) in parts(inner).into_iter().enumerate() {
        let given = part.split_once('=').filter(|(name, _)| !name.contains('{'));
        let place = match given {
            Some((name, _)) => names.iter().position(|known| *known == name.trim()),
            None => Some(at),
        };
        let value = given.map_or(part, |(_, value)| value);
        let place = place.filter(|&place| place < values.len() && values[place].is_none());
        let place = place.ok_or_else(|| Error::input(format!("`{part}`: write {}", wanted())))?;
        values[place] = Some(parse(types, members[place].1.as_ref(), value)?);
    }
    let all: Option<Vec<P4Data>> = values.into_iter().collect();
    all.ok_or_else(|| Error::input(format!("`{text}`: a member is missing; write {}", wanted())))
}

/// The parts between commas, without those in inner braces.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0u32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    let last = text[begin..].trim();
    parts.extend((!last.is_empty()).then_some(last));
    parts
}

/// Whether a value is zero in all its parts.
#[must_use]
pub fn is_zero(data: &P4Data) -> bool {
    let zero = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
    match &data.data {
        Some(Data::Bitstring(bytes) | Data::EnumValue(bytes)) => zero(bytes),
        Some(Data::Bool(value)) => !value,
        Some(Data::Struct(inner) | Data::Tuple(inner)) => inner.members.iter().all(is_zero),
        _ => false,
    }
}

/// The value of which all parts are zero, of the form of another one.
#[must_use]
pub fn zeroed(data: &P4Data) -> P4Data {
    let zero =
        |inner: &P4StructLike| P4StructLike { members: inner.members.iter().map(zeroed).collect() };
    let data = match &data.data {
        Some(Data::Bitstring(_)) => Some(Data::Bitstring(vec![0])),
        Some(Data::EnumValue(_)) => Some(Data::EnumValue(vec![0])),
        Some(Data::Bool(_)) => Some(Data::Bool(false)),
        Some(Data::Struct(inner)) => Some(Data::Struct(zero(inner))),
        Some(Data::Tuple(inner)) => Some(Data::Tuple(zero(inner))),
        other => other.clone(),
    };
    P4Data { data }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use tributary_p4runtime::p4::config::v1::p4_serializable_enum_type_spec::Member as EnumMember;
    use tributary_p4runtime::p4::config::v1::p4_struct_type_spec::Member;
    use tributary_p4runtime::p4::config::v1::{
        P4BitTypeSpec, P4BoolType, P4IntTypeSpec, P4NamedType, P4SerializableEnumTypeSpec,
        P4StructTypeSpec,
    };

    use super::*;

    fn spec(spec: TypeSpec) -> P4DataTypeSpec {
        P4DataTypeSpec { type_spec: Some(spec) }
    }

    fn number_of(type_spec: bits::TypeSpec) -> P4DataTypeSpec {
        let bits = P4BitstringLikeTypeSpec { type_spec: Some(type_spec), ..Default::default() };
        spec(TypeSpec::Bitstring(bits))
    }

    /// A structure with members of all types that can be written.
    fn types() -> (P4TypeInfo, P4DataTypeSpec) {
        let named = |name: &str| P4NamedType { name: name.to_owned() };
        let members = [
            ("bits", number_of(bits::TypeSpec::Bit(P4BitTypeSpec { bitwidth: 40 }))),
            ("signed", number_of(bits::TypeSpec::Int(P4IntTypeSpec { bitwidth: 8 }))),
            ("flag", spec(TypeSpec::Bool(P4BoolType {}))),
            ("color", spec(TypeSpec::SerializableEnum(named("color_t")))),
        ];
        let member = |(name, spec): (&str, P4DataTypeSpec)| Member {
            name: name.to_owned(),
            type_spec: Some(spec),
        };
        let structure = P4StructTypeSpec {
            members: members.into_iter().map(member).collect(),
            ..Default::default()
        };
        let red = EnumMember { name: "red".to_owned(), value: vec![3], ..Default::default() };
        let color = P4SerializableEnumTypeSpec {
            underlying_type: Some(P4BitTypeSpec { bitwidth: 8 }),
            members: vec![red],
            ..Default::default()
        };
        let info = P4TypeInfo {
            structs: BTreeMap::from([("all_t".to_owned(), structure)]),
            serializable_enums: BTreeMap::from([("color_t".to_owned(), color)]),
            ..Default::default()
        };
        (info, spec(TypeSpec::Struct(named("all_t"))))
    }

    #[test]
    fn values_have_the_forms_of_their_types() {
        let (types, spec) = types();
        let text = "{bits=70000, signed=-3, flag=true, color=red}";
        let value = parse(Some(&types), Some(&spec), text).unwrap();
        let shown = show(Some(&types), Some(&spec), &value);
        assert_eq!(shown, "{bits=0x11170, signed=-3, flag=true, color=red}");
        let zero = show(Some(&types), Some(&spec), &zeroed(&value));
        assert_eq!(zero, "{bits=0, signed=0, flag=false, color=0}");
        assert!(is_zero(&zeroed(&value)) && !is_zero(&value));
        for (wrong, part) in [
            ("{1, 2, maybe, red}", "write true or false"),
            ("{1, 200, true}", "a member is missing"),
            ("{1, 300, true, red}", "does not fit into 8 bits"),
            ("{size=1}", "write {bits=VALUE, signed=VALUE, flag=VALUE, color=VALUE}"),
        ] {
            let line = parse(Some(&types), Some(&spec), wrong).unwrap_err().to_string();
            assert!(line.contains(part), "{wrong}: {line}");
        }
    }

    proptest! {
        #[test]
        fn a_shown_value_is_read_back(
            number in 0u64..1 << 40, signed: i8, flag: bool, color: u8
        ) {
            let (types, spec) = types();
            let text = format!("{{{number}, {signed}, {flag}, {color}}}");
            let value = parse(Some(&types), Some(&spec), &text).unwrap();
            let shown = show(Some(&types), Some(&spec), &value);
            prop_assert_eq!(parse(Some(&types), Some(&spec), &shown).unwrap(), value, "{}", shown);
        }
    }
}
