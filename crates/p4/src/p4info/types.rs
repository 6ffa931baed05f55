//! Conversion of types to those of P4Info.

use num_bigint::BigInt;
use tributary_p4runtime::p4::config::v1::{
    P4BitTypeSpec, P4BitstringLikeTypeSpec, P4BoolType, P4DataTypeSpec, P4EnumTypeSpec,
    P4ErrorType, P4ErrorTypeSpec, P4HeaderStackTypeSpec, P4HeaderTypeSpec, P4IntTypeSpec,
    P4NamedType, P4NewTypeSpec, P4NewTypeTranslation, P4SerializableEnumTypeSpec, P4StructTypeSpec,
    P4TupleTypeSpec, P4TypeInfo, P4VarbitTypeSpec, p4_bitstring_like_type_spec, p4_data_type_spec,
    p4_enum_type_spec, p4_header_type_spec, p4_new_type_spec, p4_new_type_translation,
    p4_serializable_enum_type_spec, p4_struct_type_spec,
};

use super::annotations;
use crate::check::fold::limbs;
use crate::ir::{self, Annotation};
use crate::types::{Aggregate, NewType, StructType, Type};

/// The controller's representation of a `type` with `@p4runtime_translation`.
enum Translated {
    Text,
    Bits(i32),
}

fn translation(annotations: &[Annotation]) -> Option<(String, Translated)> {
    let body = &annotations.iter().find(|a| a.name == "p4runtime_translation")?.body;
    let (uri, ty) = body.rsplit_once(',')?;
    let uri = uri.trim().trim_matches('"').to_owned();
    let ty = ty.trim();
    let bits = ty.strip_prefix("bit<").and_then(|t| t.strip_suffix('>')).unwrap_or(ty);
    match bits.trim().parse() {
        Ok(bits) => Some((uri, Translated::Bits(bits))),
        Err(_) => Some((uri, Translated::Text)),
    }
}

/// The strings and values of `@p4runtime_translation_mappings({{"", 0}, …})`. Other forms mean
/// nothing, as the annotation is no standard yet.
fn mappings(annotations: &[Annotation]) -> Vec<(String, u64)> {
    let found = annotations.iter().find(|a| a.name == "p4runtime_translation_mappings");
    let Some(body) = found.map(|a| a.body.as_str()) else { return Vec::new() };
    let pair = |text: &str| {
        let (name, value) = text.split_once('}')?.0.rsplit_once(',')?;
        let name = name.trim().strip_prefix('"')?.strip_suffix('"')?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    body.split('{').filter_map(pair).collect()
}

/// The types of the control plane's values that are strings there.
pub(super) fn translated<'t>(types: impl Iterator<Item = &'t Type>) -> Vec<ir::Translated> {
    let mut list: Vec<ir::Translated> = Vec::new();
    for ty in types {
        let Type::New(new) = ty else { continue };
        let text = matches!(translation(&new.annotations), Some((_, Translated::Text)));
        if !text || list.iter().any(|known| *known.name == *new.name) {
            continue;
        }
        let width = new.repr.size_bits(false).map_or(0, |bits| bits as u32);
        let fixed = mappings(&new.annotations);
        list.push(ir::Translated { name: new.name.to_string(), width, fixed });
    }
    list
}

/// Width in bits from the controller's point of view; zero for translated strings.
pub(super) fn width(ty: &Type) -> i32 {
    match ty {
        Type::New(new) => match translation(&new.annotations) {
            Some((_, Translated::Bits(bits))) => bits,
            Some((_, Translated::Text)) => 0,
            // The translation of a type below it is not its own.
            None => width(new.repr.repr()),
        },
        Type::SerEnum(e) => width(&e.repr),
        Type::Bit(w) | Type::Signed(w) | Type::Varbit(w) => *w as i32,
        Type::Bool => 1,
        _ => 0,
    }
}

/// The name of a user-defined type, for fields of such a type.
pub(super) fn type_name(ty: &Type) -> Option<P4NamedType> {
    match ty {
        Type::New(new) => Some(named(&new.name)),
        _ => None,
    }
}

fn named(name: &str) -> P4NamedType {
    P4NamedType { name: name.to_owned() }
}

/// Big-endian bytes, as many as the width needs.
pub(super) fn bytes(value: &BigInt, width: u32) -> Vec<u8> {
    let limbs = limbs(value, width);
    let all = limbs.iter().rev().flat_map(|limb| limb.to_be_bytes());
    all.skip(limbs.len() * 8 - width.div_ceil(8).max(1) as usize).collect()
}

fn bitstring(ty: &Type) -> Option<P4BitstringLikeTypeSpec> {
    use p4_bitstring_like_type_spec::TypeSpec;
    let spec = match ty.repr() {
        Type::Bit(w) => TypeSpec::Bit(P4BitTypeSpec { bitwidth: *w as i32 }),
        Type::Bool => TypeSpec::Bit(P4BitTypeSpec { bitwidth: 1 }),
        Type::Signed(w) => TypeSpec::Int(P4IntTypeSpec { bitwidth: *w as i32 }),
        Type::Varbit(w) => TypeSpec::Varbit(P4VarbitTypeSpec { max_bitwidth: *w as i32 }),
        _ => return None,
    };
    Some(P4BitstringLikeTypeSpec { type_spec: Some(spec), ..Default::default() })
}

