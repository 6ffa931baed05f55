//! Not in the paper: what of NetPack's advantage depends on where parameter servers go, on jobs that
//! take turns, and on parameters that the paper leaves open. All on its testbed.

use tributary_cluster::Shape;
use tributary_cluster::placement::NAMES;
use tributary_cluster::simulate::Options;
use tributary_cluster::trace::Demand;

use super::testbed::{Testbed, Timing, cluster, with_packets};
use super::{completion, demands, point};
use crate::figures::page::Figure;
use crate::figures::runs::RunError;
use crate::figures::sweep::{Experiment, Point};

/// Each policy with both rules for parameter servers, its own first. The columns of the others are
/// relative to the first policy.
const RULES: [&str; 16] = [
    "netpack",
    "netpack:apart",
    "netpack+",
    "netpack+:shared",
    "gpu-balance",
    "gpu-balance:shared",
    "flow-balance",
    "flow-balance:shared",
    "least-fragmentation",
    "least-fragmentation:shared",
    "optimus",
    "optimus:apart",
    "tetris",
    "tetris:shared",
    "comb",
    "comb:shared",
];

/// Policies of the sweeps: each with its own rule, and NetPack with the other.
fn swept() -> Vec<&'static str> {
    let mut policies = NAMES.to_vec();
    policies.insert(1, "netpack:apart");
    policies
}

/// One sweep: the points, and what they are.
struct Sweep {
    id: &'static str,
    title: &'static str,
    note: &'static str,
    policies: Vec<&'static str>,
    points: Vec<Point>,
}

/// The figures, with the sums of the testbed timed as everywhere on it.
pub(super) fn figures(
    experiment: &Experiment<'_>,
    testbed: Testbed,
) -> Result<Vec<Figure>, RunError> {
    let experiment = experiment.repeated(testbed.seeds);
    let mut sweeps = [
        Sweep {
            id: "netpack-servers",
            title: "Completion time by where the parameter server may go",
            note: "`apart`: never beside a worker of its job, unless all servers have one. `shared`: on the best \
                   server by the policy's own criteria. The paper states neither for the baselines; theirs here are \
                   apart, except Optimus, and NetPack's equation 1 decides. `netpack+` is ours: NetPack with flows \
                   counted by the part of the time for which jobs send, and parameter servers apart.",
            policies: RULES.to_vec(),
            points: with(testbed, &["real", "Poisson", "normal"], |point, at| {
                point.workload.demand = demands(2.0)[at].1;
            }),
        },
        Sweep {
            id: "netpack-arrivals",
            title: "Completion time on the testbed by load",
            note: "The load is that of the first column; Poisson demand.",
            policies: swept(),
            points: with(testbed, &["0.3", "0.5", "0.7", "0.9"], |point, at| {
                point.workload.load = Some([0.3, 0.5, 0.7, 0.9][at]);
            }),
        },
        Sweep {
            id: "netpack-demands",
            title: "Completion time on the testbed by the jobs' demand",
            note: "Mean of a Poisson demand; servers have two GPUs.",
            policies: swept(),
            points: with(testbed, &["2 GPUs", "3 GPUs", "4 GPUs", "6 GPUs"], |point, at| {
                point.workload.demand = Some(Demand::Poisson { mean: [2.0, 3.0, 4.0, 6.0][at] });
            }),
        },
        Sweep {
            id: "netpack-computing",
            title: "Completion time on the testbed by the time that jobs compute",
            note: "Factor on the computing time of an iteration; gradients stay, so that a small factor means much \
                   communication; Poisson demand.",
            policies: swept(),
            points: with(testbed, &["× 0.25", "× 0.5", "× 1", "× 2", "× 4"], |point, at| {
                point.workload.compute = [0.25, 0.5, 1.0, 2.0, 4.0][at];
            }),
        },
    ];
    if testbed.timing == Timing::Packets {
        with_packets(sweeps.iter_mut().flat_map(|sweep| &mut sweep.points))?;
    }
    let figure = |Sweep { id, title, note, policies, points }: &Sweep| {
        let results = experiment.run(points, policies, Options::default())?;
        let paper =
            "Paper: NetPack takes 13 to 45 % less than the others on its testbed.".to_owned();
        Ok(completion(id, title, &results, &[paper, (*note).to_owned(), testbed.about()]))
    };
    sweeps.iter().map(figure).collect()
}

/// Points of the testbed with plenty of memory and Poisson demand, each changed by `change`.
fn with(testbed: Testbed, labels: &[&str], change: impl Fn(&mut Point, usize)) -> Vec<Point> {
    let usual = point("", cluster(Shape::default().pat_gbps), testbed.jobs, demands(2.0)[1].1);
    let changed = labels.iter().enumerate().map(|(at, label)| {
        let mut point = usual.clone();
        point.label = (*label).to_owned();
        change(&mut point, at);
        point
    });
    changed.collect()
}
