//! Parser value sets.

use tributary_p4::ir::ExternId;

use super::Pipeline;
use crate::error::StateError;
use crate::store::Instance;
use crate::tables::KeyMatch;

impl Pipeline {
    /// Adds a member to a parser value set: one match for each scalar of the set's type.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn value_set_insert(
        &mut self,
        set: ExternId,
        member: Vec<KeyMatch>,
    ) -> Result<(), StateError> {
        let number = self.value_set(set)?;
        self.engine.store.value_sets[number].insert(member)
    }

    /// Removes a member from a parser value set.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn value_set_delete(
        &mut self,
        set: ExternId,
        member: &[KeyMatch],
    ) -> Result<(), StateError> {
        let number = self.value_set(set)?;
        self.engine.store.value_sets[number].delete(member)
    }

    /// The members of a parser value set.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn value_set_entries(&self, set: ExternId) -> Result<&[Vec<KeyMatch>], StateError> {
        Ok(self.engine.store.value_sets[self.value_set(set)?].members())
    }

    fn value_set(&self, set: ExternId) -> Result<usize, StateError> {
        match self.instances.get(set.index()) {
            Some(Instance::ValueSet(number)) => Ok(*number as usize),
            _ => Err(StateError::Unknown("value set")),
        }
    }
}
