//! Epochs: a number for each run of each job, never given twice.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use tributary_wire::{Epoch, JobId, Run};

/// Issues epochs.
///
/// An epoch is the time, in seconds since 1970, or one more than the last one where that is later. So it
/// is greater than those that another controller issued before, unless that one issued more than one a
/// second all along; and nothing has to be kept in a file.
#[derive(Clone, Debug, Default)]
pub struct Epochs {
    last: Option<Epoch>,
    /// Of runs that switches served already; `None` where they do not agree.
    found: BTreeMap<JobId, Option<Epoch>>,
}

impl Epochs {
    /// An epoch that no run has had.
    ///
    /// # Panics
    /// When all 2^32 are used up, in the year 2106.
    pub fn issue(&mut self) -> Epoch {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.issue_at(u32::try_from(now.as_secs()).unwrap_or(u32::MAX))
    }

    fn issue_at(&mut self, seconds: u32) -> Epoch {
        let after =
            self.last.map_or(Some(Epoch::FIRST), Epoch::next).expect("all epochs are used up");
        let epoch = Epoch::new(seconds).map_or(after, |now| now.max(after));
        self.last = Some(epoch);
        epoch
    }

    /// A switch serves a run already.
    pub(crate) fn found(&mut self, run: Run) {
        self.last = self.last.max(Some(run.epoch));
        let other = |known: &mut Option<Epoch>| *known = known.filter(|epoch| *epoch == run.epoch);
        self.found.entry(run.job).and_modify(other).or_insert(Some(run.epoch));
    }

    /// The run of a job that all switches that have one serve.
    pub(crate) fn of(&self, job: JobId) -> Option<Epoch> {
        self.found.get(&job).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(number: u32) -> Epoch {
        Epoch::new(number).unwrap()
    }

    #[test]
    fn no_epoch_comes_twice_whatever_the_clock_does() {
        let mut epochs = Epochs::default();
        let times = [0, 0, 1000, 1000, 1000, 999, 5, 2000];
        let issued = times.map(|now| epochs.issue_at(now).get());
        assert_eq!(issued, [1, 2, 1000, 1001, 1002, 1003, 1004, 2000]);
        let (now, later) = (epochs.issue(), epochs.issue());
        assert!(now.get() > 1_700_000_000 && later > now);
    }

    #[test]
    fn what_is_found_in_switches_is_not_issued_again() {
        let [a, b] = [1, 2].map(|job| JobId::new(job).unwrap());
        let mut epochs = Epochs::default();
        for (job, number) in [(a, 7), (b, 9), (a, 7), (b, 8), (b, 8)] {
            epochs.found(job.run(epoch(number)));
        }
        assert_eq!((epochs.of(a), epochs.of(b)), (Some(epoch(7)), None));
        assert_eq!(epochs.issue_at(3), epoch(10));
    }
}
