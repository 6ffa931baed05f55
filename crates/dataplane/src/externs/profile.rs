//! Action profiles and selectors: actions shared by table entries, individually or in groups from
//! which the packet's hash picks one.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::ProfileError;
use crate::externs::hash::Algorithm;
use crate::externs::tna_hash::TnaHash;
use crate::tables::{ActionCall, ActionSet, ActionShapes, Choices, Outcome, Resolved};

/// A member of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupMember {
    /// The member's id.
    pub member: u32,
    /// Weight, at least 1.
    pub weight: u32,
    /// The port whose link the member needs.
    pub watch: Option<u16>,
}

/// A group of an action selector.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProfileGroup {
    /// Its members.
    pub members: Vec<GroupMember>,
    /// Limit of the total weight; 0 means no limit.
    pub max_size: u32,
}

/// Limit of the total weight of a group or set.
const MOST_CHOICES: u64 = 1 << 16;

/// Objects with ids, each stored at the lowest free number.
#[derive(Clone, Debug)]
struct Numbered<T> {
    numbers: BTreeMap<u32, u32>,
    places: Vec<Option<T>>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { numbers: BTreeMap::new(), places: Vec::new() }
    }
}

impl<T> Numbered<T> {
    fn number(&self, id: u32) -> Option<u32> {
        self.numbers.get(&id).copied()
    }

    fn at(&self, number: u32) -> Option<&T> {
        self.places.get(number as usize)?.as_ref()
    }

    fn at_mut(&mut self, number: u32) -> Option<&mut T> {
        self.places.get_mut(number as usize)?.as_mut()
    }

    fn get(&self, id: u32) -> Option<&T> {
        self.at(self.number(id)?)
    }

    fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.at_mut(self.number(id)?)
    }

    fn insert(&mut self, id: u32, thing: T) {
        let free = self.places.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[number] = Some(thing);
        self.numbers.insert(id, number as u32);
    }

    fn remove(&mut self, id: u32) -> Option<T> {
        let number = self.numbers.remove(&id)?;
        self.places[number as usize].take()
    }

    fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.numbers.iter().filter_map(|(&id, &number)| Some((id, self.at(number)?)))
    }
}

/// BMv2's handles of members: the lowest free one. A hash counts the members of a group by handle.
#[derive(Clone, Debug, Default)]
struct Handles {
    free: BTreeSet<u32>,
    next: u32,
}

impl Handles {
    fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }
}

#[derive(Clone, Debug)]
struct Member {
    call: ActionCall,
    resolved: Resolved,
    /// Number of entries and groups that refer to it.
    uses: u32,
    /// Its own handle, and those of the copies that BMv2's server makes for weights in groups.
    handles: Vec<u32>,
    /// Number of groups per weight.
    weights: BTreeMap<u32, u32>,
}

impl Member {
    /// Adds a group with a weight, and makes the copies that it needs.
    fn join(&mut self, weight: u32, handles: &mut Handles) {
        self.uses += 1;
        *self.weights.entry(weight).or_default() += 1;
        let missing = (weight as usize).saturating_sub(self.handles.len());
        self.handles.extend((0..missing).map(|_| handles.take()));
    }

    /// Removes a group with a weight, and the copies that are no longer needed.
    fn leave(&mut self, weight: u32, handles: &mut Handles) {
        self.uses = self.uses.saturating_sub(1);
        if let Some(groups) = self.weights.get_mut(&weight) {
            *groups -= 1;
            if *groups == 0 {
                self.weights.remove(&weight);
            }
        }
        let needed = self.weights.last_key_value().map_or(1, |(&weight, _)| weight as usize);
        handles.free.extend(self.handles.drain(needed.min(self.handles.len())..));
    }
}

#[derive(Clone, Debug)]
struct Group {
    group: ProfileGroup,
    /// Numbers of members and the ports that they watch, repeated by weight, in the order in which a
    /// hash counts them.
    choices: Vec<(u32, Option<u16>)>,
    /// Number of entries that refer to it.
    uses: u32,
}

