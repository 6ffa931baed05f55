//! Parser value sets: match fields of their members.

use tributary_p4runtime::p4::config::v1::match_field::{Match, MatchType};
use tributary_p4runtime::p4::config::v1::{MatchField, Preamble, ValueSet};

use super::ids::part_ids;
use super::{Generator, annotations, types};
use crate::ir::Annotation;
use crate::types::Type;

impl Generator<'_> {
    /// A value set with this element type. Sets of tuples, which P4Runtime cannot write, have no
    /// fields.
    pub(super) fn value_set(&mut self, preamble: Option<Preamble>, element: &Type, size: i64) {
        let r#match = match element {
            Type::Struct(s) => {
                let ids = part_ids(s.fields.iter().map(|field| field.annotations.as_slice()));
                let fields = s.fields.iter().zip(ids);
                fields
                    .map(|(field, id)| {
                        self.note(&field.ty);
                        MatchField {
                            id,
                            name: field.name.to_string(),
                            annotations: annotations::texts(&field.annotations, &["match"]),
                            structured_annotations: annotations::structured(
                                &field.annotations,
                                &["match"],
                            ),
                            bitwidth: types::width(&field.ty),
                            doc: annotations::documentation(&field.annotations),
                            type_name: types::type_name(&field.ty),
                            r#match: Some(match_kind(&field.annotations)),
                            ..Default::default()
                        }
                    })
                    .collect()
            }
            ty => {
                self.note(ty);
                let field = MatchField {
                    id: 1,
                    bitwidth: types::width(ty),
                    type_name: types::type_name(ty),
                    r#match: Some(match_kind(&[])),
                    ..Default::default()
                };
                if field.bitwidth > 0 { vec![field] } else { Vec::new() }
            }
        };
        self.out.value_sets.push(ValueSet { preamble, r#match, size: size as i32 });
    }
}

/// The match kind given by `@match`; exact without it.
fn match_kind(annotations: &[Annotation]) -> Match {
    let kind = annotations.iter().find(|a| a.name == "match").map_or("exact", |a| a.body.trim());
    let kind = match kind {
        "exact" => MatchType::Exact,
        "lpm" => MatchType::Lpm,
        "ternary" => MatchType::Ternary,
        "range" => MatchType::Range,
        "optional" => MatchType::Optional,
        other => return Match::OtherMatchType(other.to_owned()),
    };
    Match::MatchType(kind.into())
}
