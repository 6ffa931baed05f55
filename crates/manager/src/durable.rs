//! What outlives the manager: the jobs, and the numbers that are given out.

use std::collections::BTreeMap;

use crate::job::Record;

/// All that is recorded.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Durable {
    /// The jobs, by number.
    pub jobs: BTreeMap<u32, Record>,
    /// The numbers.
    pub counters: Counters,
}

/// The numbers that were given out last; 0: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Of a job.
    pub job: u32,
    /// Of a job in its packets. A number comes again only after all the others, so that late packets
    /// of a job are not taken for another's.
    pub wire: u16,
}

/// A change to what is recorded. Changes of one commit are all made, or none.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// A job is now like this.
    Job(Box<Record>),
    /// A job that was over is forgotten.
    Forget(u32),
    /// These numbers were given out.
    Counters(Counters),
}

impl Durable {
    /// Makes a change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Job(record) => drop(self.jobs.insert(record.id, (**record).clone())),
            Change::Forget(job) => drop(self.jobs.remove(job)),
            Change::Counters(counters) => self.counters = *counters,
        }
    }
}

/// Where it is recorded.
pub trait Store {
    /// Why something could not be recorded.
    type Error: std::error::Error + Send + Sync + 'static;

    /// All that was recorded.
    ///
    /// # Errors
    /// If it cannot be read, or is not what was written.
    fn load(&self) -> Result<Durable, Self::Error>;

    /// Records changes: when this returns, they are there whatever happens to the process or the
    /// machine.
    ///
    /// # Errors
    /// If they may not be there.
    fn commit(&mut self, changes: &[Change]) -> Result<(), Self::Error>;
}