/// The hash by which a selector picks a member.
#[derive(Clone, Debug)]
pub(crate) enum Selector {
    /// An algorithm of v1model.
    Plain(Algorithm),
    /// A `Hash` of TNA with this many bits.
    Tofino(Box<TnaHash>, u32),
}

impl Selector {
    /// The hash of a packet's values.
    pub(crate) fn digest(&self, data: &[u8]) -> u64 {
        match self {
            Self::Plain(algorithm) => algorithm.digest(data, &[]),
            Self::Tofino(hash, width) => hash.digest(data, *width),
        }
    }
}

/// An action profile, or a selector.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Actions allowed for its members: those of the tables that use it.
    actions: ActionShapes,
    /// Maximum number of members; 0 means no limit.
    size: u64,
    /// The hash of a selector; `None` for a plain profile.
    pub(crate) selector: Option<Selector>,
    members: Numbered<Member>,
    handles: Handles,
    groups: Numbered<Group>,
    /// Ports without a link: members that watch them are not chosen.
    down: BTreeSet<u16>,
}

impl Profile {
    pub(crate) fn new(size: u64, selector: Option<Selector>) -> Self {
        Self {
            actions: ActionShapes::default(),
            size,
            selector,
            members: Numbered::default(),
            handles: Handles::default(),
            groups: Numbered::default(),
            down: BTreeSet::new(),
        }
    }

    /// Sets whether a port has a link.
    pub(crate) fn set_link(&mut self, port: u16, up: bool) {
        if up {
            self.down.remove(&port);
        } else {
            self.down.insert(port);
        }
    }

    /// Sets the actions allowed for its members.
    pub(crate) fn set_actions(&mut self, actions: ActionShapes) {
        self.actions = actions;
    }

