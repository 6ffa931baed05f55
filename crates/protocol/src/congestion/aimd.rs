//! Additive increase, multiplicative decrease.

use tributary_wire::Sequence;

use super::Controller;

/// ATP's controller. Below a threshold it opens the window by one packet per result (slow start),
/// above it by one packet per window of results. On a congestion mark or a loss it halves window
/// and threshold, at most once per window of data. The threshold starts at the upper bound.
///
/// P4INC uses the same controller, with a threshold that starts at the number of the job's
/// aggregators (P4INC-AOI §VI.B): beyond it packets may be returned.
#[derive(Clone, Debug)]
pub struct Aimd {
    window: u32,
    max: u32,
    threshold: u32,
    /// Results since the last growth of the window.
    results: u32,
    /// Congestion of fragments below this sequence has been accounted for.
    answered: Sequence,
}

impl Aimd {
    /// Starts at `initial` packets and stays between 1 and `max`.
    pub fn new(initial: u32, max: u32) -> Self {
        let max = max.max(1);
        Self {
            window: initial.clamp(1, max),
            max,
            threshold: max,
            results: 0,
            answered: Sequence(0),
        }
    }
}

impl Aimd {
    /// The same controller with another initial threshold, at least one.
    #[must_use]
    pub fn with_threshold(self, threshold: u32) -> Self {
        Self { threshold: threshold.max(1), ..self }
    }

    /// Shrinks the window and ends slow start.
    pub(super) fn shrink_to(&mut self, window: f64) {
        self.window = (window as u32).clamp(1, self.max);
        self.threshold = self.window;
        self.results = 0;
    }
}

impl Controller for Aimd {
    fn window(&self) -> u32 {
        self.window
    }

    fn on_result(&mut self) {
        self.results += 1;
        if self.window < self.threshold || self.results >= self.window {
            self.window = (self.window + 1).min(self.max);
            self.results = 0;
        }
    }

    fn on_congestion(&mut self, sequence: Sequence, next: Sequence) {
        if sequence < self.answered {
            return;
        }
        self.answered = next;
        self.shrink_to(f64::from(self.window / 2));
    }

    fn limit(&mut self, window: u32) {
        self.window = self.window.min(window.max(1));
    }

    fn boxed_clone(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_by_one_per_result_then_by_one_per_window() {
        let mut aimd = Aimd::new(8, 100);
        for expected in 9..=20 {
            aimd.on_result();
            assert_eq!(aimd.window(), expected);
        }
        aimd.on_congestion(Sequence(3), Sequence(20));
        assert_eq!(aimd.window(), 10);
        for _ in 0..9 {
            aimd.on_result();
        }
        assert_eq!(aimd.window(), 10);
        aimd.on_result();
        assert_eq!(aimd.window(), 11);
    }

    #[test]
    fn opens_slowly_from_the_threshold_on() {
        let mut aimd = Aimd::new(6, 100).with_threshold(8);
        let windows: Vec<u32> = std::iter::repeat_with(|| {
            aimd.on_result();
            aimd.window()
        })
        .take(11)
        .collect();
        assert_eq!(windows, [7, 8, 8, 8, 8, 8, 8, 8, 8, 9, 9]);
    }

    #[test]
    fn halves_once_per_window_of_data() {
        let mut aimd = Aimd::new(64, 64);
        for sequence in 0..64 {
            aimd.on_congestion(Sequence(sequence), Sequence(64));
        }
        assert_eq!(aimd.window(), 32);
        aimd.on_congestion(Sequence(64), Sequence(96));
        assert_eq!(aimd.window(), 16);
    }

    #[test]
    fn stays_within_bounds() {
        let mut aimd = Aimd::new(0, 4);
        assert_eq!(aimd.window(), 1);
        for _ in 0..100 {
            aimd.on_result();
        }
        assert_eq!(aimd.window(), 4);
        for s in 0..100 {
            aimd.on_congestion(Sequence(s), Sequence(s));
            assert!(aimd.window() >= 1);
        }
        assert_eq!(Aimd::new(1000, 4).window(), 4);
    }
}
