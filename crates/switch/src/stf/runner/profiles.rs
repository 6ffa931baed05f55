//! Action profiles and selectors: members, groups, and entries that refer to them.

use tributary_dataplane::{Action, GroupMember, ProfileError, ProfileGroup, TableEntry};
use tributary_p4::ir::{ExternId, TableId};

use super::Run;
use crate::stf::error::Failure;
use crate::stf::script::{EntryKey, Indirect, Name, ProfileCommand};

impl Run<'_> {
    pub(super) fn profile(
        &mut self,
        profile: &Name,
        command: &ProfileCommand,
    ) -> Result<(), Failure> {
        let id = self.profile_id(profile)?;
        let failed = |error: ProfileError| profile.place.failure(error);
        let call = match command {
            ProfileCommand::CreateMember(target) | ProfileCommand::ModifyMember { target, .. } => {
                Some(self.call(self.table_of(profile, id)?, target)?)
            }
            _ => None,
        };
        let stored = self.pipeline_mut().profile_mut(id).map_err(failed)?;
        match command {
            ProfileCommand::CreateMember(_) => {
                let members: Vec<u32> = stored.members().map(|(it, _)| it).collect();
                stored.member_insert(first_free(&members), call.expect("it has a target"))
            }
            ProfileCommand::ModifyMember { member, .. } => {
                stored.member_modify(*member, call.expect("it has a target"))
            }
            ProfileCommand::DeleteMember { member } => stored.member_delete(*member),
            ProfileCommand::CreateGroup => {
                let groups: Vec<u32> = stored.groups().map(|(it, _)| it).collect();
                stored.group_insert(first_free(&groups), ProfileGroup::default())
            }
            ProfileCommand::DeleteGroup { group } => stored.group_delete(*group),
            ProfileCommand::AddToGroup { member, group } => {
                let mut content = stored.group(*group).map_err(failed)?.clone();
                content.members.push(GroupMember { member: *member, weight: 1, watch: None });
                stored.group_modify(*group, content)
            }
            ProfileCommand::RemoveFromGroup { member, group } => {
                let mut content = stored.group(*group).map_err(failed)?.clone();
                let at = content.members.iter().position(|one| one.member == *member);
                let at = at.ok_or_else(|| {
                    profile.place.failure(format!("member {member} is not in group {group}"))
                })?;
                content.members.remove(at);
                stored.group_modify(*group, content)
            }
        }
        .map_err(failed)
    }

    pub(super) fn add_indirect(&mut self, entry: &EntryKey, to: Indirect) -> Result<(), Failure> {
        let id = self.entry_id(entry)?;
        let new = TableEntry {
            matches: id.matches,
            priority: id.priority,
            action: action(to),
            idle_timeout_us: 0,
        };
        let inserted = self.pipeline_mut().insert(id.table, new);
        inserted.map_err(|error| self.refused(&entry.table, id.table, &error))
    }

    pub(super) fn set_default_indirect(
        &mut self,
        table: &Name,
        to: Indirect,
    ) -> Result<(), Failure> {
        let id = self.table(table)?;
        let set = self.pipeline_mut().set_default(id, Some(action(to)));
        set.map_err(|error| self.refused(table, id, &error))
    }

    fn profile_id(&self, name: &Name) -> Result<ExternId, Failure> {
        let types = ["action_profile", "action_selector", "ActionProfile", "ActionSelector"];
        self.extern_id("action profile", &types, name)
    }

    /// The table whose actions the members may use.
    fn table_of(&self, name: &Name, profile: ExternId) -> Result<TableId, Failure> {
        let table = self.table_with(profile);
        table.ok_or_else(|| name.place.failure("no table uses this action profile"))
    }
}

fn action(to: Indirect) -> Action {
    match to {
        Indirect::Member(member) => Action::Member(member),
        Indirect::Group(group) => Action::Group(group),
    }
}

/// The lowest unused number, as BMv2 assigns handles.
fn first_free(taken: &[u32]) -> u32 {
    (0..).find(|number| !taken.contains(number)).unwrap_or(u32::MAX)
}
