//! Match-action tables: entries in the form of the control plane, and lookups of packets.

mod actions;
mod fixed;
mod hashed;
mod keys;
mod matcher;
mod ranges;
mod scan;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tributary_p4::ir::{self, MatchKind};

use self::actions::program_call;
pub use self::actions::{Action, ActionCall, ActionSet, WeightedCall};
pub(crate) use self::actions::{ActionShapes, Choices, Outcome, Resolved};
pub(crate) use self::fixed::FixedTable;
pub use self::keys::KeyMatch;
use self::keys::program_match;
pub(crate) use self::keys::{KeyShape, check_match, prefix_mask};
use self::matcher::{Matcher, Words};
use crate::bits::mask;
use crate::code::TableCode;
use crate::error::{LoadError, TableError};
use crate::externs::counter::CounterData;
use crate::externs::filter::Filter;
use crate::externs::meter::{Color, Meter, MeterConfig, Unit};
use crate::externs::profile::Profile;
use crate::slot::Item;

/// An entry of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableEntry {
    /// One match per key, in the order of the keys; a key omitted in P4Runtime is a match of
    /// anything here (prefix length 0, mask 0, full range, `Optional(None)`).
    pub matches: Vec<KeyMatch>,
    /// Larger wins; at least 1 in a table with a ternary, range or optional key, otherwise 0.
    pub priority: i32,
    /// The action on a match.
    pub action: Action,
    /// Microseconds after which the entry is idle if no packet matched it; 0 for never.
    pub idle_timeout_us: u64,
}

impl TableEntry {
    /// An entry with a direct action and no timeout.
    #[must_use]
    pub fn new(matches: Vec<KeyMatch>, priority: i32, call: ActionCall) -> Self {
        Self { matches, priority, action: Action::Direct(call), idle_timeout_us: 0 }
    }
}

/// The entry that direct counters and meters belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner<'a> {
    /// The entry with these matches and this priority.
    Entry(&'a [KeyMatch], i32),
    /// The default entry: that of packets that match no other.
    Default,
}

/// The direct counter and meter of an entry.
#[derive(Clone, Debug, Default)]
struct Resources {
    counter: CounterData,
    /// Configured, in a table with a direct meter. Each core's replica of the entry has the same.
    meter: Option<Arc<Mutex<Meter>>>,
    /// In a table with direct filters.
    filter: Option<Box<Filter>>,
    /// The words of its register, in a table with a direct register.
    cell: Box<[u64]>,
}

impl Resources {
    fn color(&self, before: Color, unit: Unit, arrival: Arrival) -> Color {
        let Some(meter) = &self.meter else { return before };
        lock(meter).execute_after(before, unit, arrival.bytes, arrival.now_us)
    }
}

/// An entry with the state that packets change.
#[derive(Clone, Debug)]
struct Stored {
    entry: TableEntry,
    outcome: Outcome,
    resources: Resources,
    /// Last match, or creation or change of the entry.
    hit_us: u64,
    /// Last report of being idle.
    reported_us: u64,
}

fn lock(meter: &Mutex<Meter>) -> MutexGuard<'_, Meter> {
    // No code that holds it can panic and leave it half changed.
    meter.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The direct meter of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectMeter {
    pub(crate) unit: Unit,
    /// The field for the colour; `None` if the program does not read it.
    pub(crate) target: Option<Item>,
    /// Whether each matching packet is metered, instead of those that an action meters.
    pub(crate) meters_itself: bool,
}

/// Properties of a table's entries besides their actions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extras {
    pub(crate) counter: bool,
    /// Whether each matching packet is counted, instead of those that an action counts.
    pub(crate) counts_itself: bool,
    pub(crate) meter: Option<DirectMeter>,
    pub(crate) filter: bool,
    /// Whether entries may have a timeout.
    pub(crate) ages: bool,
    /// The action profile of entries.
    pub(crate) profile: Option<u32>,
}

impl Extras {
    /// Whether packets change state of entries.
    fn any(&self) -> bool {
        self.counter || self.meter.is_some() || self.filter || self.ages
    }
}

