//! How long a job communicates and computes, and how long it goes on, from which the priorities of its packets follow
//! (ESA §5.4).

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tributary_protocol::priority::{Horizon, JobProfile};

use crate::outcome::lock;

/// Measures a rank's iterations by the sums that have a layer.
///
/// Gradients become ready from the output of the model to its input, so layers fall in an iteration, and the
/// next one begins where they do not. An iteration communicates while a sum is under way; the rest counts as
/// computation.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// The last layer, and the beginning of its iteration.
    last: Option<(usize, Instant)>,
    /// Sums that are under way.
    pending: usize,
    /// Since when there have been such.
    since: Option<Instant>,
    /// Time of this iteration in which there were such, without the time since then.
    communication: Duration,
    /// Communication and computation of the iteration before.
    measured: Option<(Duration, Duration)>,
    /// Iterations that are left, if the trainer has said so.
    left: Option<u64>,
}

/// A sum that is under way until this is dropped.
pub(crate) struct UnderWay(Arc<Mutex<Meter>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        lock(&self.0).end(Instant::now());
    }
}

impl Meter {
    /// The trainer has begun step `step` of `of`, each of which is an iteration.
    pub(crate) fn set_progress(&mut self, step: u64, of: u64) {
        self.left = Some(of.saturating_sub(step));
    }

    /// A sum of a layer of so many begins; layer 0 is at the input of the model. Returns the job's profile. Its horizon
    /// is the time for the iterations that are left, or `horizon` if that is unknown.
    pub(crate) fn sum(
        this: &Arc<Mutex<Self>>,
        layer: usize,
        layers: usize,
        horizon: Horizon,
    ) -> (JobProfile, UnderWay) {
        let mut own = lock(this);
        own.begin(Instant::now(), layer);
        let horizon = own.remaining().map_or(horizon, Horizon::Remaining);
        let second = Duration::from_secs(1);
        // Both count alike before the first iteration is over.
        let (communication, computation) = own.measured.unwrap_or((second, second));
        let layers = u32::try_from(layers).unwrap_or(u32::MAX);
        (JobProfile { layers, communication, computation, horizon }, UnderWay(Arc::clone(this)))
    }

    /// The time for the iterations that are left, if each takes as long as the one before.
    fn remaining(&self) -> Option<Duration> {
        let (communication, computation) = self.measured?;
        let seconds = (communication + computation).as_secs_f64() * self.left? as f64;
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    fn begin(&mut self, now: Instant, layer: usize) {
        let begun = match self.last {
            Some((last, begun)) if layer < last => begun,
            Some((_, begun)) => {
                self.pause(now);
                let communication = std::mem::take(&mut self.communication);
                let all = now.saturating_duration_since(begun);
                self.measured = Some((communication, all.saturating_sub(communication)));
                self.since = (self.pending > 0).then_some(now);
                now
            }
            None => now,
        };
        self.last = Some((layer, begun));
        self.pending += 1;
        self.since.get_or_insert(now);
    }

    fn end(&mut self, now: Instant) {
        self.pending -= 1;
        if self.pending == 0 {
            self.pause(now);
        }
    }

    fn pause(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            self.communication += now.saturating_duration_since(since);
        }
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::priority::{Code, Priority};

    use super::*;

    #[test]
    fn an_iteration_communicates_while_sums_are_under_way() {
        let mut meter = Meter::default();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let times = |a, b| Some((Duration::from_millis(a), Duration::from_millis(b)));
        // Two sums that overlap, a pause, and a third one.
        meter.begin(at(100), 2);
        meter.begin(at(110), 1);
        meter.end(at(120));
        meter.end(at(130));
        meter.begin(at(150), 0);
        meter.end(at(155));
        assert_eq!(meter.measured, None);
        meter.begin(at(200), 2);
        assert_eq!(meter.measured, times(35, 65));
        // One layer, whose sum lasts longer than its iteration.
        meter.end(at(201));
        meter.begin(at(210), 0);
        meter.begin(at(240), 0);
        assert_eq!(meter.measured, times(31, 9));
        meter.end(at(250));
        meter.end(at(260));
        meter.begin(at(300), 0);
        assert_eq!(meter.measured, times(20, 40));
    }
    /// The priority of a sum of the only layer after two iterations of 10 ms, each half of it communication. The
    /// trainer has said its progress, and the job has run for an hour.
    fn priority(progress: Option<(u64, u64)>) -> Priority {
        let mut meter = Meter::default();
        let start = Instant::now();
        for iteration in 0..3 {
            let begun = start + Duration::from_millis(10 * iteration);
            meter.begin(begun, 0);
            meter.end(begun + Duration::from_millis(5));
        }
        if let Some((step, of)) = progress {
            meter.set_progress(step, of);
        }
        let attained = Horizon::Attained(Duration::from_secs(3600));
        // So that the next sum ends no iteration.
        meter.last = None;
        let meter = Arc::new(Mutex::new(meter));
        let (profile, _under_way) = Meter::sum(&meter, 0, 1, attained);
        profile.of_layer(1, Code::Logarithmic)
    }

    #[test]
    fn a_job_nearer_to_its_end_goes_first() {
        // ESA §5.4: 1/T, and T is 10 ms for each step that is left.
        let of_seconds = |seconds: f64| Code::Logarithmic.encode(1.0 / seconds);
        for (step, seconds) in [(0, 10.0), (500, 5.0), (900, 1.0), (999, 0.01)] {
            assert_eq!(priority(Some((step, 1000))), of_seconds(seconds), "{step}");
        }
        assert_eq!(priority(Some((1000, 1000))), of_seconds(1e-6));
        assert!(priority(Some((0, u64::MAX))) < priority(None));
        // Without a word of the trainer, the service that the job has had counts.
        assert_eq!(priority(None), of_seconds(3600.0));
    }

    #[test]
    fn progress_counts_once_an_iteration_was_measured() {
        let meter = Arc::<Mutex<Meter>>::default();
        lock(&meter).set_progress(999, 1000);
        let attained = Horizon::Attained(Duration::from_secs(3600));
        let (profile, _under_way) = Meter::sum(&meter, 0, 1, attained);
        assert_eq!(profile.horizon, attained);
    }
}
