//! Small random instances.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_optical::{Flow, Job, Network, Unit, UnitId, Way, quick_bound};

/// How large and how hard a random instance is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) units: usize,
    pub(crate) jobs: usize,
    pub(crate) ports: u32,
    pub(crate) inc: u32,
    /// Workers of a job: a power of 2 up to 2 to this.
    pub(crate) doublings: u32,
    /// Servers in a unit that workers of one job can use.
    pub(crate) servers: u32,
    /// Slots over which jobs arrive.
    pub(crate) arrivals: usize,
    /// Data of a worker, as slots of a port's rate.
    pub(crate) data: (f64, f64),
}

/// Eight units with 24 ports and 4 aggregators each, and jobs of up to 16 workers, as in §VII.C. The data is
/// scaled so that CT-BTI is in the range of table I.
pub(crate) fn table_i(jobs: usize) -> Shape {
    Shape {
        units: 8,
        jobs,
        ports: 24,
        inc: 4,
        doublings: 4,
        servers: 12,
        arrivals: 3,
        data: (0.8, 4.4),
    }
}

/// A random network and random jobs, with the ways of §IV.
pub(crate) fn instance(shape: Shape, seed: u64) -> (Network, Vec<Job>) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let network = Network {
        units: vec![
            Unit { ports: shape.ports, inc: shape.inc, bandwidth: 128.0 * 40e9 };
            shape.units
        ],
        port_rate: 40e9,
        reconfiguration: 0.02,
        slot: 1.0,
    };
    let jobs = (0..shape.jobs).map(|id| job(shape, &mut random, id as u32));
    // A job that needs more ports than its units have is impossible.
    let possible = |job: &Job| quick_bound(&network, std::slice::from_ref(job)).is_ok();
    let jobs = jobs.filter(possible).collect();
    (network, jobs)
}

fn job(shape: Shape, random: &mut ChaCha8Rng, id: u32) -> Job {
    let mut left = 1 << random.random_range(1..=shape.doublings);
    let mut workers = vec![0; shape.units];
    while left > 0 {
        // As many workers as possible in one unit.
        let unit = random.random_range(0..shape.units);
        let more =
            left.min(random.random_range(1..=shape.servers)).min(shape.servers - workers[unit]);
        workers[unit] += more;
        left -= more;
    }
    let server = random.random_range(0..shape.units);
    let bits = random.random_range(shape.data.0..=shape.data.1) * 40e9;
    let update = random.random_range(0.1..0.9);
    let total: u32 = workers.iter().sum();
    let way = |inc: Option<usize>| {
        let whole = inc.is_some_and(|unit| workers[unit] == total);
        let mut load: Vec<f64> = workers.iter().map(|&count| f64::from(count)).collect();
        let mut flows = Vec::new();
        for unit in (0..shape.units).filter(|&unit| workers[unit] > 0) {
            let weight = if inc == Some(unit) && !whole { 1.0 } else { f64::from(workers[unit]) };
            let to = if whole { unit } else { server };
            flows.push(Flow { from: UnitId(unit), to: UnitId(to), weight });
            if to != unit || inc.is_none() {
                load[to] += weight;
            }
        }
        let update = if whole { 0.0 } else { update };
        Way { inc: inc.map(UnitId), flows, load, update }
    };
    let with_workers = (0..shape.units).filter(|&unit| workers[unit] > 0).map(Some);
    let ways = std::iter::once(None).chain(with_workers).map(way).collect();
    Job { id, arrival: random.random_range(0..=shape.arrivals), bits, ways }
}