/// What a packet matched in a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Match {
    Miss,
    /// The entry with this number.
    Entry(u32),
    /// An entry that an observer assumes.
    Assumed,
}

/// The effect of a packet's arrival on entries: its length and the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) bytes: u32,
    pub(crate) now_us: u64,
}

/// A table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    keys: Vec<KeyShape>,
    actions: ActionShapes,
    /// Maximum number of entries.
    size: u64,
    const_entries: bool,
    const_default: bool,
    prioritised: bool,
    extras: Extras,
    /// Whether packets change state of entries.
    marked: bool,
    /// The last matching entry, if actions may count there.
    last: Option<u32>,
    /// Entries by number; freed numbers are reused.
    stored: Vec<Option<Stored>>,
    free: Vec<u32>,
    /// Numbers by key and priority.
    numbers: HashMap<(Vec<KeyMatch>, i32), u32>,
    matcher: Matcher,
    /// Number of words of the keys.
    words: usize,
    default: Action,
    default_outcome: Outcome,
    default_resources: Resources,
    /// A new entry's direct register; empty without one.
    new_cell: Box<[u64]>,
    program_default: ActionCall,
    /// The action for packets whose group has no members.
    empty_group: Option<Resolved>,
}

/// Size of a table if the program states none; BMv2's default.
const DEFAULT_SIZE: u64 = 1024;

impl Table {
    /// Sets a table up with the program's entries.
    pub(crate) fn new(
        program: &ir::Program,
        table: &ir::Table,
        extras: Extras,
    ) -> Result<Self, LoadError> {
        let keys: Vec<KeyShape> = table
            .keys
            .iter()
            .filter(|key| key.kind != MatchKind::Selector)
            .map(|key| KeyShape { width: key.value.ty.width, kind: key.kind })
            .collect();
        let prioritised = keys.iter().any(|key| {
            matches!(key.kind, MatchKind::Ternary | MatchKind::Range | MatchKind::Optional)
        });
        if !prioritised && keys.iter().filter(|key| key.kind == MatchKind::Lpm).count() > 1 {
            let reason = "more than one lpm key".to_owned();
            return Err(LoadError::Table { name: table.name.clone(), reason });
        }
        let actions = ActionShapes::new(program, table);
        let size = if table.size == 0 { DEFAULT_SIZE } else { table.size };
        let default = program_call(&table.default_action);
        let failed = |index: usize, error: TableError| LoadError::Entry {
            name: table.name.clone(),
            index,
            error,
        };
        // The program may use an action as default even if it is annotated as for entries only.
        let resolved = actions.resolve(&default).map_err(|error| failed(0, error))?;
        let empty_group = table.empty_group.as_ref();
        let empty_group = empty_group.map(|call| actions.resolve(&program_call(call)));
        let empty_group = empty_group.transpose().map_err(|error| failed(0, error))?;
        let mut new = Self {
            empty_group,
            matcher: Matcher::new(&keys),
            words: Words::new(&keys).count(),
            keys,
            actions,
            size: size.max(table.entries.len() as u64),
            const_entries: table.const_entries,
            const_default: table.const_default,
            prioritised,
            extras,
            marked: extras.any(),
            last: None,
            stored: Vec::new(),
            free: Vec::new(),
            numbers: HashMap::new(),
            default: Action::Direct(default.clone()),
            default_outcome: Outcome::Direct(resolved),
            default_resources: Resources::default(),
            new_cell: Box::default(),
            program_default: default,
        };
        for (index, entry) in table.entries.iter().enumerate() {
            let priority = if prioritised { (table.entries.len() - index) as i32 } else { 0 };
            new.program_entry(entry, priority).map_err(|error| failed(index, error))?;
        }
        Ok(new)
    }

    /// Words that a packet's key is compared with, for the present entries.
    pub(crate) fn work(&self) -> u64 {
        let entries = self.stored.len() as u64;
        let tried = match self.matcher {
            Matcher::Nothing | Matcher::Direct(_) | Matcher::Exact(_) => 1,
            Matcher::Lpm(_) => entries.min(self.words as u64 * 64),
            Matcher::Packed(_) | Matcher::Words(_) => entries,
        };
        tried.saturating_mul(self.words as u64)
    }

