//! The workloads of the evaluation (§VII.C).

use std::collections::VecDeque;

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::network::UNITS_MAX;
use crate::trace::{Shuffle, parts};
use crate::{Circuits, Error, Job, Network, Unit, UnitId};

/// Numbers of workers, each with the number of jobs in Philly's trace that request so many GPUs:
/// 5 530 of the trace's jobs (ATC 2019, column `num_gpus`).
pub const SIZES: [(u32, u32); 4] = [(2, 1_818), (4, 1_870), (8, 1_643), (16, 199)];

const MEGABYTE: f64 = 8e6;

/// The parameters of an experiment. The default is that of figures 8 to 12.
///
/// `docs/evaluation/p4inc-evaluation.md` lists which of these numbers are the paper's and which are ours.
#[derive(Clone, PartialEq, Debug)]
pub struct Setting {
    /// Number of units.
    pub units: usize,
    /// Servers in each unit. A server has one worker, until all servers have one.
    pub servers: u32,
    /// Optical ports of each unit.
    pub ports: u32,
    /// Bits per second of a port.
    pub port_rate: f64,
    /// Bits per second of a server, in each direction.
    pub server_rate: f64,
    /// Number of jobs that each switch can aggregate at once.
    pub inc: u32,
    /// Whether only jobs with all workers in one unit are aggregated (§VI.A).
    pub local_inc_only: bool,
    /// Whether a shuffle's mappers are in as few units as possible, and its reducers too, as the
    /// workers of training jobs; otherwise the trace's racks tell the units.
    pub packed: bool,
    /// Part of the training jobs whose workers are placed one by one, each in a random unit with a free
    /// server. The workers of the others are in one unit, while one has room.
    pub scattered: f64,
    /// Seconds from its arrival for which a training job keeps its servers.
    pub lifetime: f64,
    /// Whether there are uniform circuits before the first slot; otherwise there are none.
    pub uniform: bool,
    /// Seconds of a slot.
    pub slot: f64,
    /// Seconds of a reconfiguration.
    pub reconfiguration: f64,
    /// Mean number of jobs that arrive in a second.
    pub arrivals: f64,
    /// Numbers of workers of a training job, each with its weight.
    pub sizes: Vec<(u32, u32)>,
    /// Smallest and largest data of a worker in megabytes.
    pub megabytes: (f64, f64),
    /// Bits per second of all workers' gradients that a server sums: the update takes their data
    /// divided by it.
    pub sum_rate: f64,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            units: 64,
            servers: 64,
            ports: 24,
            port_rate: 40e9,
            server_rate: 40e9,
            inc: 4,
            local_inc_only: true,
            packed: false,
            scattered: 0.0,
            lifetime: f64::INFINITY,
            uniform: true,
            slot: 1.0,
            reconfiguration: 0.02,
            arrivals: 20.0,
            sizes: SIZES.to_vec(),
            megabytes: (102.0, 548.0),
            sum_rate: 100e9,
        }
    }
}

impl Setting {
    /// Eight units, as in table I.
    #[must_use]
    pub fn small() -> Self {
        Self { units: 8, ..Self::default() }
    }

    /// Eight units with this number of ports whose network is the bottleneck, so that CT-BTI is in the
    /// range of table I: 16 servers in each unit, and 40 times the data. Many jobs are split between
    /// units. Updates take as long as in [`small`](Self::small).
    #[must_use]
    pub fn loaded(ports: u32) -> Self {
        let small = Self::small();
        let megabytes = (40.0 * small.megabytes.0, 40.0 * small.megabytes.1);
        Self { servers: 16, ports, megabytes, sum_rate: 40.0 * small.sum_rate, ..small }
    }

    /// Checks that the network is possible, before it is built.
    ///
    /// # Errors
    /// The first problem.
    pub fn check(&self) -> Result<(), Error> {
        // Its units are all the same.
        let few = Self { units: self.units.min(UNITS_MAX + 1), ..self.clone() };
        few.network().check().map_err(|error| match self.units > UNITS_MAX {
            true => Error::Network(format!("{} units; choose at most {UNITS_MAX}", self.units)),
            false => error,
        })
    }

    /// The network.
    #[must_use]
    pub fn network(&self) -> Network {
        let bandwidth = 2.0 * f64::from(self.servers) * self.server_rate;
        let unit = Unit { ports: self.ports, inc: self.inc, bandwidth };
        Network {
            units: vec![unit; self.units],
            port_rate: self.port_rate,
            reconfiguration: self.reconfiguration,
            slot: self.slot,
        }
    }

    /// The circuits before the first slot, unless they are uniform.
    pub(crate) fn initial(&self) -> Option<Circuits> {
        (!self.uniform).then(|| Circuits::none(self.units))
    }

