//! What jobs that send without a pause get of the links and of the switch's memory.

use tributary_cluster::metrics::Spread;
use tributary_protocol::Time;

use super::Error;
use super::bench::{Bench, Work};
use super::rig::{PACKET, Rig};
use super::shape::Sender;

/// Packets that a link carries between two looks at the rates: some dozen round trips, which is more than
/// windows take from one halving to the next.
const SPAN: u32 = 2_048;

/// Spans after which windows and aggregators have found their places.
const SETTLED: usize = 2;

/// Spans that are measured: at least, and at most.
const SPANS: [usize; 2] = [5, 24];

/// Part of the link by which the standard error of a rate may be off before it is measured for longer.
const PRECISION: f64 = 0.01;

/// What a job gets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Rate {
    /// What each of its workers sends, as part of a link.
    pub(super) part: f64,
    /// Standard error of that.
    pub(super) error: f64,
    /// The part of its packets that the switch sums.
    pub(super) summed: f64,
}

/// What was done to find rates.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) rates: Vec<Rate>,
    pub(super) hops: u64,
}

/// Has the senders send until their rates are known.
pub(super) fn measure(rig: &Rig, senders: &[Sender]) -> Result<Measured, Error> {
    let mut bench = Bench::new(rig)?;
    // Each always has more packets than its window lets out.
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
