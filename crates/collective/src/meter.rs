//! How long a job communicates and computes, from which the priorities of its packets follow (ESA §5.4).

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
}

/// A sum that is under way until this is dropped.
pub(crate) struct UnderWay(Arc<Mutex<Meter>>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        lock(&self.0).end(Instant::now());
    }
}

impl Meter {
    /// A sum of a layer of so many begins; layer 0 is at the input of the model. Returns the job's profile.
    pub(crate) fn sum(
        this: &Arc<Mutex<Self>>,
        layer: usize,
        layers: usize,
        horizon: Horizon,
    ) -> (JobProfile, UnderWay) {
        let mut own = lock(this);
        own.begin(Instant::now(), layer);
        let second = Duration::from_secs(1);
        // Both count alike before the first iteration is over.
        let (communication, computation) = own.measured.unwrap_or((second, second));
        let layers = u32::try_from(layers).unwrap_or(u32::MAX);
        (JobProfile { layers, communication, computation, horizon }, UnderWay(Arc::clone(this)))
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
}