    /// Training jobs with random arrivals, workers, data and places. Jobs arrive in a Poisson
    /// process, and a job can send from the first slot that begins after its arrival. The first job
    /// is there at the start.
    ///
    /// # Errors
    /// If there are no units, servers or numbers of workers.
    pub fn training(&self, jobs: usize, seed: u64) -> Result<Vec<Job>, Error> {
        let mut random = self.random(seed)?;
        let mut time = 0.0;
        let mut servers = Servers::new(self.units, self.servers);
        (0..jobs)
            .map(|id| {
                let now = time;
                let arrival = self.arrival(now);
                time += gap(&mut random, self.arrivals);
                let size = self.sizes.choose_weighted(&mut random, |size| size.1);
                let workers = size.map_err(|_| no_sizes())?.0;
                let (low, high) = self.megabytes;
                let bits = random.random_range(low..=high) * MEGABYTE;
                servers.free_until(now);
                // A draw only where it can matter, so that a seed gives the same jobs as without.
                let scattered = self.scattered > 0.0 && random.random_bool(self.scattered);
                let placed = servers.place(&mut random, workers, scattered);
                servers.keep(&placed, now + self.lifetime);
                let server = UnitId(random.random_range(0..self.units));
                let update = f64::from(workers) * bits / self.sum_rate;
                let job = Job::training(id as u32, arrival, &placed, server, bits, update)?;
                Ok(if self.local_inc_only { job.local_inc_only() } else { job })
            })
            .collect()
    }

    /// Coflows drawn from a trace, with arrivals as for [`training`](Self::training). Rack *r* of the
    /// trace is in unit *r* modulo the number of units, unless shuffles are packed. A shuffle that needs more ports than a unit
    /// has becomes several coflows; they have one number.
    ///
    /// # Errors
    /// If the trace or the setting is impossible.
    pub fn map_reduce(&self, trace: &[Shuffle], jobs: usize, seed: u64) -> Result<Vec<Job>, Error> {
        let mut random = self.random(seed)?;
        let mut time = 0.0;
        let mut all = Vec::new();
        for id in 0..jobs {
            let arrival = self.arrival(time);
            time += gap(&mut random, self.arrivals);
            let problem = || Error::File("the trace has no shuffles; give it some".to_owned());
            let mut shuffle = trace.choose(&mut random).ok_or_else(problem)?.clone();
            if self.packed {
                self.pack(&mut random, &mut shuffle);
            }
            for part in parts(&shuffle.demands(self.units), self.units, self.ports as usize) {
                all.push(Job::coflow(id as u32, arrival, self.units, &part)?);
            }
        }
        Ok(all)
    }

    /// Moves the mappers to a random unit, and those beyond its servers to the next ones; likewise
    /// the reducers.
    fn pack(&self, random: &mut ChaCha8Rng, shuffle: &mut Shuffle) {
        let (maps, reduces) =
            (random.random_range(0..self.units), random.random_range(0..self.units));
        let servers = self.servers as usize;
        for (at, mapper) in shuffle.mappers.iter_mut().enumerate() {
            *mapper = (maps + at / servers) % self.units;
        }
        for (at, (reducer, _)) in shuffle.reducers.iter_mut().enumerate() {
            *reducer = (reduces + at / servers) % self.units;
        }
    }

    fn random(&self, seed: u64) -> Result<ChaCha8Rng, Error> {
        if self.units == 0 || self.servers == 0 {
            let problem = "a setting without units or servers; choose at least one".to_owned();
            return Err(Error::Network(problem));
        }
        Ok(ChaCha8Rng::seed_from_u64(seed))
    }

    /// The first slot that begins at this time or later.
    fn arrival(&self, time: f64) -> usize {
        (time / self.slot).ceil() as usize
    }
}

fn no_sizes() -> Error {
    Error::Network("a setting without numbers of workers; give one a positive weight".to_owned())
}

/// Time to the next arrival in a Poisson process.
pub(crate) fn gap(random: &mut ChaCha8Rng, rate: f64) -> f64 {
    -(1.0 - random.random::<f64>()).ln() / rate
}

/// Servers without a worker.
///
/// Workers stay: a job has many iterations, and the paper schedules one of them. When all servers have
/// a worker, each takes one more, because figures 8 to 12 have more workers than servers.
struct Servers {
    free: Vec<u32>,
    each: u32,
    /// When servers become free: the time, and their number in each unit. Jobs arrive in order and keep their
    /// servers equally long, so the times are in order too.
    until: VecDeque<(f64, Vec<u32>)>,
}

impl Servers {
    fn new(units: usize, each: u32) -> Self {
        Self { free: vec![each; units], each, until: VecDeque::new() }
    }

    /// Frees the servers of the jobs that have left.
    fn free_until(&mut self, now: f64) {
        while let Some((_, placed)) = self.until.pop_front_if(|(time, _)| *time <= now) {
            self.free.iter_mut().zip(placed).for_each(|(free, workers)| *free += workers);
        }
    }

    /// Notes until when a job keeps its servers.
    fn keep(&mut self, placed: &[u32], time: f64) {
        if time.is_finite() {
            self.until.push_back((time, placed.to_vec()));
        }
    }

