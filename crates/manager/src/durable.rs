//! The manager's persistent state: jobs and assigned numbers.

use std::collections::BTreeMap;

use crate::job::Record;

/// The persistent state.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Durable {
    /// Jobs by number.
    pub jobs: BTreeMap<u32, Record>,
    /// Assigned numbers.
    pub counters: Counters,
}

/// The last numbers assigned; 0 for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// The last job number.
    pub job: u32,
    /// The last number of a job in its packets. A number is reused only after all others, so that
    /// late packets of a job are not attributed to another job.
    pub wire: u16,
}

/// A change of the persistent state. A commit applies all of its changes or none.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// Inserts or replaces a job.
    Job(Box<Record>),
    /// Removes a job that is over.
    Forget(u32),
    /// Sets the assigned numbers.
    Counters(Counters),
}

impl Durable {
    /// Applies a change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Job(record) => drop(self.jobs.insert(record.id, (**record).clone())),
            Change::Forget(job) => drop(self.jobs.remove(job)),
            Change::Counters(counters) => self.counters = *counters,
        }
    }
}

/// Storage of the persistent state.
pub trait Store {
    /// Error of the storage.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Loads the state.
    ///
    /// # Errors
    ///
    /// If the state cannot be read, or differs from what was written.
    fn load(&self) -> Result<Durable, Self::Error>;

    /// Stores changes. When this returns, they survive a crash of the process or the machine.
    ///
    /// # Errors
    ///
    /// If the changes may not have been stored.
    fn commit(&mut self, changes: &[Change]) -> Result<(), Self::Error>;
}
