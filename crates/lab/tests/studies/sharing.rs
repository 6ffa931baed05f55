//! The shares of a switch's memory and links that ATP gives jobs, compared with the estimates of
//! NetPack's algorithm 1 (its figures 14 and 15).

use std::time::Duration;

use tributary_lab::studies::sharing::{Rack, Sample, Share};

const MS: Duration = Duration::from_millis(1);

fn last(samples: &[Sample]) -> &[Share] {
    &samples.last().expect("a sample").shares
}

/// Figure 14a: the switch sums a fraction of one job equal to its memory relative to the packets in
/// flight: y = x.
#[test]
fn one_job_gets_the_memory() {
    for pat_ratio in [0.25, 0.5, 0.75, 1.0, 1.5] {
        let samples = Rack::figure_14(1, pat_ratio, 10.0).samples(MS, 3 * MS).unwrap();
        let [share] = last(&samples) else { panic!("one job") };
        assert!((share.rate_gbps - 10.0).abs() < 0.1, "{share:?}");
        let expected = pat_ratio.min(1.0);
        assert!((share.ratio() - expected).abs() < 0.05, "{pat_ratio}: {share:?}");
    }
}

/// Figure 14b: two jobs share it evenly: y = 0.5 x each.
#[test]
fn two_jobs_share_the_memory() {
    for pat_ratio in [0.25, 0.5, 1.0] {
        let samples = Rack::figure_14(2, pat_ratio, 10.0).samples(MS, 2 * MS).unwrap();
        for share in last(&samples) {
            // A sample may lack part of a window at each end.
            assert!((share.rate_gbps - 10.0).abs() < 0.15, "{share:?}");
            assert!((share.ratio() - pat_ratio / 2.0).abs() < 0.05, "{pat_ratio}: {share:?}");
        }
    }
}

/// Figure 15, with memory for all: jobs that arrive and leave share a link as algorithm 1
/// estimates. Right after a change, the earlier jobs have not yet given up all of their share.
#[test]
fn jobs_share_a_link_as_estimated() {
    let rack = Rack::figure_15();
    let samples = rack.samples(MS / 2, 8 * MS).unwrap();
    let running = rack.running(&samples);
    let mut compared = 0;
    for (index, (sample, runs)) in samples.iter().zip(&running).enumerate() {
        let Some(runs) = runs else { continue };
        let settled = index > 0 && running[index - 1].as_ref() == Some(runs);
        let tolerance = if settled { 0.08 } else { 0.25 };
        for (share, estimate) in sample.shares.iter().zip(rack.estimate(runs)) {
            let off = (share.rate_gbps - estimate.rate_gbps).abs();
            assert!(off <= tolerance * estimate.rate_gbps, "{sample:?}: {estimate:?}");
        }
        compared += runs.iter().filter(|runs| **runs).count();
    }
    assert!(compared > 12, "only {compared} rates were compared");
}

/// With scarce memory, the summed fractions are as estimated and the jobs are equal. But no job is
/// faster than estimated, and the link is not full: bursts of packets that the switch could not sum
/// are marked, and windows are halved.
#[test]
fn without_memory_the_estimate_is_an_upper_bound() {
    for pool in [16, 32] {
        let rack = Rack::short_of_memory(pool);
        let samples = rack.samples(MS, 3 * MS).unwrap();
        let [one, other] = last(&samples) else { panic!("two jobs") };
        assert!((one.rate_gbps / other.rate_gbps - 1.0).abs() < 0.1, "{one:?} {other:?}");
        for (share, estimate) in [one, other].into_iter().zip(rack.estimate(&[true; 2])) {
            assert!((share.ratio() - estimate.ratio).abs() < 0.1, "{share:?}: {estimate:?}");
            let part = share.rate_gbps / estimate.rate_gbps;
            assert!((0.65..1.0).contains(&part), "{share:?}: {estimate:?}");
        }
    }
}