    /// Adds a member.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn member_insert(&mut self, id: u32, call: ActionCall) -> Result<(), ProfileError> {
        if self.members.number(id).is_some() {
            return Err(ProfileError::AlreadyExists("member", id));
        }
        if self.size != 0 && self.members.numbers.len() as u64 >= self.size {
            return Err(ProfileError::Full(self.size));
        }
        let resolved = self.actions.resolve_for_entry(&call)?;
        let handles = vec![self.handles.take()];
        let weights = BTreeMap::new();
        self.members.insert(id, Member { call, resolved, uses: 0, handles, weights });
        Ok(())
    }

    /// Changes a member's action, also for entries and groups that refer to it.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn member_modify(&mut self, id: u32, call: ActionCall) -> Result<(), ProfileError> {
        let resolved = self.actions.resolve_for_entry(&call)?;
        let member = self.members.get_mut(id).ok_or(ProfileError::NotFound("member", id))?;
        (member.call, member.resolved) = (call, resolved);
        Ok(())
    }

    /// Removes an unused member.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn member_delete(&mut self, id: u32) -> Result<(), ProfileError> {
        let member = self.members.get(id).ok_or(ProfileError::NotFound("member", id))?;
        if member.uses > 0 {
            return Err(ProfileError::InUse("member", id));
        }
        if let Some(member) = self.members.remove(id) {
            self.handles.free.extend(member.handles);
        }
        Ok(())
    }

    /// A member's action.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn member(&self, id: u32) -> Result<&ActionCall, ProfileError> {
        let member = self.members.get(id).ok_or(ProfileError::NotFound("member", id))?;
        Ok(&member.call)
    }

    /// All members by id.
    pub fn members(&self) -> impl Iterator<Item = (u32, &ActionCall)> {
        self.members.iter().map(|(id, member)| (id, &member.call))
    }

    /// Adds a group.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn group_insert(&mut self, id: u32, group: ProfileGroup) -> Result<(), ProfileError> {
        if self.selector.is_none() {
            return Err(ProfileError::NoGroups);
        }
        if self.groups.number(id).is_some() {
            return Err(ProfileError::AlreadyExists("group", id));
        }
        self.check(&group)?;
        self.each_member(&group, Member::join);
        let choices = self.choices(&group);
        self.groups.insert(id, Group { group, choices, uses: 0 });
        Ok(())
    }

    /// Replaces the members of a group.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn group_modify(&mut self, id: u32, group: ProfileGroup) -> Result<(), ProfileError> {
        let number = self.groups.number(id).ok_or(ProfileError::NotFound("group", id))?;
        self.check(&group)?;
        self.each_member(&group, Member::join);
        let choices = self.choices(&group);
        if let Some(stored) = self.groups.at_mut(number) {
            stored.choices = choices;
            let old = std::mem::replace(&mut stored.group, group);
            self.each_member(&old, Member::leave);
        }
        Ok(())
    }

    /// Removes an unused group.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn group_delete(&mut self, id: u32) -> Result<(), ProfileError> {
        let group = self.groups.get(id).ok_or(ProfileError::NotFound("group", id))?;
        if group.uses > 0 {
            return Err(ProfileError::InUse("group", id));
        }
        if let Some(group) = self.groups.remove(id) {
            self.each_member(&group.group, Member::leave);
        }
        Ok(())
    }

    /// A group.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn group(&self, id: u32) -> Result<&ProfileGroup, ProfileError> {
        let group = self.groups.get(id).ok_or(ProfileError::NotFound("group", id))?;
        Ok(&group.group)
    }

    /// All groups by id.
    pub fn groups(&self) -> impl Iterator<Item = (u32, &ProfileGroup)> {
        self.groups.iter().map(|(id, group)| (id, &group.group))
    }

    /// The outcome of an entry that refers to a member.
    pub(crate) fn member_outcome(&self, id: u32) -> Result<Outcome, ProfileError> {
        let number = self.members.number(id).ok_or(ProfileError::NotFound("member", id))?;
        Ok(Outcome::Member(number))
    }

    /// The outcome of an entry that refers to a group.
    pub(crate) fn group_outcome(&self, id: u32) -> Result<Outcome, ProfileError> {
        if self.selector.is_none() {
            return Err(ProfileError::NoGroups);
        }
        let number = self.groups.number(id).ok_or(ProfileError::NotFound("group", id))?;
        Ok(Outcome::Group(number))
    }

    /// The outcome of an entry with its own set.
    pub(crate) fn set_outcome(&self, set: &ActionSet) -> Result<Outcome, ProfileError> {
        if self.selector.is_none() {
            return Err(ProfileError::NoGroups);
        }
        check_weights(set.calls.iter().map(|weighted| weighted.weight), 0)?;
        let group_action = set.group_action.as_ref();
        let group_action =
            group_action.map(|call| self.actions.resolve_for_group(call)).transpose()?;
        let mut calls = Vec::new();
        for weighted in &set.calls {
            let resolved = self.actions.resolve_for_entry(&weighted.call)?;
            calls.extend((0..weighted.weight).map(|_| (resolved.clone(), weighted.watch)));
        }
        let choices = Choices { group_action, random: set.random, calls: calls.into() };
        Ok(Outcome::Set(Box::new(choices)))
    }

    /// Counts one more, or one less, entry that refers to a member or a group.
    pub(crate) fn count_use(&mut self, outcome: &Outcome, more: bool) {
        let uses = match outcome {
            Outcome::Direct(_) | Outcome::Set(_) => None,
            Outcome::Member(number) => self.members.at_mut(*number).map(|m| &mut m.uses),
            Outcome::Group(number) => self.groups.at_mut(*number).map(|g| &mut g.uses),
        };
        if let Some(uses) = uses {
            *uses = if more { *uses + 1 } else { uses.saturating_sub(1) };
        }
    }

    /// The action of a packet with this hash, or random number; `None` in a group without members whose ports have a
    /// link.
    pub(crate) fn choose<'a>(&'a self, outcome: &'a Outcome, hash: u64) -> Option<&'a Resolved> {
        match outcome {
            Outcome::Direct(resolved) => Some(resolved),
            Outcome::Set(choices) => self.pick(&choices.calls, hash),
            Outcome::Member(number) => self.members.at(*number).map(|m| &m.resolved),
            Outcome::Group(number) => {
                let member = *self.pick(&self.groups.at(*number)?.choices, hash)?;
                self.members.at(member).map(|m| &m.resolved)
            }
        }
    }

    /// For an observer: the positions of a group's or a set's different choices, each of which is a
    /// hash that picks it; empty if there is nothing to choose.
    pub(crate) fn options(&self, outcome: &Outcome) -> Vec<u64> {
        match outcome {
            Outcome::Direct(_) | Outcome::Member(_) => Vec::new(),
            Outcome::Set(choices) => firsts(self.live(&choices.calls)),
            Outcome::Group(number) => self
                .groups
                .at(*number)
                .map_or(Vec::new(), |group| firsts(self.live(&group.choices))),
        }
    }

    /// The choice of a hash among those whose port has a link.
    fn pick<'a, T>(&self, choices: &'a [(T, Option<u16>)], hash: u64) -> Option<&'a T> {
        let pick = |count: usize| hash.checked_rem(count as u64).map(|at| at as usize);
        let count = match self.down.is_empty() {
            true => choices.len(),
            false => self.live(choices).count(),
        };
        if count == choices.len() {
            return choices.get(pick(count)?).map(|(choice, _)| choice);
        }
        self.live(choices).nth(pick(count)?)
    }

    /// The choices whose port has a link.
    fn live<'a, T>(&self, choices: &'a [(T, Option<u16>)]) -> impl Iterator<Item = &'a T> {
        let up = |watch: &Option<u16>| watch.is_none_or(|port| !self.down.contains(&port));
        choices.iter().filter(move |(_, watch)| up(watch)).map(|(choice, _)| choice)
    }

    /// Validates a group.
    fn check(&self, group: &ProfileGroup) -> Result<(), ProfileError> {
        let mut seen = BTreeSet::new();
        for &GroupMember { member, .. } in &group.members {
            self.members.number(member).ok_or(ProfileError::NotFound("member", member))?;
            if !seen.insert(member) {
                return Err(ProfileError::Twice(member));
            }
        }
        check_weights(group.members.iter().map(|member| member.weight), group.max_size)
    }

    /// A group's members with the ports that they watch, repeated by weight, in the order in which a hash counts them.
    fn choices(&self, group: &ProfileGroup) -> Vec<(u32, Option<u16>)> {
        let mut by_handle = BTreeMap::new();
        for &GroupMember { member, weight, watch } in &group.members {
            let known = self.members.number(member).and_then(|number| {
                let handles = &self.members.at(number)?.handles;
                Some(
                    handles
                        .iter()
                        .take(weight as usize)
                        .map(move |&handle| (handle, (number, watch))),
                )
            });
            by_handle.extend(known.into_iter().flatten());
        }
        by_handle.into_values().collect()
    }

    /// Calls `tell` for a group's members in the order of their ids: they join or leave.
    fn each_member(&mut self, group: &ProfileGroup, tell: fn(&mut Member, u32, &mut Handles)) {
        let weights = group.members.iter().map(|member| (member.member, member.weight));
        for (id, weight) in weights.collect::<BTreeMap<_, _>>() {
            if let Some(member) = self.members.get_mut(id) {
                tell(member, weight, &mut self.handles);
            }
        }
    }
}

fn check_weights(weights: impl Iterator<Item = u32>, max_size: u32) -> Result<(), ProfileError> {
    let limit = if max_size == 0 { MOST_CHOICES } else { MOST_CHOICES.min(max_size.into()) };
    let mut sum = 0u64;
    for weight in weights {
        if weight == 0 {
            return Err(ProfileError::Weight);
        }
        sum += u64::from(weight);
    }
    if sum > limit { Err(ProfileError::TooLarge(limit)) } else { Ok(()) }
}

/// The positions of the first of equal items.
fn firsts<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<u64> {
    let items: Vec<T> = items.collect();
    let first = |(at, item): &(usize, &T)| !items[..*at].contains(*item);
    items.iter().enumerate().filter(first).map(|(at, _)| at as u64).collect()
}
