//! NetPack's figures 14 and 15: the shares that ATP's P4 program gives jobs, packet by packet in
//! virtual time, with the estimates of algorithm 1.

use std::time::Duration;

use anyhow::{Context, Result};
use tributary_cluster::metrics::Spread;
use tributary_lab::figures::netpack::{Deviation, Evidence};
use tributary_lab::figures::{Cell, Chart, Figure, Line, Marks, Scale, Table};
use tributary_lab::studies::sharing::Rack;

const MS: Duration = Duration::from_millis(1);

/// The switch's memory relative to what one job has in flight.
const PAT_RATIOS: [f64; 9] = [0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0];

/// §6.4: throughput of a job.
const RATE_GBPS: f64 = 10.0;

/// Figures 14 and 15, whose deviations become evidence.
pub(super) fn figures(evidence: &mut Evidence) -> Result<Vec<Figure>> {
    Ok(vec![ratios(&mut evidence.memory)?, timeline(&mut evidence.bandwidth)?])
}

fn ratios(deviations: &mut Vec<Deviation>) -> Result<Figure> {
    let mut table =
        Table::new(["jobs", "PAT ratio", "estimate", "measured, each job", "measured - estimate"]);
    let mut lines: Vec<Line> = Vec::new();
    for jobs in [1_u32, 2] {
        let (mut estimates, mut measurements) = (Vec::new(), Vec::new());
        for pat_ratio in PAT_RATIOS {
            let samples = Rack::figure_14(jobs, pat_ratio, RATE_GBPS).samples(MS, 4 * MS)?;
            let last = samples.last().context("nothing was measured")?;
            let ratios: Vec<f64> = last.shares.iter().map(|share| share.ratio()).collect();
            let measured = Spread::of(&ratios);
            let estimate = (pat_ratio / f64::from(jobs)).min(1.0);
            for ratio in &ratios {
                let at = format!("jobs: {jobs}, memory: {pat_ratio}");
                deviations.push(Deviation { at, by: (ratio - estimate).abs() });
            }
            let each: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.3}")).collect();
            table.push(vec![
                Cell::Number(f64::from(jobs), 0),
                Cell::Number(pat_ratio, 1),
                Cell::Number(estimate, 3),
                Cell::text(each.join(" ")),
                Cell::Number(measured.mean - estimate, 3),
            ]);
            estimates.push((pat_ratio, Some(Spread::of(&[estimate]))));
            measurements.push((pat_ratio, Some(measured)));
        }
        let name = if jobs == 1 { "one job" } else { "two jobs" };
        lines.push((format!("{name}, estimate"), estimates));
        lines.push((format!("{name}, measured"), measurements));
    }
    Ok(Figure {
        id: "netpack-14".to_owned(),
        title: "NetPack figure 14: what the switch sums of a job, by its memory".to_owned(),
        notes: vec![
            "Paper: close to y = x for one job, and to y = 0.5 x for two, with a little more than that since \
             jobs that compute in between take turns."
                .to_owned(),
            format!(
                "Two workers and a parameter server a job, {RATE_GBPS} Gb/s; `atp.p4` on the embedded switch in \
                 virtual time, the fourth millisecond. Our jobs do not compute in between."
            ),
        ],
        table,
        charts: vec![chart(
            "Part of its packets that the switch sums",
            "part",
            "memory over what one job has under way",
            lines,
        )],
    })
}

fn timeline(deviations: &mut Vec<Deviation>) -> Result<Figure> {
    let rack = Rack::figure_15();
    let samples = rack.samples(MS / 2, 8 * MS)?;
    let mut table = Table::new(["time, ms", "job", "estimate, Gb/s", "measured, Gb/s"]);
    let jobs = rack.senders.len();
    let mut measured: Vec<Line> =
        (0..jobs).map(|job| (format!("job {job}, measured"), Vec::new())).collect();
    let mut expected: Vec<Line> =
        (0..jobs).map(|job| (format!("job {job}, estimate"), Vec::new())).collect();
    let running = rack.running(&samples);
    for (at, (sample, now)) in samples.iter().zip(&running).enumerate() {
        let ms = sample.until.as_secs_f64() * 1e3;
        // While a job starts or ends there is no single state to estimate.
        let estimates = now.as_ref().map(|running| rack.estimate(running));
        // For a millisecond before this span, and in it.
        let settled = at >= 2 && running[at - 2..at].iter().all(|before| before == now);
        for (job, share) in sample.shares.iter().enumerate() {
            let estimate = estimates.as_ref().map(|all| all[job].rate_gbps);
            if let Some(rate) = estimate.filter(|&rate| settled && rate > 0.0) {
                let at = format!("job {job}, {ms} ms");
                deviations.push(Deviation { at, by: (share.rate_gbps / rate - 1.0).abs() });
            }
            table.push(vec![
                Cell::Number(ms, 1),
                Cell::Number(job as f64, 0),
                estimate.map_or(Cell::None, |rate| Cell::Number(rate, 2)),
                Cell::Number(share.rate_gbps, 2),
            ]);
            measured[job].1.push((ms, Some(Spread::of(&[share.rate_gbps]))));
            expected[job].1.push((ms, estimate.map(|rate| Spread::of(&[rate]))));
        }
    }
    measured.extend(expected);
    Ok(Figure {
        id: "netpack-15".to_owned(),
        title: "NetPack figure 15: bandwidth, measured against the estimate".to_owned(),
        notes: vec![
            "Paper: the estimate is about what the testbed uses, which takes a little time to follow.".to_owned(),
            "Jobs that come one after the other and go in the opposite order, their parameter servers on one \
             host, memory for all. Where memory is short, ATP reaches less than the estimate: see \
             docs/evaluation/steady-state.md."
                .to_owned(),
        ],
        table,
        charts: vec![chart("Bandwidth of each job", "Gb/s", "time, ms", measured)],
    })
}

fn chart(title: &str, y: &str, x: &str, lines: Vec<Line>) -> Chart {
    let scales = [Scale::Linear, Scale::Linear];
    let marks = Marks::Lines { x: x.to_owned(), scales, lines };
    Chart { title: title.to_owned(), y: y.to_owned(), marks }
}
