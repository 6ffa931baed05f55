//! Action profiles.

use tributary_p4::ir::ExternId;

use super::Pipeline;
use crate::error::ProfileError;
use crate::externs::profile::Profile;
use crate::store::Instance;

impl Pipeline {
    /// An action profile or selector.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`].
    pub fn profile(&self, profile: ExternId) -> Result<&Profile, ProfileError> {
        Ok(&self.engine.store.profiles[self.profile_number(profile)?])
    }

    /// An action profile or selector, to change its members and groups.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`].
    pub fn profile_mut(&mut self, profile: ExternId) -> Result<&mut Profile, ProfileError> {
        let number = self.profile_number(profile)?;
        Ok(&mut self.engine.store.profiles[number])
    }

    /// Sets whether a port has a link. Members of groups that watch a port without one are not
    /// chosen. All ports have links at first.
    pub fn set_link(&mut self, port: u16, up: bool) {
        self.engine.store.profiles.iter_mut().for_each(|profile| profile.set_link(port, up));
    }

    fn profile_number(&self, profile: ExternId) -> Result<usize, ProfileError> {
        match self.instances.get(profile.index()) {
            Some(Instance::Profile(number)) => Ok(*number as usize),
            _ => Err(ProfileError::Unknown),
        }
    }
}