/// Describes a type. The types that it contains are added to `info`.
pub(super) fn describe(ty: &Type, errors: &[String], info: &mut P4TypeInfo) -> P4DataTypeSpec {
    use p4_data_type_spec::TypeSpec;
    let spec = match ty {
        Type::Bit(_) | Type::Signed(_) | Type::Varbit(_) => bitstring(ty).map(TypeSpec::Bitstring),
        Type::Bool => Some(TypeSpec::Bool(P4BoolType {})),
        Type::ErrorCode => {
            info.error.get_or_insert_with(|| P4ErrorTypeSpec { members: errors.to_vec() });
            Some(TypeSpec::Error(P4ErrorType {}))
        }
        Type::Tuple(items) => {
            let members = items.iter().map(|t| describe(t, errors, info)).collect();
            Some(TypeSpec::Tuple(P4TupleTypeSpec { members }))
        }
        Type::Struct(s) => {
            describe_struct(s, errors, info);
            Some(match s.what {
                Aggregate::Header => TypeSpec::Header(named(&s.name)),
                Aggregate::Struct => TypeSpec::Struct(named(&s.name)),
                Aggregate::Union => TypeSpec::HeaderUnion(named(&s.name)),
            })
        }
        Type::Stack(of, size) => {
            describe(of, errors, info);
            of.as_header().map(|s| {
                TypeSpec::HeaderStack(P4HeaderStackTypeSpec {
                    header: Some(named(&s.name)),
                    size: *size as i32,
                })
            })
        }
        Type::Enum(e) => {
            info.enums.entry(e.name.to_string()).or_insert_with(|| P4EnumTypeSpec {
                members: e
                    .members
                    .iter()
                    .map(|m| p4_enum_type_spec::Member {
                        name: m.to_string(),
                        ..Default::default()
                    })
                    .collect(),
                ..Default::default()
            });
            Some(TypeSpec::Enum(named(&e.name)))
        }
        Type::SerEnum(e) => {
            info.serializable_enums.entry(e.name.to_string()).or_insert_with(|| {
                P4SerializableEnumTypeSpec {
                    underlying_type: Some(P4BitTypeSpec { bitwidth: width(&e.repr) }),
                    members: e
                        .members
                        .iter()
                        .map(|(name, value)| p4_serializable_enum_type_spec::Member {
                            name: name.to_string(),
                            value: bytes(value, width(&e.repr) as u32),
                            ..Default::default()
                        })
                        .collect(),
                    ..Default::default()
                }
            });
            Some(TypeSpec::SerializableEnum(named(&e.name)))
        }
        Type::New(new) => {
            describe_new(new, errors, info);
            Some(TypeSpec::NewType(named(&new.name)))
        }
        _ => None,
    };
    P4DataTypeSpec { type_spec: spec }
}

fn describe_new(new: &NewType, errors: &[String], info: &mut P4TypeInfo) {
    use p4_new_type_spec::Representation;
    if info.new_types.contains_key(&*new.name) {
        return;
    }
    let representation = match translation(&new.annotations) {
        Some((uri, sdn)) => {
            let sdn_type = match sdn {
                Translated::Bits(bits) => p4_new_type_translation::SdnType::SdnBitwidth(bits),
                Translated::Text => p4_new_type_translation::SdnType::SdnString(
                    p4_new_type_translation::SdnString {},
                ),
            };
            Representation::TranslatedType(P4NewTypeTranslation { uri, sdn_type: Some(sdn_type) })
        }
        None => Representation::OriginalType(describe(new.repr.repr(), errors, info)),
    };
    let skip = &["p4runtime_translation"];
    let spec = P4NewTypeSpec {
        representation: Some(representation),
        annotations: annotations::texts(&new.annotations, skip),
        structured_annotations: annotations::structured(&new.annotations, skip),
        ..Default::default()
    };
    info.new_types.insert(new.name.to_string(), spec);
}

fn describe_struct(s: &StructType, errors: &[String], info: &mut P4TypeInfo) {
    let name = s.name.to_string();
    match s.what {
        Aggregate::Header if !info.headers.contains_key(&name) => {
            let mut members = Vec::new();
            flatten(s, "", &mut members);
            info.headers.insert(name, P4HeaderTypeSpec { members, ..Default::default() });
        }
        Aggregate::Struct if !info.structs.contains_key(&name) => {
            let members = s.fields.iter().map(|f| p4_struct_type_spec::Member {
                name: f.name.to_string(),
                type_spec: Some(describe(&f.ty, errors, info)),
            });
            let members = members.collect();
            info.structs.insert(name, P4StructTypeSpec { members, ..Default::default() });
        }
        _ => {}
    }
}

/// A header's fields, including those of nested structs.
fn flatten(s: &StructType, prefix: &str, out: &mut Vec<p4_header_type_spec::Member>) {
    for field in &s.fields {
        let name = format!("{prefix}{}", field.name);
        match &field.ty {
            Type::Struct(inner) => flatten(inner, &format!("{name}."), out),
            ty => out.push(p4_header_type_spec::Member { name, type_spec: bitstring(ty) }),
        }
    }
}
