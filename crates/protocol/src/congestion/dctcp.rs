//! A window that shrinks in proportion to congestion (DCTCP, RFC 8257).

use tributary_wire::Sequence;

use super::{Aimd, Controller};

/// Gain of the congestion estimate (RFC 8257 §4.2).
const GAIN: f64 = 1.0 / 16.0;

/// Share of marked results above which a loss indicates congestion.
const MOST: f64 = 0.5;

/// Like [`Aimd`], except for congestion marks: the marks of a whole window count together, and the
/// window shrinks by half of their smoothed share. A burst of resends that marks a few packets
/// therefore costs a few packets of window, whereas halving would treat it like lasting congestion.
///
/// A loss, except in ESA, halves the window only if most results of the last window are marked. A queue marks long
/// before it overflows, so all that passes an overflowing queue is marked. A long time to a result is no
/// sign of congestion: it also grows when hosts or switches wait for a processor.
#[derive(Clone, Debug)]
pub struct Dctcp {
    aimd: Aimd,
    /// Results in the current window of data, and the number of marked ones.
    results: u32,
    marked: u32,
    /// Share of marked results in the last window of data.
    share: f64,
    /// Smoothed share of marked results.
    congestion: f64,
}

impl Dctcp {
    /// Takes over the window of an [`Aimd`] controller.
    pub fn new(aimd: Aimd) -> Self {
        Self { aimd, results: 0, marked: 0, share: 0.0, congestion: 0.0 }
    }

    fn count(&mut self, marked: bool) {
        self.results += 1;
        self.marked += u32::from(marked);
        if self.results < self.aimd.window() {
            return;
        }
        self.share = f64::from(self.marked) / f64::from(self.results);
        self.congestion += GAIN * (self.share - self.congestion);
        if self.marked > 0 {
            self.aimd.shrink_to(f64::from(self.aimd.window()) * (1.0 - self.congestion / 2.0));
        }
        self.results = 0;
        self.marked = 0;
    }
}

impl Controller for Dctcp {
    fn window(&self) -> u32 {
        self.aimd.window()
    }

    fn on_result(&mut self) {
        self.aimd.on_result();
        self.count(false);
    }

    fn on_mark(&mut self, _sequence: Sequence, _next: Sequence) {
        self.count(true);
    }

    fn on_congestion(&mut self, sequence: Sequence, next: Sequence) {
        self.aimd.on_congestion(sequence, next);
    }

    fn on_loss(&mut self, sequence: Sequence, next: Sequence) {
        if self.share > MOST {
            self.on_congestion(sequence, next);
        }
    }

    fn limit(&mut self, window: u32) {
        self.aimd.limit(window);
    }

    fn boxed_clone(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_halves_only_if_most_results_are_marked() {
        let window = |marked: u32| {
            let mut dctcp = Dctcp::new(Aimd::new(100, 100));
            for at in 0..100 {
                if at < marked {
                    dctcp.on_mark(Sequence(0), Sequence(0));
                } else {
                    dctcp.on_result();
                }
            }
            let before = dctcp.window();
            dctcp.on_loss(Sequence(1), Sequence(100));
            dctcp.on_loss(Sequence(99), Sequence(120));
            (before, dctcp.window())
        };
        assert_eq!(window(0), (100, 100));
        assert_eq!(window(50), (98, 98));
        assert_eq!(window(51), (98, 49), "once per window of data");
    }

    #[test]
    fn lasting_congestion_halves_and_a_burst_hardly_matters() {
        let mut dctcp = Dctcp::new(Aimd::new(100, 100));
        for at in 0..100 {
            if at < 5 {
                dctcp.on_mark(Sequence(at), Sequence(100));
            } else {
                dctcp.on_result();
            }
        }
        assert_eq!(dctcp.window(), 99);
        let mut windows = vec![];
        for _ in 0..60 {
            let before = dctcp.window();
            for _ in 0..before {
                dctcp.on_mark(Sequence(0), Sequence(0));
            }
            windows.push(f64::from(dctcp.window()) / f64::from(before));
        }
        assert!(windows[0] > 0.9 && windows.contains(&0.5), "{windows:?}");
        assert_eq!(dctcp.window(), 1);
    }
}
