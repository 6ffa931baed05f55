//! Batches of updates and of queries, processed in steps so that long ones do not delay packets.

use std::collections::VecDeque;

use tributary_dataplane::Changed;
use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::v1::write_request::Atomicity;
use tributary_p4runtime::p4::v1::{Entity, Update, entity};

use super::cursor::size;
use super::read::{PART_BYTES, Part, parts_of};
use super::state::numbers_used;
use super::{Refusal, read_part, undo, write};
use crate::config::SwitchConfig;
use crate::forwarding::{Forwarding, ProgramId};
use crate::roles::Access;

/// The result of each update or query, in order.
pub(crate) type Outcomes = Vec<Result<(), Refusal>>;

/// A batch of updates.
#[derive(Debug)]
pub(crate) struct WriteBatch {
    /// An update whose names cannot be translated is a refusal.
    updates: Vec<Result<Update, Refusal>>,
    /// Whether names are replaced by numbers.
    translated: bool,
    atomicity: Atomicity,
    outcomes: Outcomes,
    /// The updates that undo those made, in their order; kept if that may be needed.
    undo: Vec<Vec<Update>>,
    /// Whether counts are set, which the cores have in parts.
    counts: bool,
    /// What the controller's role may write.
    access: Access,
    /// The same for the other cores; all have the same outcome.
    others: Vec<Self>,
}

impl WriteBatch {
    pub(crate) fn new(updates: Vec<Update>, atomicity: Atomicity) -> Self {
        Self::of(updates.into_iter().map(Ok).collect(), atomicity)
    }

    fn of(updates: Vec<Result<Update, Refusal>>, atomicity: Atomicity) -> Self {
        let outcomes = Vec::with_capacity(updates.len());
        let counts = updates.iter().flatten().any(|update| {
            let entity = update.entity.as_ref().and_then(|entity| entity.entity.as_ref());
            entity.is_some_and(has_counts)
        });
        Self {
            updates,
            translated: false,
            atomicity,
            outcomes,
            undo: Vec::new(),
            counts,
            access: Access::default(),
            others: Vec::new(),
        }
    }

    /// Refuses what a role may not write.
    pub(crate) fn with_access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// Whether counts are set, which the cores have in parts.
    pub(crate) fn sets_counts(&self) -> bool {
        self.counts
    }