    /// Places a job's workers: each in a random unit with a free server if they are scattered, otherwise all
    /// in a random unit that has enough servers, or in as few units as possible.
    fn place(&mut self, random: &mut ChaCha8Rng, workers: u32, scattered: bool) -> Vec<u32> {
        while self.free.iter().sum::<u32>() < workers {
            self.free.iter_mut().for_each(|free| *free += self.each);
        }
        let mut placed = vec![0; self.free.len()];
        if scattered {
            for _ in 0..workers {
                let free = (0..self.free.len()).filter(|&unit| self.free[unit] > 0);
                let free: Vec<usize> = free.collect();
                let &unit = free.choose(random).expect("there are as many free servers as workers");
                placed[unit] += 1;
                self.free[unit] -= 1;
            }
            return placed;
        }
        let enough = (0..self.free.len()).filter(|&unit| self.free[unit] >= workers);
        if let Some(&unit) = enough.collect::<Vec<_>>().choose(random) {
            placed[unit] = workers;
            self.free[unit] -= workers;
            return placed;
        }
        let mut left = workers;
        while left > 0 {
            let key = |&unit: &usize| (self.free[unit], std::cmp::Reverse(unit));
            let unit = (0..self.free.len()).max_by_key(key).expect("a setting has units");
            let here = left.min(self.free[unit]);
            placed[unit] += here;
            self.free[unit] -= here;
            left -= here;
        }
        placed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_jobs() {
        let setting = Setting::default();
        assert_eq!(setting.training(300, 5), setting.training(300, 5));
        assert_ne!(setting.training(300, 5), setting.training(300, 6));
    }

    #[test]
    fn jobs_arrive_at_the_rate_of_the_setting() {
        let jobs = Setting::default().training(4_000, 1).unwrap();
        let last = jobs.last().unwrap().arrival;
        assert!((190..=210).contains(&last), "{last}");
        assert_eq!(jobs[0].arrival, 0);
        // In slots of half a second, the same jobs arrive in twice as many slots.
        let halves = Setting { slot: 0.5, ..Setting::default() }.training(4_000, 1).unwrap();
        assert!(halves.last().unwrap().arrival.abs_diff(2 * last) <= 1);
    }

    #[test]
    fn workers_are_in_one_unit_while_one_has_room() {
        let setting = Setting { units: 4, servers: 8, ..Setting::default() };
        let mut servers = Servers::new(4, 8);
        let mut random = setting.random(1).unwrap();
        let mut whole = |workers| {
            let placed = servers.place(&mut random, workers, false);
            assert_eq!(placed.iter().sum::<u32>(), workers);
            placed.iter().filter(|&&count| count > 0).count()
        };
        assert_eq!([whole(5), whole(5), whole(5), whole(5)], [1; 4]);
        // Each unit has 3 servers left.
        assert_eq!(whole(8), 3);
        // 4 servers are left, so all take one more worker.
        assert_eq!(whole(8), 1);
    }

    #[test]
    fn scattered_workers_and_short_lives_place_jobs_otherwise() {
        let split = |setting: &Setting| {
            let jobs = setting.training(1_000, 3).unwrap();
            let units = |job: &Job| job.ways[0].flows.len();
            jobs.iter().filter(|job| units(job) > 1).count()
        };
        let base = Setting::default();
        let some = split(&base);
        assert!((1..50).contains(&some), "servers run out: {some}");
        // A server that a job leaves has room for another, so all jobs stay whole.
        assert_eq!(split(&Setting { lifetime: 20.0, ..base.clone() }), 0);
        let half = split(&Setting { scattered: 0.5, lifetime: 20.0, ..base.clone() });
        assert!((450..550).contains(&half), "{half}");
        assert!(split(&Setting { scattered: 1.0, ..base }) > 950);
    }

    #[test]
    fn packed_shuffles_are_in_few_units() {
        let mappers: Vec<usize> = (0..100).collect();
        let shuffle = Shuffle { id: 0, arrival: 0.0, mappers, reducers: vec![(0, 1.0), (9, 1.0)] };
        let flows = |packed| {
            let setting = Setting { packed, ..Setting::default() };
            let jobs = setting.map_reduce(std::slice::from_ref(&shuffle), 1, 0).unwrap();
            jobs.iter().map(|job| job.ways[0].flows.len()).sum::<usize>()
        };
        // 100 mappers fill the servers of two units; two reducers are in one.
        assert_eq!([flows(false), flows(true)], [64 * 2, 2]);
    }

    #[test]
    fn the_data_is_in_the_range_of_the_paper() {
        for job in Setting::default().training(500, 3).unwrap() {
            assert!((102.0 * MEGABYTE..=548.0 * MEGABYTE).contains(&job.bits));
            let workers: f64 = job.ways[0].flows.iter().map(|flow| flow.weight).sum();
            assert!([2.0, 4.0, 8.0, 16.0].contains(&workers), "{workers}");
        }
    }
}
