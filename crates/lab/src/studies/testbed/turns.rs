//! Jobs that compute and send in turns, each in its own rhythm.
//!
//! The set of sending jobs, and with it their rates, changes many times per second. Jobs of one
//! rhythm keep their initial offset, so several starts are simulated.

/// Number of simulated starts, with rhythms shifted against each other.
const STARTS: u32 = 6;

/// Simulated iterations of the slowest job per start, after the first.
const ITERATIONS: u32 = 40;

/// Changes after which a start is abandoned, as for a job next to much faster ones.
const CHANGES: u32 = 20_000;

/// Multiples of the golden ratio are evenly distributed modulo 1, whatever their number.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// A job's rhythm.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Rhythm {
    /// Computing time before each sum.
    pub(super) compute_s: f64,
    /// Time of a sum on a link of its own.
    pub(super) alone_s: f64,
}

/// The state of a job in its rhythm.
#[derive(Clone, Copy, Debug)]
struct Turn {
    rhythm: Rhythm,
    sending: bool,
    /// Remaining seconds of computing, or of the sum on a link of its own.
    left_s: f64,
    since_s: f64,
    sums: u32,
    /// Number and duration of sums after the first.
    counted: u32,
    sum_s: f64,
}

/// Mean time of each job's sums while all run. `rates` returns each sending job's share of a link.
pub(super) fn sums_s<E>(
    rhythms: &[Rhythm],
    mut rates: impl FnMut(&[usize]) -> Result<Vec<f64>, E>,
) -> Result<Vec<f64>, E> {
    let mut means = vec![(0.0, 0); rhythms.len()];
    let starts = if rhythms.len() == 1 { 1 } else { STARTS };
    for start in 0..starts {
        for (mean, turn) in means.iter_mut().zip(play(rhythms, start, &mut rates)?) {
            mean.0 += turn.sum_s;
            mean.1 += turn.counted;
        }
    }
    let mean = |(sum_s, count)| if count == 0 { f64::INFINITY } else { sum_s / f64::from(count) };
    Ok(means.into_iter().map(mean).collect())
}

fn play<E>(
    rhythms: &[Rhythm],
    start: u32,
    rates: &mut impl FnMut(&[usize]) -> Result<Vec<f64>, E>,
) -> Result<Vec<Turn>, E> {
    let mut turns: Vec<Turn> = rhythms
        .iter()
        .zip(1_u32..)
        .map(|(rhythm, job)| {
            let offset = (f64::from(job * (start + 1)) * GOLDEN).fract();
            rhythm.begun(offset)
        })
        .collect();
    let mut now_s = 0.0;
    for _ in 0..CHANGES {
        let senders: Vec<usize> = (0..turns.len()).filter(|&at| turns[at].sending).collect();
        let mut paces = vec![1.0; turns.len()];
        if !senders.is_empty() {
            for (&at, rate) in senders.iter().zip(rates(&senders)?) {
                paces[at] = rate;
            }
        }
        let ends = turns.iter().zip(&paces).map(|(turn, pace)| turn.left_s / pace);
        let (next, step_s) = ends
            .enumerate()
            .min_by(|(_, a), (_, b)| a.total_cmp(b))
            .expect("at least one job runs");
        if !step_s.is_finite() {
            break;
        }
        now_s += step_s;
        for (turn, pace) in turns.iter_mut().zip(&paces) {
            turn.left_s = (turn.left_s - step_s * pace).max(0.0);
        }
        turns[next].change(now_s);
        if turns.iter().all(|turn| turn.counted >= ITERATIONS) {
            break;
        }
    }
    Ok(turns)
}

impl Rhythm {
    /// Starts at some point of the first computing phase.
    fn begun(self, offset: f64) -> Turn {
        let left_s = offset * (self.compute_s + self.alone_s);
        Turn { rhythm: self, sending: false, left_s, since_s: 0.0, sums: 0, counted: 0, sum_s: 0.0 }
    }
}

impl Turn {
    /// Changes from computing to sending, or back.
    fn change(&mut self, now_s: f64) {
        if self.sending {
            self.sums += 1;
            if self.sums > 1 {
                self.counted += 1;
                self.sum_s += now_s - self.since_s;
            }
        }
        self.sending = !self.sending;
        self.since_s = now_s;
        self.left_s = if self.sending { self.rhythm.alone_s } else { self.rhythm.compute_s };
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn played(rhythms: &[(f64, f64)]) -> Vec<f64> {
        let rhythms: Vec<Rhythm> =
            rhythms.iter().map(|&(compute_s, alone_s)| Rhythm { compute_s, alone_s }).collect();
        let fair = |senders: &[usize]| {
            Ok::<_, Infallible>(vec![1.0 / senders.len() as f64; senders.len()])
        };
        let Ok(sums_s) = sums_s(&rhythms, fair);
        sums_s
    }

    #[test]
    fn a_single_job_gets_the_whole_link() {
        let [sum_s] = played(&[(3.0, 1.0)])[..] else { panic!() };
        assert!((sum_s - 1.0).abs() < 1e-9, "{sum_s}");
        let half = |_: &[usize]| Ok::<_, Infallible>(vec![0.5]);
        let Ok(slow) = sums_s(&[Rhythm { compute_s: 3.0, alone_s: 1.0 }], half);
        assert!((slow[0] - 2.0).abs() < 1e-9, "{slow:?}");
    }

    #[test]
    fn jobs_that_always_send_share_and_jobs_that_compute_overlap_sometimes() {
        for sum_s in played(&[(1e-3, 1.0), (1e-3, 1.0)]) {
            assert!((1.9..2.0).contains(&sum_s), "{sum_s}");
        }
        // Each sends a quarter of the time, so about a quarter of a sum overlaps.
        for sum_s in played(&[(3.0, 1.0), (4.0, 1.0)]) {
            assert!((1.1..1.45).contains(&sum_s), "{sum_s}");
        }
    }

    #[test]
    fn a_job_without_bandwidth_never_ends_and_delays_no_other() {
        let rhythms = [Rhythm { compute_s: 1.0, alone_s: 1.0 }; 2];
        let rates = |senders: &[usize]| {
            Ok::<_, Infallible>(senders.iter().map(|&at| at as f64).collect::<Vec<_>>())
        };
        let Ok(sums_s) = sums_s(&rhythms, rates);
        assert_eq!(sums_s[0], f64::INFINITY);
        assert!((sums_s[1] - 1.0).abs() < 1e-9, "{sums_s:?}");
    }
}
