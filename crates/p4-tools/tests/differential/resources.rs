//! Objects that tables and entries refer to: members and groups of action profiles, and configured
//! meters.

use tributary_p4runtime::p4::config::v1::{ActionProfile, Meter, P4Info, Preamble, Table};
use tributary_p4runtime::p4::v1::{
    ActionProfileAction, ActionProfileActionSet, ActionProfileGroup, ActionProfileMember, Entity,
    Index, MeterConfig, MeterEntry, TableAction, Update, action_profile_group, entity,
    table_action, update,
};

use crate::draw::{Draw, change};

/// Members per profile.
const MEMBERS: u32 = 6;

/// Groups per selector.
const GROUPS: u32 = 4;

/// The largest weight of a member.
const WEIGHT: usize = 3;

pub(crate) fn id(preamble: Option<&Preamble>) -> u32 {
    preamble.expect("everything has a name").id
}

/// The profile of a table, if its entries share actions.
fn profile<'a>(info: &'a P4Info, table: &Table) -> Option<&'a ActionProfile> {
    let mut profiles = info.action_profiles.iter();
    profiles.find(|profile| id(profile.preamble.as_ref()) == table.implementation_id)
}

/// Whether entries have their own action sets, which the profile's name determines.
fn takes_sets(profile: &ActionProfile) -> bool {
    profile.preamble.as_ref().is_some_and(|preamble| preamble.alias == "sets")
}

impl Draw {
    /// Members for all profiles, and groups with them.
    pub(crate) fn profiles(&mut self, info: &P4Info) -> Vec<entity::Entity> {
        let mut entities = Vec::new();
        for profile in info.action_profiles.iter().filter(|profile| !takes_sets(profile)) {
            let action_profile_id = id(profile.preamble.as_ref());
            let users = |table: &&Table| table.implementation_id == action_profile_id;
            let table = info.tables.iter().find(users).expect("a table has the profile");
            for member_id in 1..=MEMBERS {
                let action = self.call(info, table);
                entities.push(entity::Entity::ActionProfileMember(ActionProfileMember {
                    action_profile_id,
                    member_id,
                    action,
                }));
            }
            for group_id in (1..=GROUPS).filter(|_| profile.with_selector) {
                let mut members = self.some_members();
                // The specification wants a size for each group if the program limits them.
                let max_size = profile.max_group_size;
                if max_size > 0 {
                    members.truncate(max_size as usize);
                    members.iter_mut().for_each(|member| member.weight = 1);
                }
                entities.push(entity::Entity::ActionProfileGroup(ActionProfileGroup {
                    action_profile_id,
                    group_id,
                    members,
                    max_size,
                }));
            }
        }
        entities
    }

    /// Replaces the members of all groups among some entities.
    pub(crate) fn regroup(&mut self, entities: &[entity::Entity]) -> Vec<Update> {
        let mut updates = Vec::new();
        for entity in entities {
            if let entity::Entity::ActionProfileGroup(group) = entity {
                let group = ActionProfileGroup { members: self.some_members(), ..group.clone() };
                let changed = entity::Entity::ActionProfileGroup(group);
                updates.push(change(update::Type::Modify, changed));
            }
        }
        updates
    }

    /// Distinct members in any order; at least one.
    fn some_members(&mut self) -> Vec<action_profile_group::Member> {
        let mut ids: Vec<u32> = (1..=MEMBERS).collect();
        let count = 1 + self.below(ids.len());
        let member = |_| action_profile_group::Member {
            member_id: ids.swap_remove(self.below(ids.len())),
            weight: self.weight(),
            watch_kind: None,
        };
        (0..count).map(member).collect()
    }

    fn weight(&mut self) -> i32 {
        1 + i32::try_from(self.below(WEIGHT)).expect("a small number")
    }

    /// The action of an entry: its own, or one of its table's profile.
    pub(crate) fn entry_action(&mut self, info: &P4Info, table: &Table) -> Option<TableAction> {
        use table_action::Type;
        let chosen = match profile(info, table) {
            None => Type::Action(self.call(info, table)?),
            Some(profile) if takes_sets(profile) => {
                let actions = (0..1 + self.below(4)).map(|_| {
                    let action = self.call(info, table);
                    ActionProfileAction { action, weight: self.weight(), ..Default::default() }
                });
                let action_profile_actions = actions.collect();
                let set = ActionProfileActionSet { action_profile_actions, ..Default::default() };
                Type::ActionProfileActionSet(set)
            }
            Some(profile) if profile.with_selector && self.below(4) > 0 => {
                Type::ActionProfileGroupId(1 + self.below(GROUPS as usize) as u32)
            }
            Some(_) => Type::ActionProfileMemberId(1 + self.below(MEMBERS as usize) as u32),
        };
        Some(TableAction { r#type: Some(chosen) })
    }

    /// Configurations of meters in arrays, but not of the last of each.
    pub(crate) fn meters(&mut self, info: &P4Info) -> Vec<Update> {
        let mut updates = Vec::new();
        for meter in &info.meters {
            for index in configured(meter) {
                let config = Some(self.burst());
                updates.push(configure(id(meter.preamble.as_ref()), index, config));
            }
        }
        updates
    }

    /// A meter without rates: packets use up the bursts, independent of time.
    pub(crate) fn burst(&mut self) -> MeterConfig {
        // As many packets, or the bytes of some frames.
        let unit = if self.below(2) == 0 { 1 } else { 60 };
        let mut some = || unit * i64::try_from(1 + self.below(8)).expect("a small number");
        MeterConfig { cir: 0, cburst: some(), pir: 0, pburst: some(), eburst: 0 }
    }
}

/// Removes the configurations of all meters in arrays.
pub(crate) fn reset_meters(info: &P4Info) -> Vec<Update> {
    let of = |meter: &Meter| {
        let id = id(meter.preamble.as_ref());
        configured(meter).map(move |index| configure(id, index, None))
    };
    info.meters.iter().flat_map(of).collect()
}

/// Indices of the meters that get a configuration.
fn configured(meter: &Meter) -> std::ops::Range<i64> {
    0..(meter.size - 1).min(64)
}

fn configure(meter_id: u32, index: i64, config: Option<MeterConfig>) -> Update {
    let index = Some(Index { index });
    let entry = MeterEntry { meter_id, index, config, counter_data: None };
    change(update::Type::Modify, entity::Entity::MeterEntry(entry))
}

/// Inserts all entities, or deletes them in reverse order.
pub(crate) fn all(kind: update::Type, entities: &[entity::Entity]) -> Vec<Update> {
    let mut updates: Vec<Update> =
        entities.iter().map(|entity| change(kind, entity.clone())).collect();
    if kind == update::Type::Delete {
        updates.reverse();
    }
    updates
}

/// An entity in its envelope.
pub(crate) fn wrap(entity: entity::Entity) -> Entity {
    Entity { entity: Some(entity) }
}
