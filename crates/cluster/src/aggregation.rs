//! A single job: the output of the switches of its hierarchy at a given rate (NetPack §4.1, table 1
//! and figure 5).
//!
//! This is the closed form. [`State::network`](crate::State::network) computes the rates of many
//! jobs.
//!
//! ```
//! use tributary_cluster::aggregation::{RackSwitch, single};
//!
//! // Figure 5: four racks with two workers each, the parameter server in the second.
//! let rack = |pat_gbps| RackSwitch { workers: 2, pat_gbps };
//! let slow = single(rack(20.0), &[rack(10.0), rack(30.0), rack(40.0)], 5.0);
//! assert_eq!((slow.fc, slow.fs), (3, 1));
//! let fast = single(rack(20.0), &[rack(10.0), rack(30.0), rack(40.0)], 50.0);
//! assert_eq!((fast.fc, fast.fs), (6, 8));
//! ```

/// A rack's switch with some of the job's workers below it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RackSwitch {
    /// Number of workers of the job in the rack.
    pub workers: u32,
    /// Peak aggregation throughput of the switch for the job, in Gb/s.
    pub pat_gbps: f64,
}

/// The output of a switch towards the parameter server.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Output {
    /// Number of flows.
    pub flows: u32,
    /// The aggregated part, in Gb/s.
    pub aggregated_gbps: f64,
    /// The unaggregated part, in Gb/s over all flows.
    pub unaggregated_gbps: f64,
}

impl Output {
    /// Table 1: the output for `arriving` flows of workers that send at `rate_gbps`.
    ///
    /// In the paper's text, a switch whose throughput equals the rate aggregates only a part. In
    /// the table it aggregates everything, as here.
    #[must_use]
    pub fn of(pat_gbps: f64, rate_gbps: f64, arriving: u32) -> Self {
        if pat_gbps >= rate_gbps {
            Self { flows: 1, aggregated_gbps: rate_gbps, unaggregated_gbps: 0.0 }
        } else {
            Self {
                flows: arriving,
                aggregated_gbps: pat_gbps,
                unaggregated_gbps: (rate_gbps - pat_gbps) * f64::from(arriving),
            }
        }
    }

    /// The total output, in Gb/s.
    #[must_use]
    pub fn gbps(&self) -> f64 {
        self.aggregated_gbps + self.unaggregated_gbps
    }
}

/// The traffic of a job at the switches of its hierarchy.
#[derive(Clone, PartialEq, Debug)]
pub struct Single {
    /// The output of each rack other than the parameter server's.
    pub leaves: Vec<Output>,
    /// The output of the switch in the parameter server's rack, towards the parameter server.
    ///
    /// Table 1 counts all traffic that this switch does not aggregate once per arriving flow. If a
    /// rack below still aggregates some of it, less arrives.
    /// [`State::network`](crate::State::network) counts the traffic that arrives. The numbers of
    /// flows are the same.
    pub root: Output,
    /// Number of flows from other racks to the parameter server's rack.
    pub fc: u32,
    /// Number of flows on the parameter server's link.
    pub fs: u32,
}

/// A job with workers in the parameter server's rack (`root`) and in other racks (`leaves`), which
/// send at `rate_gbps`.
#[must_use]
pub fn single(root: RackSwitch, leaves: &[RackSwitch], rate_gbps: f64) -> Single {
    let output = |switch: &RackSwitch| Output::of(switch.pat_gbps, rate_gbps, switch.workers);
    let leaves: Vec<_> = leaves.iter().map(output).collect();
    let fc = leaves.iter().map(|leaf| leaf.flows).sum();
    let root = Output::of(root.pat_gbps, rate_gbps, root.workers + fc);
    Single { fc, fs: root.flows, leaves, root }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rack(pat_gbps: f64) -> RackSwitch {
        RackSwitch { workers: 2, pat_gbps }
    }

    /// Figure 5b, from left to right: just below, at and just above each switch's throughput.
    #[test]
    fn figure_5b() {
        let at = |rate_gbps| {
            let single = single(rack(20.0), &[rack(10.0), rack(30.0), rack(40.0)], rate_gbps);
            (single.fc, single.fs)
        };
        assert_eq!([9.9, 10.0].map(at), [(3, 1); 2]);
        assert_eq!([10.1, 20.0].map(at), [(4, 1); 2]);
        assert_eq!([20.1, 30.0].map(at), [(4, 6); 2]);
        assert_eq!([30.1, 40.0].map(at), [(5, 7); 2]);
        assert_eq!([40.1, 1e6].map(at), [(6, 8); 2]);
    }

    /// Both columns of table 1, and the boundary between them.
    #[test]
    fn table_1() {
        let enough = Output { flows: 1, aggregated_gbps: 10.0, unaggregated_gbps: 0.0 };
        assert_eq!(Output::of(15.0, 10.0, 7), enough);
        assert_eq!(Output::of(10.0, 10.0, 7), enough);
        let scarce = Output { flows: 7, aggregated_gbps: 4.0, unaggregated_gbps: 42.0 };
        assert_eq!(Output::of(4.0, 10.0, 7), scarce);
        assert_eq!(scarce.gbps(), 46.0);
        let none = Output { flows: 7, aggregated_gbps: 0.0, unaggregated_gbps: 70.0 };
        assert_eq!(Output::of(0.0, 10.0, 7), none);
    }
}