    /// [`step`](Self::step)s at all cores alike. Counts are set at the first one; at the others they
    /// are set to zero. The first one has the names of values.
    pub(crate) fn step_all<'a>(
        &mut self,
        first: &mut Forwarding,
        others: impl Iterator<Item = &'a mut Forwarding>,
        config: &SwitchConfig,
        budget: usize,
    ) -> bool {
        if !std::mem::replace(&mut self.translated, true) {
            self.translate(first);
        }
        for (at, other) in others.enumerate() {
            if self.others.len() == at {
                let updates = self.updates.iter().cloned().map(|update| update.map(uncounted));
                let other = Self::of(updates.collect(), self.atomicity);
                self.others.push(other.with_access(self.access.clone()));
            }
            self.others[at].step(other, config, budget);
        }
        let done = self.step(first, config, budget);
        debug_assert!(self.others.iter().all(|other| {
            let refused = |outcomes: &Outcomes| -> Vec<bool> {
                outcomes.iter().map(Result::is_err).collect()
            };
            refused(&other.outcomes) == refused(&self.outcomes)
        }));
        done
    }

    /// Replaces names by numbers, before the first step.
    fn translate(&mut self, to: &mut Forwarding) {
        if to.names().many() {
            self.forget_names(to, 0);
        }
        let mut forgotten = false;
        for index in 0..self.updates.len() {
            let Ok(update) = &self.updates[index] else { continue };
            if self.access.check(update.entity.as_ref()).is_err() {
                // It is refused, and takes no numbers.
                continue;
            }
            let mut translated = to.numbered(update);
            // No number is left, or a name that no entry has belongs to it.
            let taken = |refusal: &Refusal| {
                matches!(refusal.code, Code::ResourceExhausted | Code::AlreadyExists)
            };
            if translated.as_ref().is_err_and(taken) && !std::mem::replace(&mut forgotten, true) {
                self.forget_names(to, index);
                translated = self.updates[index]
                    .as_ref()
                    .map_or_else(|refusal| Err(refusal.clone()), |update| to.numbered(update));
            }
            self.updates[index] = translated;
        }
    }

    /// Forgets names that neither entries nor the first updates have. All updates of earlier
    /// batches are made by now.
    fn forget_names(&self, to: &mut Forwarding, translated: usize) {
        let of_update = |update: &Update| update.entity.clone();
        let pending = self.updates[..translated].iter().flatten().filter_map(of_update);
        to.forget_names(&numbers_used(to, pending));
    }

    /// Makes at most `budget` updates. Returns true when the batch is done.
    ///
    /// `CONTINUE_ON_ERROR` and `ROLLBACK_ON_ERROR` let packets pass in between. `DATAPLANE_ATOMIC`
    /// does not, so it always takes one step.
    pub(crate) fn step(
        &mut self,
        to: &mut Forwarding,
        config: &SwitchConfig,
        budget: usize,
    ) -> bool {
        let first = self.outcomes.len();
        let end = match self.atomicity {
            Atomicity::DataplaneAtomic => self.updates.len(),
            _ => self.updates.len().min(first + budget),
        };
        for index in first..end {
            if self.atomicity == Atomicity::ContinueOnError {
                self.outcomes
                    .push(self.allowed(index).and_then(|update| write(to, config, update)));
            } else if let Err(refusal) = self.reversibly(to, config, index) {
                self.roll_back(to, config, index, refusal);
                return true;
            }
        }
        self.outcomes.len() == self.updates.len()
    }

    /// An update, unless the controller's role may not make it.
    fn allowed(&self, index: usize) -> Result<&Update, Refusal> {
        let update = self.updates[index].as_ref().map_err(Refusal::clone)?;
        self.access.check(update.entity.as_ref())?;
        Ok(update)
    }

    pub(crate) fn finish(self) -> Outcomes {
        self.outcomes
    }

    fn reversibly(
        &mut self,
        to: &mut Forwarding,
        config: &SwitchConfig,
        index: usize,
    ) -> Result<(), Refusal> {
        let update = self.allowed(index)?;
        let back = undo(to, update);
        write(to, config, update)?;
        self.undo.push(back);
        self.outcomes.push(Ok(()));
        Ok(())
    }

    /// Undoes the updates in reverse order.
    fn roll_back(
        &mut self,
        to: &mut Forwarding,
        config: &SwitchConfig,
        failed: usize,
        refusal: Refusal,
    ) {
        for update in self.undo.drain(..).rev().flatten() {
            if let Err(error) = write(to, config, &update) {
                tracing::error!(%error, ?update, "an update could not be taken back");
            }
        }
        let aborted = |what: &str| {
            let message = format!("{what}: update {failed} was refused");
            Err(Refusal::new(Code::Aborted, message))
        };
        self.outcomes.clear();
        for index in 0..self.updates.len() {
            self.outcomes.push(match index.cmp(&failed) {
                std::cmp::Ordering::Less => aborted("taken back"),
                std::cmp::Ordering::Equal => Err(refusal.clone()),
                std::cmp::Ordering::Greater => aborted("not tried"),
            });
        }
    }
}

fn has_counts(entity: &entity::Entity) -> bool {
    use entity::Entity as E;
    match entity {
        E::CounterEntry(entry) => entry.data.is_some(),
        E::DirectCounterEntry(entry) => entry.data.is_some(),
        E::TableEntry(entry) => entry.counter_data.is_some(),
        _ => false,
    }
}