    /// The action for packets whose group has no members, if the program has one.
    pub(crate) fn empty_group(&self) -> Option<&Resolved> {
        self.empty_group.as_ref()
    }

    /// Properties of its entries.
    pub(crate) fn extras(&self) -> &Extras {
        &self.extras
    }

    fn program_entry(&mut self, entry: &ir::Entry, priority: i32) -> Result<(), TableError> {
        if entry.keys.len() != self.keys.len() {
            return Err(TableError::KeyCount { expected: self.keys.len(), got: entry.keys.len() });
        }
        let matches = entry
            .keys
            .iter()
            .zip(&self.keys)
            .enumerate()
            .map(|(i, (keyset, shape))| program_match(i, keyset, *shape))
            .collect::<Result<_, _>>()?;
        let call = program_call(&entry.call);
        let outcome = Outcome::Direct(self.actions.resolve_for_entry(&call)?);
        self.add(TableEntry::new(matches, priority, call), outcome, 0)
    }

    /// Adds an entry. `profile` must be that of [`Extras::profile`].
    pub(crate) fn insert(
        &mut self,
        entry: TableEntry,
        profile: Option<&mut Profile>,
        now_us: u64,
    ) -> Result<(), TableError> {
        self.changeable()?;
        self.check_timeout(&entry)?;
        let outcome = self.outcome(&entry.action, profile.as_deref())?;
        self.add(entry, outcome.clone(), now_us)?;
        if let Some(profile) = profile {
            profile.count_use(&outcome, true);
        }
        Ok(())
    }

