//! What switches count for a job.

use std::iter::Sum;

use tributary_controller::outcomes::{Count, Outcome, Outcomes};

/// Counters of a job, summed over all switches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// Outcomes of its packets.
    pub outcomes: Outcomes,
    /// Its partial sums that another task evicted (ESA).
    pub evictions: Count,
}

/// Combines the lanes of a job.
impl Sum for Counted {
    fn sum<I: Iterator<Item = Self>>(lanes: I) -> Self {
        lanes.fold(Self::default(), |mut all, lane| {
            all.outcomes += lane.outcomes;
            all.evictions += lane.evictions;
            all
        })
    }
}

impl Counted {
    /// Bytes of the job's gradients (with all headers) that entered switches and did not leave
    /// them. Entered: packets that were stored, added, dropped as duplicates or for a past round,
    /// or swapped for another task's partial sum. Left: partial sums in place of another task's
    /// packet or of a reminder. Every other gradient leaves in some form.
    pub(crate) fn kept_bytes(&self) -> u64 {
        const IN: [Outcome; 6] = [
            Outcome::Absorbed,
            Outcome::Seized,
            Outcome::Added,
            Outcome::Duplicate,
            Outcome::Preempted,
            Outcome::Stale,
        ];
        let stayed: u64 = IN.into_iter().map(|outcome| self.outcomes[outcome].bytes).sum();
        let left = self.evictions.bytes + self.outcomes[Outcome::Reminded].bytes;
        stayed.saturating_sub(left)
    }
}
