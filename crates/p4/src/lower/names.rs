//! The names of header fields' values, for tools that show packets.

use super::Lowerer;
use crate::hir;
use crate::ir::{ExprKind, FieldId, FieldRole, Keyset};
use crate::types::Type;

impl Lowerer<'_, '_> {
    /// Records that a header field has a serialisable enum as its type.
    pub(super) fn note_enum(&mut self, field: FieldId, ty: &Type) {
        let declared = match ty {
            Type::New(new) => return self.note_enum(field, &new.repr),
            Type::SerEnum(declared) => declared,
            _ => return,
        };
        let names = &mut self.program.names;
        let index = *self.value_enums.entry(declared.id).or_insert_with(|| {
            let member = |(name, value): &(_, num_bigint::BigInt)| {
                // A member of a signed type may be negative.
                Some((u64::try_from(value).ok()?, format!("{name}")))
            };
            let members = declared.members.iter().filter_map(member).collect();
            names.enums.push((declared.name.to_string(), members));
            names.enums.len() - 1
        });
        names.fields.push((field, index));
    }

    /// Records what a case of a `select` calls the value of a header field.
    pub(super) fn note_constant(
        &mut self,
        set: &hir::Keyset,
        lowered: &Keyset,
        selected: &ExprKind,
    ) {
        let (hir::Keyset::Value(written), Keyset::Value(value)) = (set, lowered) else { return };
        let [value] = **value else { return };
        let field = |field: &FieldId| {
            let role = self.program.fields[field.index()].role;
            matches!(role, FieldRole::Header(_)).then_some(*field)
        };
        let fields: Vec<FieldId> = match selected {
            ExprKind::Field(id) => field(id).into_iter().collect(),
            ExprKind::Element(stack, _, at) => {
                let elements = &self.program.stacks[stack.index()].elements;
                let headers = elements.iter().map(|id| &self.program.headers[id.index()]);
                headers
                    .filter_map(|header| header.fields.get(*at as usize))
                    .filter_map(field)
                    .collect()
            }
            _ => return,
        };
        let name = self.reporter.text.slice(written.span);
        if !is_name(name) {
            return;
        }
        // The members of an enum are shown without its name.
        let name = name.rsplit('.').next().unwrap_or(name).to_owned();
        self.reporter.work(fields.len() as u64);
        let constants = fields.into_iter().map(|field| (field, value, name.clone()));
        self.program.names.constants.extend(constants);
    }
}

/// Whether a text is a name, or names with dots between them.
fn is_name(text: &str) -> bool {
    text.split('.').all(|part| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}