    fn add(&mut self, entry: TableEntry, outcome: Outcome, now_us: u64) -> Result<(), TableError> {
        self.check_key(&entry.matches, entry.priority)?;
        let key = (entry.matches.clone(), entry.priority);
        if self.numbers.contains_key(&key) {
            return Err(TableError::AlreadyExists);
        }
        if self.numbers.len() as u64 >= self.size {
            return Err(TableError::Full(self.size));
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.stored.push(None);
            self.stored.len() as u32 - 1
        });
        self.matcher.insert(&self.keys, &entry.matches, entry.priority, number);
        self.stored[number as usize] = Some(Stored {
            entry,
            outcome,
            resources: Resources { cell: self.new_cell.clone(), ..Resources::default() },
            hit_us: now_us,
            reported_us: 0,
        });
        self.numbers.insert(key, number);
        Ok(())
    }

    /// Changes an entry's action and timeout.
    pub(crate) fn modify(
        &mut self,
        entry: TableEntry,
        profile: Option<&mut Profile>,
        now_us: u64,
    ) -> Result<(), TableError> {
        self.changeable()?;
        self.check_timeout(&entry)?;
        let outcome = self.outcome(&entry.action, profile.as_deref())?;
        let number = self.number(&entry.matches, entry.priority)?;
        let stored = self.stored[number as usize].as_mut().ok_or(TableError::NotFound)?;
        if let Some(profile) = profile {
            profile.count_use(&outcome, true);
            profile.count_use(&stored.outcome, false);
        }
        stored.entry = entry;
        stored.outcome = outcome;
        stored.hit_us = now_us;
        Ok(())
    }

    /// Removes an entry.
    pub(crate) fn delete(
        &mut self,
        matches: &[KeyMatch],
        priority: i32,
        profile: Option<&mut Profile>,
    ) -> Result<(), TableError> {
        self.changeable()?;
        let number = self.number(matches, priority)?;
        self.matcher.remove(&self.keys, matches, number);
        self.numbers.remove(&(matches.to_vec(), priority));
        let removed = self.stored[number as usize].take();
        self.free.push(number);
        if let (Some(profile), Some(removed)) = (profile, removed) {
            profile.count_use(&removed.outcome, false);
        }
        Ok(())
    }

    /// All entries.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &TableEntry> {
        self.stored.iter().flatten().map(|stored| &stored.entry)
    }

    /// The entries from a position on, each with its position, which it keeps as long as it exists.
    pub(crate) fn entries_from(&self, place: usize) -> impl Iterator<Item = (usize, &TableEntry)> {
        let stored = self.stored.iter().enumerate().skip(place);
        stored.filter_map(|(at, stored)| Some((at, &stored.as_ref()?.entry)))
    }

    /// The entry with this key and priority.
    pub(crate) fn entry(
        &self,
        matches: &[KeyMatch],
        priority: i32,
    ) -> Result<&TableEntry, TableError> {
        Ok(&self.stored(matches, priority)?.entry)
    }

    /// Moves the counts of another table with the same entries, made in the same order, to this one.
    pub(crate) fn absorb(&mut self, other: &mut Self) {
        if !self.extras.counter {
            return;
        }
        for (to, from) in self.all_resources().zip(other.all_resources()) {
            if let (Some(to), Some(from)) = (to, from) {
                to.counter.absorb(&mut from.counter);
            }
        }
    }

    /// Those of the default entry, then those of the others by number.
    fn all_resources(&mut self) -> impl Iterator<Item = Option<&mut Resources>> {
        let stored = self.stored.iter_mut();
        let stored = stored.map(|stored| stored.as_mut().map(|stored| &mut stored.resources));
        std::iter::once(Some(&mut self.default_resources)).chain(stored)
    }

    /// Sets the counts of all entries to zero.
    pub(crate) fn clear_counts(&mut self) {
        let all = self.all_resources().flatten();
        all.for_each(|resources| resources.counter = CounterData::default());
    }

    /// The direct counter of an entry.
    pub(crate) fn counter(&mut self, of: Owner<'_>) -> Result<&mut CounterData, TableError> {
        Ok(&mut self.resources_mut(of)?.counter)
    }

    /// The value of the direct counter of an entry.
    pub(crate) fn counter_value(&self, of: Owner<'_>) -> Result<CounterData, TableError> {
        Ok(self.resources(of)?.counter)
    }

    /// The configuration of an entry's direct meter.
    pub(crate) fn meter_config(&self, of: Owner<'_>) -> Result<Option<MeterConfig>, TableError> {
        Ok(self.resources(of)?.meter.as_ref().and_then(|meter| lock(meter).config()))
    }

    /// Configures an entry's direct meter.
    pub(crate) fn set_meter_config(
        &mut self,
        of: Owner<'_>,
        config: Option<MeterConfig>,
    ) -> Result<(), TableError> {
        let metered = self.extras.meter.is_some();
        self.resources_mut(of)?.meter = config.filter(|_| metered).map(|config| {
            let mut meter = Meter::default();
            meter.configure(Some(config));
            Arc::new(Mutex::new(meter))
        });
        Ok(())
    }

    /// Makes entries use the meters of the same entries of another core's replica.
    pub(crate) fn share_meters(&mut self, with: &Self) {
        if self.extras.meter.is_none() {
            return;
        }
        self.default_resources.meter.clone_from(&with.default_resources.meter);
        for (to, from) in self.stored.iter_mut().zip(&with.stored) {
            if let (Some(to), Some(from)) = (to, from) {
                to.resources.meter.clone_from(&from.resources.meter);
            }
        }
    }

    /// The last time that a packet matched an entry, or that the entry was created.
    pub(crate) fn last_hit_us(
        &self,
        matches: &[KeyMatch],
        priority: i32,
    ) -> Result<u64, TableError> {
        Ok(self.stored(matches, priority)?.hit_us)
    }

    /// Calls `report` for each entry that no packet matched, and that was not reported, within its
    /// timeout.
    pub(crate) fn sweep(&mut self, now_us: u64, report: &mut dyn FnMut(&TableEntry)) {
        if !self.extras.ages {
            return;
        }
        for stored in self.stored.iter_mut().flatten() {
            let since = stored.hit_us.max(stored.reported_us);
            let timeout = stored.entry.idle_timeout_us;
            if timeout != 0 && now_us.saturating_sub(since) >= timeout {
                stored.reported_us = now_us;
                report(&stored.entry);
            }
        }
    }

    /// Sets the default action; `None` restores the program's.
    pub(crate) fn set_default(
        &mut self,
        action: Option<Action>,
        profile: Option<&mut Profile>,
    ) -> Result<(), TableError> {
        if self.const_default {
            return Err(TableError::Constant("the default action"));
        }
        let action = action.unwrap_or_else(|| Action::Direct(self.program_default.clone()));
        let outcome = match &action {
            Action::Direct(call) if *call == self.program_default => {
                Outcome::Direct(self.actions.resolve(call)?)
            }
            Action::Direct(call) => Outcome::Direct(self.actions.resolve_for_default(call)?),
            shared => self.outcome(shared, profile.as_deref())?,
        };
        if let Some(profile) = profile {
            profile.count_use(&outcome, true);
            profile.count_use(&self.default_outcome, false);
        }
        self.default_outcome = outcome;
        self.default = action;
        Ok(())
    }

    /// The default action.
    pub(crate) fn default_action(&self) -> &Action {
        &self.default
    }

    /// What a packet matches. Updates the entry's state.
    #[inline]
    pub(crate) fn apply(
        &mut self,
        code: &TableCode,
        state: &mut [u64],
        scratch: &mut [u64],
        arrival: Arrival,
    ) -> Match {
        let number = self.matcher.find(&code.keys, state, &mut scratch[..self.words]);
        if self.marked {
            self.mark(number, state, arrival);
        }
        number.map_or(Match::Miss, Match::Entry)
    }

    /// The action for a packet that [`Self::apply`] has looked up.
    #[inline]
    pub(crate) fn outcome_of(&self, matched: Match) -> &Outcome {
        let stored = match matched {
            // The matcher knows stored entries only.
            Match::Entry(number) => self.stored[number as usize].as_ref(),
            Match::Miss | Match::Assumed => None,
        };
        stored.map_or(&self.default_outcome, |stored| &stored.outcome)
    }

    /// The entry with a number that [`Self::apply`] returned.
    pub(crate) fn entry_at(&self, number: u32) -> Option<&TableEntry> {
        self.stored.get(number as usize)?.as_ref().map(|stored| &stored.entry)
    }

    /// Counts and meters a packet at its entry and records the time.
    fn mark(&mut self, number: Option<u32>, state: &mut [u64], arrival: Arrival) {
        self.last = number;
        let entry = number.and_then(|number| self.stored[number as usize].as_mut());
        let resources = match entry {
            Some(stored) => {
                stored.hit_us = arrival.now_us;
                &mut stored.resources
            }
            None => &mut self.default_resources,
        };
        if self.extras.counts_itself {
            resources.counter.count(arrival.bytes);
        }
        // Without a meter at the default entry, a miss leaves the field alone, as BMv2 does.
        if let Some(DirectMeter { unit, target, meters_itself: true }) = self.extras.meter
            && (number.is_some() || resources.meter.is_some())
        {
            let color = resources.color(Color::Green, unit, arrival);
            if let Some(target) = target {
                state[target.slot as usize] = color as u64 & mask(target.width);
            }
        }
    }

    /// Meters a packet at the entry that it matched, or at the default entry.
    pub(crate) fn meter_last(&mut self, before: Color, arrival: Arrival) -> Color {
        let Some(meter) = self.extras.meter else { return before };
        self.last_resources().color(before, meter.unit, arrival)
    }

    /// Counts a packet at the entry that it matched, or at the default entry.
    pub(crate) fn count_last(&mut self, bytes: u32) {
        self.last_resources().counter.count(bytes);
    }

    /// The filter of the entry that a packet matched, or of the default entry.
    pub(crate) fn filter_last(&mut self) -> &mut Filter {
        self.last_resources().filter.get_or_insert_default()
    }

    /// The register of the entry that a packet matched, or of the default entry.
    pub(crate) fn cell_last(&mut self) -> &mut [u64] {
        &mut self.last_resources().cell
    }

    fn last_resources(&mut self) -> &mut Resources {
        let entry = self.last.and_then(|number| self.stored[number as usize].as_mut());
        entry.map_or(&mut self.default_resources, |stored| &mut stored.resources)
    }

    /// Gives all entries a direct register with these words; empty for none.
    pub(crate) fn set_cell(&mut self, words: Vec<u64>) {
        self.new_cell = words.into();
        self.marked |= !self.new_cell.is_empty();
        let new_cell = self.new_cell.clone();
        let all = self.all_resources().flatten();
        all.for_each(|resources| resources.cell.clone_from(&new_cell));
    }

    /// The words of an entry's direct register.
    pub(crate) fn cell(&self, of: Owner<'_>) -> Result<&[u64], TableError> {
        Ok(&self.resources(of)?.cell)
    }

    /// The configuration of an entry's filter.
    pub(crate) fn filter(&mut self, of: Owner<'_>) -> Result<&mut Filter, TableError> {
        Ok(self.resources_mut(of)?.filter.get_or_insert_default())
    }

    /// Sets the field for the colour of the direct meter.
    pub(crate) fn set_meter_target(&mut self, to: Item) {
        if let Some(meter) = &mut self.extras.meter {
            meter.target = Some(to);
        }
    }

    /// Number of scratch words for [`Self::apply`].
    pub(crate) fn scratch_words(&self) -> usize {
        self.words
    }

    fn stored(&self, matches: &[KeyMatch], priority: i32) -> Result<&Stored, TableError> {
        let number = self.number(matches, priority)?;
        self.stored[number as usize].as_ref().ok_or(TableError::NotFound)
    }

    fn resources(&self, of: Owner<'_>) -> Result<&Resources, TableError> {
        match of {
            Owner::Entry(matches, priority) => Ok(&self.stored(matches, priority)?.resources),
            Owner::Default => Ok(&self.default_resources),
        }
    }

    fn resources_mut(&mut self, of: Owner<'_>) -> Result<&mut Resources, TableError> {
        let Owner::Entry(matches, priority) = of else { return Ok(&mut self.default_resources) };
        let number = self.number(matches, priority)?;
        let stored = self.stored[number as usize].as_mut().ok_or(TableError::NotFound)?;
        Ok(&mut stored.resources)
    }

    /// The validated outcome of an entry's action.
    fn outcome(&self, action: &Action, profile: Option<&Profile>) -> Result<Outcome, TableError> {
        match (action, profile) {
            (Action::Direct(call), None) => {
                Ok(Outcome::Direct(self.actions.resolve_for_entry(call)?))
            }
            (Action::Direct(_), Some(_)) => Err(TableError::ActionKind(
                "entries of this table name a member or a group of its action profile",
            )),
            (_, None) => Err(TableError::ActionKind("the table has no action profile")),
            (Action::Member(id), Some(profile)) => Ok(profile.member_outcome(*id)?),
            (Action::Group(id), Some(profile)) => Ok(profile.group_outcome(*id)?),
            (Action::Set(set), Some(profile)) => Ok(profile.set_outcome(set)?),
        }
    }

    fn check_timeout(&self, entry: &TableEntry) -> Result<(), TableError> {
        if entry.idle_timeout_us != 0 && !self.extras.ages {
            return Err(TableError::NoTimeout);
        }
        Ok(())
    }

    fn changeable(&self) -> Result<(), TableError> {
        if self.const_entries { Err(TableError::Constant("the entries")) } else { Ok(()) }
    }

    fn number(&self, matches: &[KeyMatch], priority: i32) -> Result<u32, TableError> {
        self.check_key(matches, priority)?;
        self.numbers.get(&(matches.to_vec(), priority)).copied().ok_or(TableError::NotFound)
    }

    fn check_key(&self, matches: &[KeyMatch], priority: i32) -> Result<(), TableError> {
        if matches.len() != self.keys.len() {
            return Err(TableError::KeyCount { expected: self.keys.len(), got: matches.len() });
        }
        for (key, (found, shape)) in matches.iter().zip(&self.keys).enumerate() {
            check_match(key, found, *shape)?;
        }
        match (self.prioritised, priority) {
            (true, ..=0) => Err(TableError::Priority("the entry needs a priority of 1 or more")),
            (true, _) | (false, 0) => Ok(()),
            (false, _) => {
                Err(TableError::Priority("entries of this table have no priority: it must be 0"))
            }
        }
    }
}
