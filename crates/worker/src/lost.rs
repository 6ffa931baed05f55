//! The time that a worker lost to repairs and at the end of its job, in words.

use std::fmt;
use std::time::Duration;

use tributary_protocol::Waits;
use tributary_protocol::worker::Delays;

/// Seconds, and share of a worker's time, above which a loss is worth a line. A farewell without losses takes
/// a round trip.
const NOTABLE: (f64, f64) = (0.01, 0.01);

/// Seconds, and share of a worker's time, above which a loss is worth a warning.
const MUCH: (f64, f64) = (1.0, 0.1);

/// Share of the lost time above which a kind of wait is named.
const NAMED: f64 = 0.01;

/// The time that a worker lost to repairs and at the end of its job. `Display` writes where it went.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// Seconds without results until those of repaired fragments, and from the last result to the dismissal (ESA).
    pub seconds: f64,
    /// The time that `seconds` is a part of: with fragments in flight, and from the last result to the dismissal.
    pub of_seconds: f64,
    delays: Delays,
    lanes: f64,
}

impl Lost {
    /// From the counters of a worker with so many lanes, which wait at the same time: times are their means.
    #[must_use]
    pub fn new(delays: Delays, lanes: usize) -> Self {
        let lanes = lanes.max(1) as f64;
        let mean = |time: Duration| time.as_secs_f64() / lanes;
        Self {
            seconds: mean(delays.repairs() + delays.farewell()),
            of_seconds: mean(delays.in_flight + delays.farewell()),
            delays,
            lanes,
        }
    }

    /// Whether it is worth a line: more than 10 ms, and more than one per cent of the worker's time.
    #[must_use]
    pub fn is_notable(&self) -> bool {
        self.exceeds(NOTABLE)
    }

    /// Whether it is worth a warning: more than a second, and more than a tenth of the worker's time.
    #[must_use]
    pub fn is_much(&self) -> bool {
        self.exceeds(MUCH)
    }

    fn exceeds(&self, (seconds, share): (f64, f64)) -> bool {
        self.seconds > seconds && self.seconds > share * self.of_seconds
    }

    /// Whether most of it was spent on messages over TCP, or on packets that only these cause.
    #[must_use]
    pub fn is_over_tcp(&self) -> bool {
        let Delays { reminded, delivered, dismissed_by_agent, .. } = self.delays;
        let over_tcp = reminded.total + delivered.total + dismissed_by_agent.total;
        2.0 * over_tcp.as_secs_f64() / self.lanes > self.seconds
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, of_seconds, delays, lanes } = *self;
        let Delays { resent, reminded, delivered, dismissed, dismissed_by_agent, .. } = delays;
        let mut parts = [
            (resent, "for fragments that it sent again"),
            (reminded, "for fragments of which it reminded the agent over TCP"),
            (delivered, "for results over TCP"),
            (dismissed, "for the end of the job, in packets"),
            (dismissed_by_agent, "for the end of the job, over TCP"),
        ];
        parts.sort_by_key(|(waits, _)| std::cmp::Reverse(waits.total));
        write!(f, "lost {} of {}", time(seconds), time(of_seconds))?;
        let mut mark = ":";
        for (Waits { count, total, longest }, what) in parts {
            let total = total.as_secs_f64() / lanes;
            if total > 0.0 && total > NAMED * seconds {
                let times = if count == 1 { "wait" } else { "waits" };
                let longest = time(longest.as_secs_f64());
                write!(f, "{mark} {} {what} ({count} {times}, at most {longest})", time(total))?;
                mark = ",";
            }
        }
        Ok(())
    }
}

/// Seconds in a suitable unit.
#[must_use]
pub fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds >= 0.9995 => format!("{seconds:.2} s"),
        _ if seconds >= 0.000_999_5 => format!("{:.1} ms", 1e3 * seconds),
        _ => format!("{:.1} µs", 1e6 * seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(all: &[u64]) -> Waits {
        let mut waits = Waits::default();
        all.iter().for_each(|ms| waits.add(Duration::from_millis(*ms)));
        waits
    }

    #[test]
    fn the_longest_part_comes_first_and_parts_of_no_weight_are_left_out() {
        let delays = Delays {
            in_flight: Duration::from_millis(3000),
            resent: waits(&[1]),
            reminded: waits(&[200]),
            delivered: waits(&[700, 900]),
            dismissed_by_agent: waits(&[1000]),
            ..Delays::default()
        };
        let lost = Lost::new(delays, 1);
        assert_eq!(
            lost.to_string(),
            "lost 2.80 s of 4.00 s: 1.60 s for results over TCP (2 waits, at most 900.0 ms), 1.00 s for the end \
             of the job, over TCP (1 wait, at most 1.00 s), 200.0 ms for fragments of which \
             it reminded the agent over TCP (1 wait, at most 200.0 ms)"
        );
        assert!(lost.is_much() && lost.is_over_tcp());
    }

    #[test]
    fn a_line_and_a_warning_have_thresholds() {
        let lost = |ms: u64, of: u64| {
            let in_flight = Duration::from_millis(of);
            let lost =
                Lost::new(Delays { in_flight, resent: waits(&[ms]), ..Delays::default() }, 1);
            (lost.is_notable(), lost.is_much(), lost.is_over_tcp())
        };
        assert_eq!(lost(0, 0), (false, false, false));
        assert_eq!(lost(9, 10), (false, false, false));
        assert_eq!(lost(11, 1200), (false, false, false));
        assert_eq!(lost(11, 1000), (true, false, false));
        assert_eq!(lost(900, 1000), (true, false, false));
        assert_eq!(lost(1100, 12_000), (true, false, false));
        assert_eq!(lost(1100, 10_000), (true, true, false));
    }

    #[test]
    fn lanes_wait_at_the_same_time() {
        let in_flight = Duration::from_millis(8000);
        let delays = Delays { in_flight, resent: waits(&[1200, 1400]), ..Delays::default() };
        let lost = Lost::new(delays, 2);
        assert_eq!((lost.seconds, lost.of_seconds), (1.3, 4.0));
        assert!(lost.to_string().contains(": 1.30 s for fragments"), "{lost}");
    }
}
