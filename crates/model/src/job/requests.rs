//! What clients want of a job: iterations, a rate, a move, its release.

use tributary_protocol::Rate;
use tributary_wire::WorkerIndex;

use super::change::Change;
use super::{Blocked, Iteration, Job, OutOfTurn, Progress, Served};

impl Job {
    /// What follows when a client lets an iteration begin; `number` as in [`Iteration::start`].
    ///
    /// # Errors
    /// [`Blocked`].
    pub fn started(&self, number: u64) -> Result<Progress, Blocked> {
        self.check_stepped()?;
        // Another run may count its iterations from the first again.
        self.check_free()?;
        let Served { progress, workers, .. } = self.run.served;
        Ok(progress.with(progress.iteration.start(number, workers)?))
    }

    /// What follows when a worker has all sums of an iteration, and nothing in flight.
    ///
    /// # Errors
    /// [`Blocked`].
    pub fn finished(&self, number: u64, worker: WorkerIndex) -> Result<Progress, Blocked> {
        self.check_unrequested()?;
        let progress = self.run.served.progress;
        Ok(progress.with(progress.iteration.finish(number, worker)?))
    }

    /// What follows when a client sets the rate of the workers.
    ///
    /// # Errors
    /// [`Blocked`].
    pub fn paced(&self, rate: Option<Rate>) -> Result<Progress, Blocked> {
        self.check_unrequested()?;
        Ok(Progress { rate, ..self.run.served.progress })
    }

    /// A client begins to move the job, between two iterations. No other change begins until it has
    /// [moved](super::Event::Moved).
    ///
    /// # Errors
    /// [`Blocked`].
    pub fn begin_move(&mut self) -> Result<(), Blocked> {
        self.check_stepped()?;
        let Iteration { number, unfinished } = self.run.served.progress.iteration;
        if !unfinished.is_empty() {
            return Err(OutOfTurn::Running(number, Box::new(unfinished)).into());
        }
        self.check_free()?;
        self.change = Some(Change::Request);
        Ok(())
    }

    /// The release of the job begins. No other change begins unless it fails.
    ///
    /// # Errors
    /// [`Blocked::Busy`].
    pub fn begin_release(&mut self) -> Result<(), Blocked> {
        if self.is_changing() {
            return Err(Blocked::Busy);
        }
        (self.change, self.again) = (Some(Change::Request), None);
        Ok(())
    }

    fn check_stepped(&self) -> Result<(), Blocked> {
        if self.rules.stepped { Ok(()) } else { Err(OutOfTurn::Free.into()) }
    }

    /// Whether no client moves or releases the job.
    fn check_unrequested(&self) -> Result<(), Blocked> {
        match &self.change {
            _ if self.broken => Err(Blocked::Broken),
            Some(Change::Request) => Err(Blocked::Busy),
            _ => Ok(()),
        }
    }

    /// Whether nothing changes the job.
    fn check_free(&self) -> Result<(), Blocked> {
        match &self.change {
            _ if self.broken => Err(Blocked::Broken),
            Some(_) => Err(Blocked::Busy),
            None => Ok(()),
        }
    }
}
