//! Conversion of annotations to those of P4Info.

use tributary_p4runtime::p4::config::v1 as proto;

use crate::ir::{Annotation, AnnotationForm, AnnotationValue};

fn find<'a>(annotations: &'a [Annotation], name: &str) -> Option<&'a Annotation> {
    annotations.iter().find(|annotation| annotation.name == name)
}

/// The name given by `@name`, or the declared name.
pub(super) fn external_name(name: &str, annotations: &[Annotation]) -> String {
    find(annotations, "name").map_or(name, |annotation| &annotation.body).to_owned()
}

pub(super) fn hidden(annotations: &[Annotation]) -> bool {
    find(annotations, "hidden").is_some()
}

/// The annotations that P4Info does not represent in another way.
fn shown<'a>(
    annotations: &'a [Annotation],
    skip: &'a [&str],
) -> impl Iterator<Item = &'a Annotation> {
    annotations.iter().filter(|annotation| {
        let name = annotation.name.as_str();
        !matches!(name, "name" | "id" | "brief" | "description") && !skip.contains(&name)
    })
}

/// Unstructured annotations as texts, except those in `skip`.
pub(super) fn texts(annotations: &[Annotation], skip: &[&str]) -> Vec<String> {
    let text = |annotation: &Annotation| {
        let Annotation { name, body, form } = annotation;
        match form {
            AnnotationForm::Words if body.is_empty() => Some(format!("@{name}")),
            AnnotationForm::Words => Some(format!("@{name}({body})")),
            AnnotationForm::Text => Some(format!("@{name}(\"{body}\")")),
            AnnotationForm::List(_) | AnnotationForm::Pairs(_) => None,
        }
    };
    shown(annotations, skip).filter_map(text).collect()
}

/// Structured annotations, except those in `skip`.
pub(super) fn structured(
    annotations: &[Annotation],
    skip: &[&str],
) -> Vec<proto::StructuredAnnotation> {
    use proto::structured_annotation::Body;
    let message = |annotation: &Annotation| {
        let body = match &annotation.form {
            AnnotationForm::Words | AnnotationForm::Text => return None,
            AnnotationForm::List(values) => Body::ExpressionList(proto::ExpressionList {
                expressions: values.iter().map(expression).collect(),
            }),
            AnnotationForm::Pairs(pairs) => {
                let pair = |(key, value): &(String, AnnotationValue)| proto::KeyValuePair {
                    key: key.clone(),
                    value: Some(expression(value)),
                };
                Body::KvPairList(proto::KeyValuePairList {
                    kv_pairs: pairs.iter().map(pair).collect(),
                })
            }
        };
        let name = annotation.name.clone();
        Some(proto::StructuredAnnotation { name, body: Some(body), ..Default::default() })
    };
    shown(annotations, skip).filter_map(message).collect()
}

fn expression(value: &AnnotationValue) -> proto::Expression {
    use proto::expression::Value;
    let value = match value {
        AnnotationValue::Int(number) => Value::Int64Value(*number),
        AnnotationValue::Bool(value) => Value::BoolValue(*value),
        AnnotationValue::Text(text) => Value::StringValue(text.clone()),
    };
    proto::Expression { value: Some(value) }
}

pub(super) fn documentation(annotations: &[Annotation]) -> Option<proto::Documentation> {
    let text = |name: &str| find(annotations, name).map(|annotation| annotation.body.clone());
    let (brief, description) = (text("brief"), text("description"));
    (brief.is_some() || description.is_some()).then(|| proto::Documentation {
        brief: brief.unwrap_or_default(),
        description: description.unwrap_or_default(),
    })
}

/// The annotations of `main`, which describe the whole program.
pub(super) fn package(arch: String, annotations: &[Annotation]) -> proto::PkgInfo {
    const ELSEWHERE: &[&str] = &["pkginfo", "platform_property"];
    let mut info = proto::PkgInfo {
        arch,
        annotations: texts(annotations, ELSEWHERE),
        structured_annotations: structured(annotations, ELSEWHERE),
        doc: documentation(annotations),
        ..Default::default()
    };
    for (key, value) in pairs(annotations, "pkginfo") {
        let AnnotationValue::Text(text) = value else { continue };
        let place = match key.as_str() {
            "name" => &mut info.name,
            "version" => &mut info.version,
            "organization" => &mut info.organization,
            "contact" => &mut info.contact,
            "url" => &mut info.url,
            _ => continue,
        };
        place.clone_from(text);
    }
    if find(annotations, "platform_property").is_some() {
        let properties = info.platform_properties.get_or_insert_default();
        for (key, value) in pairs(annotations, "platform_property") {
            let &AnnotationValue::Int(number) = value else { continue };
            let place = match key.as_str() {
                "multicast_group_table_size" => &mut properties.multicast_group_table_size,
                "multicast_group_table_total_replicas" => {
                    &mut properties.multicast_group_table_total_replicas
                }
                "multicast_group_table_max_replicas_per_entry" => {
                    &mut properties.multicast_group_table_max_replicas_per_entry
                }
                _ => continue,
            };
            *place = i32::try_from(number).unwrap_or(i32::MAX);
        }
    }
    info
}

fn pairs<'a>(
    annotations: &'a [Annotation],
    name: &str,
) -> impl Iterator<Item = &'a (String, AnnotationValue)> {
    let pairs = match find(annotations, name).map(|annotation| &annotation.form) {
        Some(AnnotationForm::Pairs(pairs)) => pairs.as_slice(),
        _ => &[],
    };
    pairs.iter()
}

/// Annotations of action profiles and selectors that have their own fields in P4Info.
pub(super) const OF_PROFILES: &[&str] =
    &["max_group_size", "selector_size_semantics", "max_member_weight"];

/// The maximum group size of a selector and its unit, from annotations.
pub(super) fn group_size(
    annotations: &[Annotation],
) -> (i32, Option<proto::action_profile::SelectorSizeSemantics>) {
    use proto::action_profile::{SelectorSizeSemantics, SumOfMembers, SumOfWeights};
    let number = |name| find(annotations, name).and_then(|a| a.body.trim().parse().ok());
    let given = find(annotations, "selector_size_semantics").map(|a| a.body.to_uppercase());
    let semantics = match given.as_deref() {
        Some("SUM_OF_WEIGHTS") => Some(SelectorSizeSemantics::SumOfWeights(SumOfWeights {})),
        Some("SUM_OF_MEMBERS") => Some(SelectorSizeSemantics::SumOfMembers(SumOfMembers {
            max_member_weight: number("max_member_weight").unwrap_or(0),
        })),
        _ => None,
    };
    (number("max_group_size").unwrap_or(0), semantics)
}
