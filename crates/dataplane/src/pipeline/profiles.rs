//! Members and groups of action profiles.

use tributary_p4::ir::ExternId;

use super::Pipeline;
use crate::error::ProfileError;
use crate::externs::profile::{Profile, ProfileGroup};
use crate::load::Instance;
use crate::tables::ActionCall;

impl Pipeline {
    /// Adds a member to an action profile.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn member_insert(
        &mut self,
        profile: ExternId,
        member: u32,
        call: ActionCall,
    ) -> Result<(), ProfileError> {
        self.profile_mut(profile)?.member_insert(member, call)
    }

    /// Changes a member's action, also for entries and groups that refer to it.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn member_modify(
        &mut self,
        profile: ExternId,
        member: u32,
        call: ActionCall,
    ) -> Result<(), ProfileError> {
        self.profile_mut(profile)?.member_modify(member, call)
    }

    /// Removes an unused member.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn member_delete(&mut self, profile: ExternId, member: u32) -> Result<(), ProfileError> {
        self.profile_mut(profile)?.member_delete(member)
    }

    /// The action of a member.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn member(&self, profile: ExternId, member: u32) -> Result<&ActionCall, ProfileError> {
        let found = self.profile(profile)?.member(member);
        found.ok_or(ProfileError::NotFound("member", member))
    }

    /// The members of an action profile by id; empty for an unknown profile.
    pub fn members(&self, profile: ExternId) -> impl Iterator<Item = (u32, &ActionCall)> {
        self.profile(profile).ok().into_iter().flat_map(Profile::members)
    }

    /// Adds a group to an action selector.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn group_insert(
        &mut self,
        profile: ExternId,
        group: u32,
        content: ProfileGroup,
    ) -> Result<(), ProfileError> {
        self.profile_mut(profile)?.group_insert(group, content)
    }

    /// Replaces the members of a group.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn group_modify(
        &mut self,
        profile: ExternId,
        group: u32,
        content: ProfileGroup,
    ) -> Result<(), ProfileError> {
        self.profile_mut(profile)?.group_modify(group, content)
    }

    /// Removes an unused group.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn group_delete(&mut self, profile: ExternId, group: u32) -> Result<(), ProfileError> {
        self.profile_mut(profile)?.group_delete(group)
    }

    /// A group of an action selector.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn group(&self, profile: ExternId, group: u32) -> Result<&ProfileGroup, ProfileError> {
        let found = self.profile(profile)?.group(group);
        found.ok_or(ProfileError::NotFound("group", group))
    }

    /// The groups of an action selector by id; empty for an unknown one.
    pub fn groups(&self, profile: ExternId) -> impl Iterator<Item = (u32, &ProfileGroup)> {
        self.profile(profile).ok().into_iter().flat_map(Profile::groups)
    }

    fn profile(&self, profile: ExternId) -> Result<&Profile, ProfileError> {
        Ok(&self.engine.store.profiles[self.profile_number(profile)?])
    }

    fn profile_mut(&mut self, profile: ExternId) -> Result<&mut Profile, ProfileError> {
        let number = self.profile_number(profile)?;
        Ok(&mut self.engine.store.profiles[number])
    }

    fn profile_number(&self, profile: ExternId) -> Result<usize, ProfileError> {
        match self.instances.get(profile.index()) {
            Some(Instance::Profile(number)) => Ok(*number as usize),
            _ => Err(ProfileError::Unknown),
        }
    }
}
