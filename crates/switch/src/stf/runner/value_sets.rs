//! Members of the parser value sets.

use tributary_dataplane::KeyMatch;
use tributary_p4::ir::{ExternId, MatchKind};

use super::{Run, tables};
use crate::stf::error::Failure;
use crate::stf::script::{Match, Name, ValueSetCommand};

impl Run<'_> {
    pub(super) fn value_set(
        &mut self,
        set: &Name,
        command: &ValueSetCommand,
    ) -> Result<(), Failure> {
        let id = self.extern_id("value set", &["value_set", "ValueSet"], set)?;
        let failed = |error: tributary_dataplane::StateError| set.place.failure(error);
        match command {
            ValueSetCommand::Add(values) => {
                let member = self.member(set, id, values)?;
                self.pipeline_mut().value_set_insert(id, member).map_err(failed)
            }
            ValueSetCommand::Remove(values) => {
                let member = self.member(set, id, values)?;
                self.pipeline_mut().value_set_delete(id, &member).map_err(failed)
            }
            ValueSetCommand::Clear => {
                let members = self.pipeline().value_set_entries(id).map_err(failed)?.to_vec();
                for member in members {
                    self.pipeline_mut().value_set_delete(id, &member).map_err(failed)?;
                }
                Ok(())
            }
            ValueSetCommand::Get => self.pipeline().value_set_entries(id).map(drop).map_err(failed),
        }
    }

    /// One match per scalar of the set's type, of the kind in which it is written.
    fn member(&self, set: &Name, id: ExternId, values: &[Match]) -> Result<Vec<KeyMatch>, Failure> {
        let scalars = &self.program().externs[id.index()].type_args;
        if scalars.len() != values.len() {
            return Err(set.place.failure(format!(
                "a member of `{}` has {} values, not {}",
                set.text,
                scalars.len(),
                values.len()
            )));
        }
        let pairs = scalars.iter().zip(values);
        let matches = pairs.map(|(scalar, value)| {
            let kind = match value {
                Match::Number(number) if !number.has_wildcards() => MatchKind::Exact,
                Match::Number(_) | Match::Mask(..) | Match::Any => MatchKind::Ternary,
                Match::Prefix(..) => MatchKind::Lpm,
                Match::Range(..) => MatchKind::Range,
            };
            tables::key_match(kind, scalar.width, value).map_err(|reason| set.place.failure(reason))
        });
        matches.collect()
    }
}
