//! Epochs: a number for each run of each job, never issued twice.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tributary_wire::{Epoch, JobId, Run};

/// Epochs per second.
const RATE: u64 = 16;

/// Start of the epochs' clock in Unix seconds: the beginning of 2026.
const ORIGIN: u64 = 1_767_225_600;

/// Issues epochs.
///
/// An epoch is the current time in sixteenths of a second. Each is issued once and never ahead of
/// the clock: a second request within a sixteenth waits for the next one. Any earlier controller
/// whose clock agrees has therefore issued earlier epochs, however many runs it began, and no file
/// has to record the last one. Epochs wrap around after eight years, which [`Epoch::is_after`]
/// takes into account.
#[derive(Clone, Debug)]
pub struct Epochs {
    /// The last known epoch, in ticks of the clock.
    last: u64,
    /// Epochs of runs that switches already served; `None` where switches disagree.
    found: BTreeMap<JobId, Option<Epoch>>,
}

impl Epochs {
    /// Starts after the current tick, whose epoch another process may have issued.
    #[must_use]
    pub fn new() -> Self {
        Self { last: ticks(), found: BTreeMap::new() }
    }

    /// Issues a new epoch.
    ///
    /// # Errors
    /// The time until the next epoch can be issued.
    pub fn issue(&mut self) -> Result<Epoch, Duration> {
        self.issue_at(ticks())
    }

    fn issue_at(&mut self, now: u64) -> Result<Epoch, Duration> {
        if now <= self.last {
            return Err(duration(self.last + 1 - now));
        }
        self.last = now;
        Ok(epoch(now))
    }

    /// How far an epoch is ahead of the clock; `None` if it may have been issued already.
    pub(crate) fn ahead(epoch: Epoch) -> Option<Duration> {
        let now = ticks();
        tick(epoch, now).checked_sub(now + 1).map(|ticks| duration(ticks + 1))
    }

    /// Records a run that a switch already serves.
    pub(crate) fn found(&mut self, run: Run) {
        self.found_at(run, ticks());
    }

    fn found_at(&mut self, run: Run, now: u64) {
        self.last = self.last.max(tick(run.epoch, now));
        let other = |known: &mut Option<Epoch>| *known = known.filter(|epoch| *epoch == run.epoch);
        self.found.entry(run.job).and_modify(other).or_insert(Some(run.epoch));
    }

    /// Records a run that goes on, whatever others of its job switches serve.
    pub(crate) fn resumed(&mut self, run: Run) {
        self.resumed_at(run, ticks());
    }

    fn resumed_at(&mut self, run: Run, now: u64) {
        self.found_at(run, now);
        self.found.insert(run.job, Some(run.epoch));
    }

    /// The run of a job that all switches with such a run serve.
    pub(crate) fn of(&self, job: JobId) -> Option<Epoch> {
        self.found.get(&job).copied().flatten()
    }
}

impl Default for Epochs {
    fn default() -> Self {
        Self::new()
    }
}

/// The current time in ticks.
fn ticks() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = now.saturating_sub(Duration::from_secs(ORIGIN));
    now.as_secs() * RATE + u64::from(now.subsec_nanos()) * RATE / 1_000_000_000
}

fn duration(ticks: u64) -> Duration {
    Duration::from_secs(1) * u32::try_from(ticks).unwrap_or(u32::MAX) / RATE as u32
}

/// Number of epochs before they wrap around: all 32-bit numbers but zero.
const EPOCHS: u64 = u32::MAX as u64;

/// The epoch of a tick.
fn epoch(tick: u64) -> Epoch {
    let number = u32::try_from(tick % EPOCHS + 1).ok().and_then(Epoch::new);
    number.expect("from 1 to 2^32 - 1")
}

