//! The testbed of the evaluation (§VII.B): jobs wait for servers, train for some iterations, and leave.

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::transfer::{Transfer, grown};
use crate::workload::gap;
use crate::{Begun, Circuits, Decision, Error, Job, Network, Online, Unit, UnitId};

/// Racks with GPUs, racks for parameter servers, and what arrives.
///
/// `docs/evaluation/p4inc-evaluation.md` lists which of these numbers are the paper's and which are ours.
#[derive(Clone, PartialEq, Debug)]
pub struct Testbed {
    /// Racks whose servers have a GPU. Their units come first.
    pub gpu_racks: usize,
    /// Racks for parameter servers.
    pub cpu_racks: usize,
    /// GPUs in each rack that has some.
    pub gpus: usize,
    /// Workers that share a GPU.
    pub share: u32,
    /// Optical ports of each rack.
    pub ports: u32,
    /// Bits per second of an optical port.
    pub port_rate: f64,
    /// Bits per second of a switch, up and down together.
    pub bandwidth: f64,
    /// Number of jobs that each switch can aggregate at once.
    pub inc: u32,
    /// Seconds of a slot.
    pub slot: f64,
    /// Seconds of a reconfiguration.
    pub reconfiguration: f64,
    /// Mean number of jobs that arrive in a second.
    pub arrivals: f64,
    /// Numbers of workers of a job, equally frequent.
    pub sizes: Vec<u32>,
    /// Bits of gradients of a worker in an iteration.
    pub bits: f64,
    /// Iterations of a job.
    pub iterations: u32,
    /// Seconds between the transfer of an iteration and that of the next: what computing and
    /// communicating do not overlap.
    pub computing: f64,
    /// Seconds in which a parameter server sums a bit of each worker.
    pub update: f64,
}

impl Testbed {
    /// The testbed of the paper, with models of this many bits.
    #[must_use]
    pub fn new(bits: f64) -> Self {
        Self {
            gpu_racks: 2,
            cpu_racks: 2,
            gpus: 4,
            share: 1,
            ports: 8,
            port_rate: 40e9,
            bandwidth: 2.0 * 32.0 * 40e9,
            inc: 4,
            slot: 1.0,
            reconfiguration: 0.02,
            arrivals: 1.0,
            sizes: vec![2, 4],
            bits,
            iterations: 10,
            computing: 0.0,
            update: 0.0,
        }
    }

    /// The network.
    #[must_use]
    pub fn network(&self) -> Network {
        let unit = Unit { ports: self.ports, inc: self.inc, bandwidth: self.bandwidth };
        Network {
            units: vec![unit; self.gpu_racks + self.cpu_racks],
            port_rate: self.port_rate,
            reconfiguration: self.reconfiguration,
            slot: self.slot,
        }
    }

