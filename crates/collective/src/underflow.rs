//! Values that become zero beside greater ones: when that is too much, and what is said about it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use tributary_model::{JobSpec, OnUnderflow};
use tributary_protocol::fixed::Rounding;
use tributary_worker::rounding::{underflow, zeroed_of_values};

/// The shortest time between two warnings.
const PAUSE: Duration = Duration::from_mins(1);

const ADVICE: &str = "To keep them, set `precision = \"auto\"` or \"double\" in [group] of the settings, clip the \
     greatest, or sum in float64, which does not go through the network. In [job], `max_underflow` is the share that \
     is allowed, and `on_underflow` what happens above it: \"warn\" or \"fail\"";

/// What a group does about values that become zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// The share of a rank's non-zero values of a call that may become zero.
    most: f64,
    /// Whether a call with more fails at all ranks.
    pub(crate) fails: bool,
}

impl Policy {
    pub(crate) fn of(job: &JobSpec) -> Self {
        Self { most: job.max_underflow, fails: job.on_underflow == OnUnderflow::Fail }
    }

    /// Whether a rank's values of a call have lost too much.
    pub(crate) fn is_broken(&self, rounding: &Rounding) -> bool {
        underflow(rounding) > self.most
    }

    /// What a rank tells the others about its values before a call; nothing if the sum may begin.
    pub(crate) fn objection(&self, rounding: &Rounding) -> String {
        let Rounding { values, zeroed, least, greatest, .. } = rounding;
        match self.is_broken(rounding) {
            true => format!("{zeroed} of {values} values from {least:.1e} to {greatest:.1e}"),
            false => String::new(),
        }
    }
}

/// The error of a call that some ranks object to.
pub(crate) fn refusal(name: &str, half: f64, objections: &str) -> String {
    format!(
        "fixed point would make non-zero values zero in {name}: {objections}; {}. {ADVICE}",
        bound(half)
    )
}

/// The warning about the values of a call, of these ranks.
pub(crate) fn warning(ranks: &str, name: &str, half: f64, rounding: &Rounding) -> String {
    let Rounding { least, greatest, .. } = rounding;
    format!(
        "{ranks}, {name}: {}. Their magnitudes are {least:e} to {greatest:e}, and {}. {ADVICE}",
        zeroed_of_values(rounding),
        bound(half)
    )
}

/// `half` is half a unit, where it is greatest.
fn bound(half: f64) -> String {
    format!(
        "values of up to {half:.2e} become zero beside the greatest of all ranks in the same packets"
    )
}

/// The warnings so far: at most one about each bucket, and one a minute.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    told: HashSet<String>,
    last: Option<Instant>,
}

impl Warnings {
    /// Whether to warn of the bucket of this name. If so, it counts as told.
    pub(crate) fn is_due(&mut self, name: &str, now: Instant) -> bool {
        let is_early = self.last.is_some_and(|last| now.duration_since(last) < PAUSE);
        if is_early || self.told.contains(name) {
            return false;
        }
        self.last = Some(now);
        self.told.insert(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_is_told_once_and_one_of_them_a_minute() {
        let begin = Instant::now();
        let mut warnings = Warnings::default();
        let told: Vec<_> =
            [(0, "a"), (1, "a"), (2, "b"), (61, "a"), (62, "b"), (63, "c"), (500, "b")]
                .into_iter()
                .filter(|(after, name)| warnings.is_due(name, begin + Duration::from_secs(*after)))
                .collect();
        assert_eq!(told, [(0, "a"), (62, "b")]);
        assert!(warnings.is_due("c", begin + Duration::from_secs(501)));
    }

    #[test]
    fn an_objection_fits_the_text_of_a_call() {
        let rounding = Rounding {
            values: u64::from(u32::MAX),
            zeroed: u64::from(u32::MAX),
            least: 1.2e-38,
            greatest: 3.4e38,
            ..Rounding::default()
        };
        let policy = Policy { most: 0.5, fails: true };
        let text = policy.objection(&rounding);
        assert_eq!(text, "4294967295 of 4294967295 values from 1.2e-38 to 3.4e38");
        assert!(text.len() <= crate::agreement::TEXT);
        let half = Rounding { zeroed: rounding.values / 2, ..rounding };
        assert_eq!(policy.objection(&half), "");
    }
}
