//! Shares of links and switch memory for jobs that send without a pause.

use tributary_cluster::metrics::Spread;
use tributary_protocol::Time;

use super::Error;
use super::bench::{Bench, Work};
use super::rig::{PACKET, Rig};
use super::shape::Sender;

/// Packets per link between two samples: some dozen round trips, which is more than the time
/// between two halvings of a window.
const SPAN: u32 = 2_048;

/// Spans until windows and aggregators are steady.
const SETTLED: usize = 2;

/// Minimum and maximum number of measured spans.
const SPANS: [usize; 2] = [5, 24];

/// Standard error of a rate, relative to the link's, above which measuring continues.
const PRECISION: f64 = 0.01;

/// The share of a job.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Rate {
    /// Rate of each of its workers, relative to the link's.
    pub(super) part: f64,
    /// Standard error of that rate.
    pub(super) error: f64,
    /// Fraction of its packets that the switch sums.
    pub(super) summed: f64,
}

/// The result of a measurement.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) rates: Vec<Rate>,
    pub(super) hops: u64,
}

/// Runs the senders until their rates are known.
pub(super) fn measure(rig: &Rig, senders: &[Sender]) -> Result<Measured, Error> {
    let mut bench = Bench::new(rig)?;
    // Each worker always has more packets than its window allows.
    let packets = rig.scenario.jobs[0].slots;
    let work = Work { compute: PACKET, packets, ahead: 3, iterations: u64::MAX };
    let ids: Vec<_> =
        senders.iter().map(|sender| bench.start(sender, work)).collect::<Result<_, _>>()?;
    let mut parts: Vec<Vec<f64>> = vec![Vec::new(); ids.len()];
    let mut before: Vec<(u64, u64)> = vec![(0, 0); ids.len()];
    let mut settled = before.clone();
    for span in 1.. {
        bench.run_until(Time::ZERO + PACKET * SPAN * span)?;
        let now: Vec<(u64, u64)> = ids.iter().map(|&id| bench.counts(id)).collect();
        let measured = (span as usize).saturating_sub(SETTLED);
        if measured == 0 {
            settled.clone_from(&now);
        } else {
            for ((parts, now), before) in parts.iter_mut().zip(&now).zip(&before) {
                parts.push((now.0 - before.0) as f64 / f64::from(SPAN));
            }
        }
        before = now;
        let known = || parts.iter().all(|parts| error(parts) <= PRECISION);
        if measured >= SPANS[1] || (measured >= SPANS[0] && known()) {
            break;
        }
    }
    let rates = parts.iter().zip(before.iter().zip(&settled)).map(|(parts, (last, first))| Rate {
        part: Spread::of(parts).mean,
        error: error(parts),
        summed: (last.1 - first.1) as f64 / (last.0 - first.0).max(1) as f64,
    });
    Ok(Measured { rates: rates.collect(), hops: bench.hops() })
}

/// Standard error of a mean.
fn error(values: &[f64]) -> f64 {
    Spread::of(values).deviation / (values.len() as f64).sqrt()
}