    /// Jobs that arrive in a Poisson process, the first one at the start.
    ///
    /// # Errors
    /// If there are no racks of a kind, no sizes, or no GPUs for the largest job.
    pub fn requests(&self, jobs: usize, seed: u64) -> Result<Vec<Request>, Error> {
        let problem = |text: &str| Error::Network(text.to_owned());
        let all = self.gpu_racks * self.gpus * self.share as usize;
        match self.sizes.iter().max() {
            None | Some(0) => return Err(problem("jobs without workers; give them some")),
            Some(&most) if most as usize > all => {
                let text =
                    format!("a job of {most} workers, and {all} at once on all GPUs; add GPUs");
                return Err(Error::Network(text));
            }
            Some(_) => {}
        }
        if self.cpu_racks == 0 {
            return Err(problem("no rack for parameter servers; add one"));
        }
        if self.iterations == 0 {
            return Err(problem("jobs without iterations; give them at least one"));
        }
        if !self.arrivals.is_finite() || self.arrivals <= 0.0 {
            return Err(problem("jobs that never arrive; choose more than 0 per second"));
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut time = 0.0;
        let request = |_| {
            let arrival = time;
            time += gap(&mut random, self.arrivals);
            let workers = *self.sizes.choose(&mut random).expect("checked above");
            let server = UnitId(self.gpu_racks + random.random_range(0..self.cpu_racks));
            Request { arrival, workers, server }
        };
        Ok((0..jobs).map(request).collect())
    }

    /// Trains jobs, with a decision for each slot.
    ///
    /// # Errors
    /// If the network is impossible, or can never carry a job.
    pub fn train(&self, requests: &[Request], scheduler: &dyn Online) -> Result<Trained, Error> {
        let network = self.network();
        let mut circuits = Circuits::uniform(&network);
        let mut free = vec![self.share; self.gpu_racks * self.gpus];
        let mut trained = Trained { jobs: Vec::new(), reconfigurations: 0, slots: 0 };
        let mut running: Vec<Running> = Vec::new();
        while trained.jobs.iter().any(|job| job.end.is_infinite())
            || trained.jobs.len() < requests.len()
        {
            let now = trained.slots as f64 * self.slot;
            running.retain(|job| {
                let served = &trained.jobs[job.index];
                let stays = served.end > now + ROUNDING;
                if !stays {
                    served.gpus.iter().for_each(|&gpu| free[gpu] += 1);
                }
                stays
            });
            while let Some(request) = requests.get(trained.jobs.len()) {
                let Some(gpus) = self.place(&free, request).filter(|_| request.arrival <= now)
                else {
                    break;
                };
                gpus.iter().for_each(|&gpu| free[gpu] -= 1);
                running.push(Running {
                    index: trained.jobs.len(),
                    order: self.order(trained.jobs.len(), request, &gpus)?,
                    left: self.iterations,
                    ready: now,
                    transfer: None,
                });
                trained.jobs.push(Served { begun: trained.slots, gpus, end: f64::INFINITY });
            }
            let mut sending: Vec<&mut Running> = running
                .iter_mut()
                .filter(|job| job.left > 0 && job.ready <= now + ROUNDING)
                .collect();
            let orders: Vec<Job> = sending.iter().map(|job| job.order.clone()).collect();
            let begun: Vec<_> = sending.iter().map(|job| job.begun()).collect();
            let Decision { ways, slot } = scheduler.decide(&network, &orders, &begun, &circuits)?;
            trained.reconfigurations += slot.circuits.new_since(&circuits);
            for (at, job) in sending.iter_mut().enumerate().filter(|(at, _)| slot.rates[*at] > 0.0)
            {
                let new = |a, b| grown(&circuits, &slot.circuits, a, b);
                let Some(after) = job.send(&network, ways[at], slot.rates[at], new) else {
                    continue;
                };
                job.left -= 1;
                let end = now + after + job.order.ways[ways[at]].update;
                job.ready = end + self.computing;
                if job.left == 0 {
                    trained.jobs[job.index].end = end;
                }
            }
            circuits = slot.circuits;
            trained.slots += 1;
        }
        Ok(trained)
    }

    /// GPUs for a job: in the fullest rack that has enough, else in as few racks as possible.
    fn place(&self, free: &[u32], request: &Request) -> Option<Vec<usize>> {
        let workers = request.workers as usize;
        let mut racks: Vec<Vec<usize>> = (0..self.gpu_racks)
            .map(|rack| {
                let own = rack * self.gpus..(rack + 1) * self.gpus;
                own.flat_map(|gpu| std::iter::repeat_n(gpu, free[gpu] as usize)).collect()
            })
            .collect();
        racks.sort_by_key(|rack| {
            let enough = rack.len() >= workers;
            (!enough, if enough { rack.len() } else { usize::MAX - rack.len() })
        });
        let gpus: Vec<usize> = racks.into_iter().flatten().take(workers).collect();
        (gpus.len() == workers).then_some(gpus)
    }

    /// An iteration of a job.
    fn order(&self, id: usize, request: &Request, gpus: &[usize]) -> Result<Job, Error> {
        let mut workers = vec![0; self.gpu_racks + self.cpu_racks];
        for gpu in gpus {
            workers[gpu / self.gpus] += 1;
        }
        let update = self.update * self.bits * f64::from(request.workers);
        let job = Job::training(id as u32, 0, &workers, request.server, self.bits, update)?;
        Ok(job.local_inc_only())
    }
}

/// Seconds that are rounding.
const ROUNDING: f64 = 1e-9;

/// A job that arrives.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Request {
    /// Seconds from the start.
    pub arrival: f64,
    /// Number of workers.
    pub workers: u32,
    /// The unit of its parameter server.
    pub server: UnitId,
}

/// What became of a job.
#[derive(Clone, PartialEq, Debug)]
pub struct Served {
    /// The first slot in which it has its GPUs.
    pub begun: usize,
    /// The GPU of each worker, counted over the racks.
    pub gpus: Vec<usize>,
    /// Seconds from the start to the end of its last iteration.
    pub end: f64,
}

/// What became of all jobs.
#[derive(Clone, PartialEq, Debug)]
pub struct Trained {
    /// By request.
    pub jobs: Vec<Served>,
    /// Circuits that were set up.
    pub reconfigurations: u32,
    /// Number of slots.
    pub slots: usize,
}

/// A job that has its GPUs.
struct Running {
    index: usize,
    order: Job,
    /// Iterations whose transfer is not over.
    left: u32,
    /// When its next iteration can send.
    ready: f64,
    /// The transfer that goes on, and its way.
    transfer: Option<(usize, Transfer)>,
}

impl Running {
    fn begun(&self) -> Option<Begun> {
        let (way, transfer) = self.transfer.as_ref()?;
        let flows = transfer.left.iter().zip(&self.order.ways[*way].flows);
        let left = flows.map(|(left, flow)| left / flow.weight).fold(0.0, f64::max);
        Some(Begun { way: *way, left, rate: transfer.rate })
    }