/// The same update with counts of zero.
fn uncounted(mut update: Update) -> Update {
    use entity::Entity as E;
    let data = match update.entity.as_mut().and_then(|entity| entity.entity.as_mut()) {
        Some(E::CounterEntry(entry)) => entry.data.as_mut(),
        Some(E::DirectCounterEntry(entry)) => entry.data.as_mut(),
        Some(E::TableEntry(entry)) => entry.counter_data.as_mut(),
        _ => None,
    };
    if let Some(data) = data {
        // A negative count stays one, since it is refused.
        data.byte_count = data.byte_count.min(0);
        data.packet_count = data.packet_count.min(0);
    }
    update
}

/// The parts of a template with names; none if it has an unknown name.
fn query_parts(from: &Forwarding, template: &Entity) -> Result<Vec<Part>, Refusal> {
    let mut template = template.clone();
    match from.names().query(from.objects().places(), &mut template)? {
        true => parts_of(from, &template),
        false => Ok(Vec::new()),
    }
}

/// Most parts that are read per step, empty ones included.
const PARTS: usize = 16;

/// A batch of queries, answered as fast as the answers are taken.
#[derive(Debug)]
pub(crate) struct ReadBatch {
    /// Parts that remain to be read, each with the index of its query.
    parts: VecDeque<(usize, Part)>,
    outcomes: Outcomes,
    /// Entities that were read and not taken yet, and their size in memory.
    entities: Vec<Entity>,
    bytes: usize,
    /// The program that is read.
    program: ProgramId,
}

impl ReadBatch {
    pub(crate) fn new(from: &Forwarding, templates: &[Entity]) -> Self {
        let mut batch = Self {
            parts: VecDeque::new(),
            outcomes: vec![Ok(()); templates.len()],
            entities: Vec::new(),
            bytes: 0,
            program: from.id(),
        };
        for (query, template) in templates.iter().enumerate() {
            match query_parts(from, template) {
                Ok(parts) => batch.parts.extend(parts.into_iter().map(|part| (query, part))),
                Err(refusal) => batch.outcomes[query] = Err(refusal),
            }
        }
        batch
    }

    /// What packets change and the next step reads.
    pub(crate) fn reads(&self) -> Changed {
        let mut all = Changed::default();
        for (_, part) in self.parts.iter().take(PARTS) {
            part.add_to(&mut all);
        }
        all
    }

    /// Reads until at least `budget` more entities, or [`PART_BYTES`], are available. Returns true
    /// when the batch is done.
    ///
    /// # Errors
    /// `ABORTED` if another program was set in the meantime.
    pub(crate) fn step(&mut self, from: &Forwarding, budget: usize) -> Result<bool, Refusal> {
        if from.id() != self.program {
            let message = "another program was set while this was read: read again";
            return Err(Refusal::new(Code::Aborted, message));
        }
        let enough = self.entities.len().saturating_add(budget);
        for _ in 0..PARTS {
            let Some((query, part)) = self.parts.pop_front() else { return Ok(true) };
            if self.outcomes[query].is_err() {
                continue;
            }
            let before = self.entities.len();
            match read_part(from, part, &mut self.entities) {
                Ok(rest) => {
                    if let Some(rest) = rest {
                        self.parts.push_front((query, rest));
                    }
                    let new = &mut self.entities[before..];
                    let (names, places) = (from.names(), from.objects().places());
                    new.iter_mut().for_each(|entity| names.outward(places, entity));
                    self.bytes += new.iter().map(size).sum::<usize>();
                }
                Err(refusal) => {
                    self.entities.truncate(before);
                    self.outcomes[query] = Err(refusal);
                }
            }
            if self.entities.len() >= enough || self.bytes >= PART_BYTES {
                break;
            }
        }
        Ok(self.parts.is_empty())
    }

    /// Size in memory of the entities that were not taken yet.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the entities that were read since the last call.
    pub(crate) fn take(&mut self) -> Vec<Entity> {
        self.bytes = 0;
        std::mem::take(&mut self.entities)
    }

    pub(crate) fn outcomes(self) -> Outcomes {
        self.outcomes
    }
}