/// The tick of an epoch that is nearest to `now`.
fn tick(epoch: Epoch, now: u64) -> u64 {
    let ahead = (u64::from(epoch.get() - 1) + EPOCHS - now % EPOCHS) % EPOCHS;
    if ahead <= EPOCHS / 2 { now + ahead } else { (now + ahead).saturating_sub(EPOCHS) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 5 * EPOCHS + 1000;

    fn epochs(now: u64) -> Epochs {
        Epochs { last: now, found: BTreeMap::new() }
    }

    /// A controller was killed after some switches had the next run, and before that was recorded.
    #[test]
    fn a_resumed_run_counts_as_found_even_if_a_switch_has_another() {
        let [one, two] = [NOW - 9, NOW - 5].map(epoch);
        let job = JobId::new(7).unwrap();
        let mut epochs = epochs(NOW - 20);
        epochs.found_at(job.run(two), NOW);
        epochs.resumed_at(job.run(one), NOW);
        assert_eq!(epochs.of(job), Some(one));
        // Neither is issued again.
        assert!(epochs.issue_at(NOW - 5).is_err());
        assert_eq!(epochs.issue_at(NOW - 4), Ok(epoch(NOW - 4)));
    }

    #[test]
    fn epochs_follow_the_clock_and_are_never_ahead_of_it() {
        let mut epochs = epochs(NOW);
        let wait = |ticks| Err(duration(ticks));
        assert_eq!(epochs.issue_at(NOW), wait(1), "another process may have issued this one");
        assert_eq!(epochs.issue_at(NOW + 1), Ok(epoch(NOW + 1)));
        assert_eq!(epochs.issue_at(NOW + 1), wait(1));
        assert_eq!(epochs.issue_at(NOW + 40), Ok(epoch(NOW + 40)));
        // The clock is set back by two seconds.
        assert_eq!(epochs.issue_at(NOW + 8), wait(33));
        assert_eq!(wait(33), Err(Duration::from_micros(2_062_500)));
        assert_eq!(epochs.issue_at(NOW + 41), Ok(epoch(NOW + 41)));
    }

    #[test]
    fn a_later_process_issues_later_epochs() {
        let mut last = None;
        // Several thousand processes, around the time when epochs wrap around.
        for process in 0..3_000 {
            let mut now = 6 * EPOCHS - 5_000 + 10 * process;
            let mut epochs = epochs(now);
            for _ in 0..20 {
                if let Ok(epoch) = epochs.issue_at(now) {
                    assert!(last.is_none_or(|last| epoch.is_after(last)), "{last:?} {epoch}");
                    last = Some(epoch);
                }
                now += u64::from(process % 3 == 0 || epochs.last < now);
                if now >= 6 * EPOCHS - 5_000 + 10 * (process + 1) {
                    break;
                }
            }
        }
    }

    #[test]
    fn epochs_found_in_switches_are_not_issued_again() {
        let [a, b] = [1, 2].map(|job| JobId::new(job).unwrap());
        let mut epochs = epochs(NOW);
        for (job, number) in [(a, NOW + 7), (b, NOW + 9), (a, NOW + 7), (b, NOW - 8), (b, NOW - 8)]
        {
            epochs.found_at(job.run(epoch(number)), NOW);
        }
        assert_eq!((epochs.of(a), epochs.of(b)), (Some(epoch(NOW + 7)), None));
        assert_eq!(epochs.issue_at(NOW + 3), Err(duration(7)));
        assert_eq!(epochs.issue_at(NOW + 10), Ok(epoch(NOW + 10)));
    }

    #[test]
    fn times_and_epochs_correspond() {
        for now in [NOW, 0, 3, EPOCHS - 1, EPOCHS, EPOCHS + 1] {
            for tick_ in [now.saturating_sub(10), now, now + 1, now + 1_000_000, now + EPOCHS / 2] {
                assert_eq!(tick(epoch(tick_), now), tick_, "{now}");
            }
        }
        let mut real = Epochs::new();
        let first = real.issue().unwrap_err();
        assert!(first <= Duration::from_secs(1) / RATE as u32);
        std::thread::sleep(first);
        let issued = real.issue().unwrap();
        assert_eq!(Epochs::ahead(issued), None);
        let future = Epoch::new(issued.get() + 1_600).unwrap();
        assert!(Epochs::ahead(future).unwrap() > Duration::from_secs(90));
    }
}