    /// Sends for a slot. Returns the seconds until the transfer is over, if that is in this slot.
    fn send(
        &mut self,
        network: &Network,
        way: usize,
        rate: f64,
        grown: impl Fn(UnitId, UnitId) -> bool + Copy,
    ) -> Option<f64> {
        let order = &self.order;
        let (_, transfer) = self.transfer.get_or_insert_with(|| (way, Transfer::new(order, way)));
        let increase = (rate - transfer.rate).max(0.0);
        let flows = transfer.left.iter().zip(&order.ways[way].flows);
        let times = flows.map(|(left, flow)| {
            let new = flow.from != flow.to && grown(flow.from, flow.to);
            let lost = if new { increase * network.reconfiguration } else { 0.0 };
            (left / flow.weight + lost) / rate
        });
        let after = times.fold(0.0, f64::max);
        transfer.send(network, order, way, rate, grown);
        transfer.is_over().then(|| {
            self.transfer = None;
            after.min(network.slot)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fcfs, Tw};

    /// A gigabit, which TW sends in a slot.
    fn testbed() -> Testbed {
        Testbed { iterations: 5, ..Testbed::new(1e9) }
    }

    fn request(arrival: f64, workers: u32, server: usize) -> Request {
        Request { arrival, workers, server: UnitId(server) }
    }

    fn ends(trained: &Trained) -> Vec<f64> {
        trained.jobs.iter().map(|job| job.end).collect()
    }

    #[test]
    fn jobs_wait_in_their_order_for_gpus() {
        // 8 GPUs: two jobs of 4 run, the third waits for one of them, and the last does not overtake.
        let requests = [(0.0, 4), (0.0, 4), (0.5, 4), (0.6, 2)];
        let requests = requests.map(|(arrival, workers)| request(arrival, workers, 2));
        for inc in [false, true] {
            let trained = testbed().train(&requests, &Tw::new(inc, true)).unwrap();
            assert_eq!(ends(&trained), [5.0, 5.0, 10.0, 10.0]);
            let begun: Vec<usize> = trained.jobs.iter().map(|job| job.begun).collect();
            assert_eq!(begun, [0, 0, 5, 5]);
        }
    }

    #[test]
    fn a_job_is_in_one_rack_if_it_has_room() {
        let testbed = testbed();
        let place = |free: &[u32], workers| testbed.place(free, &request(0.0, workers, 2));
        assert_eq!(place(&[1, 1, 1, 1, 1, 1, 0, 0], 2), Some(vec![4, 5]), "the fullest");
        assert_eq!(place(&[1, 1, 0, 0, 1, 1, 1, 0], 4), Some(vec![4, 5, 6, 0]));
        assert_eq!(place(&[1, 0, 0, 0, 1, 1, 0, 0], 4), None);
    }

    #[test]
    fn one_job_after_the_other_takes_all_bandwidth_with_fcfs() {
        // Both jobs are in one rack. Under FCFS the first takes all ports, or the switch.
        let requests = [request(0.0, 2, 2), request(0.0, 2, 2)];
        for inc in [false, true] {
            let fcfs = testbed().train(&requests, &Fcfs::new(inc)).unwrap();
            let tw = testbed().train(&requests, &Tw::new(inc, true)).unwrap();
            assert_eq!(ends(&tw), [5.0, 5.0]);
            let last = ends(&fcfs).into_iter().fold(0.0, f64::max);
            assert!((9.0..10.0).contains(&last), "{fcfs:?}");
        }
    }

    #[test]
    fn what_does_not_overlap_costs_slots() {
        let requests = [request(0.0, 2, 2)];
        let testbed = Testbed { computing: 0.1, ..testbed() };
        let tw = testbed.train(&requests, &Tw::new(true, true)).unwrap();
        // The transfer fills its slot, and the next one waits for a slot that begins later.
        assert_eq!(ends(&tw), [9.0]);
        let fcfs = testbed.train(&requests, &Fcfs::new(true)).unwrap();
        assert_eq!(fcfs.jobs[0].end.floor(), 4.0);
    }

    #[test]
    fn impossible_testbeds_are_one_clear_line() {
        let refused = |testbed: Testbed| testbed.requests(1, 0).unwrap_err().to_string();
        let good = testbed();
        let few = refused(Testbed { gpus: 1, ..good.clone() });
        assert_eq!(few, "network: a job of 4 workers, and 2 at once on all GPUs; add GPUs");
        for bad in [
            Testbed { sizes: vec![], ..good.clone() },
            Testbed { cpu_racks: 0, ..good.clone() },
            Testbed { iterations: 0, ..good.clone() },
            Testbed { arrivals: f64::NAN, ..good.clone() },
        ] {
            assert!(refused(bad).starts_with("network: "));
        }
    }
}
