//! The parts of an experiment: network, jobs and protocol.

use std::fmt::Write as _;
use std::time::Duration;

use tributary_controller::programs::Source;
use tributary_model::jobfile::parse;
use tributary_model::papers::{Paper, Rules};
use tributary_model::{Aggregation, Preemption, Protocol, Scenario};
use tributary_p4::Architecture;
use tributary_protocol::priority::{Code, Priority};
use tributary_protocol::rtt::RttConfig;
use tributary_protocol::{Addressing, Readings, Recovery};

use super::Error;
use super::model::Model;
use tributary_sim::Cable;
use tributary_sim::Processing;
use tributary_sim::Program;

/// Bytes of registers for each aggregator beside its values: identity, bitmap, marks, priority.
const AGGREGATOR_OVERHEAD: u64 = 20;

/// A job, and the hosts of its endpoints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trainee {
    /// What it trains.
    pub model: Model,
    /// Its workers' hosts, from 0. Jobs may share hosts.
    pub workers: Vec<u32>,
    /// Host of its parameter server and reminder agent, from 0 among the hosts of these.
    pub server: u32,
}

/// Where the delay of a worker's gradients is added (ESA §7.2.1: "a jitter on the sending side").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Delays {
    /// Once in each iteration, before the first tensor.
    #[default]
    PerIteration,
    /// Before each tensor: the paper's maximum is about the time that computing a tensor takes.
    PerTensor,
}

/// How priorities of ESA are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ranking {
    /// By the formula (§5.4).
    #[default]
    Formula,
    /// One priority for all jobs and layers.
    Equal,
    /// One priority for each job, at equal distances over the whole range: as many downgradings as
    /// possible do not reach the next job. Earlier jobs have the higher priorities.
    Apart,
}

impl Ranking {
    /// The priority of a job, of this number of jobs; `None` if the formula decides.
    #[must_use]
    pub fn of_job(self, job: usize, jobs: usize) -> Option<Priority> {
        let level = match self {
            Self::Formula => return None,
            Self::Equal => 128,
            Self::Apart => {
                let distance = 254 / jobs.saturating_sub(1).max(1);
                255 - (job * distance).min(254)
            }
        };
        u8::try_from(level).ok().and_then(Priority::new)
    }
}

/// An experiment: jobs that train at one switch.
#[derive(Clone, PartialEq, Debug)]
pub struct Setup {
    /// The protocol of all jobs.
    pub protocol: Protocol,
    /// When packets of ESA preempt.
    pub preemption: Preemption,
    /// Where P4INC sums; the other protocols always sum in the network.
    pub aggregation: Aggregation,
    /// The jobs.
    pub jobs: Vec<Trainee>,
    /// Measured iterations of each job. All jobs continue until the last one has finished these.
    pub iterations: u32,
    /// Unmeasured iterations before that.
    pub warm_up: u32,
    /// The links between hosts and switch.
    pub cable: Cable,
    /// Bits per second that a parameter server takes in and gives out, if it is slower than its link.
    pub server_rate: Option<u64>,
    /// Processor time of hosts and the switch; `None` for none.
    pub processing: Option<Processing>,
    /// Bytes of switch memory for aggregators.
    pub memory: u64,
    /// Values per packet.
    pub values: u16,
    /// Whether packets carry only one value, with unchanged sizes on the wire and an unchanged
    /// number of packets. Every time and decision is the same, at a fraction of the cost.
    pub timing_only: bool,
    /// Maximum number of a worker's packets in flight: a power of two.
    pub slots: u32,
    /// A worker's initial window in packets.
    pub window: u32,
    /// Packets in a queue above which the switch marks congestion.
    pub ecn_threshold: u32,
    /// Capacity of a queue in packets.
    pub queue: u32,
    /// Probability that a link loses a frame.
    pub loss: f64,
    /// Jobs start at random times from zero to this.
    pub start: Duration,
    /// Maximum delay, uniformly distributed, of a worker's gradients.
    pub jitter: Duration,
    /// Where this delay is added.
    pub delays: Delays,
    /// How workers detect losses.
    pub recovery: Recovery,
    /// Bounds of the retransmission timeouts.
    pub timeouts: RttConfig,
    /// How tasks are spread over the aggregators.
    pub addressing: Addressing,
    /// How priorities are chosen.
    pub ranking: Ranking,
    /// The code of priorities.
    pub priorities: Code,
    /// Whether the switch lowers priorities by a shift: right for a linear code only.
    pub shift: bool,
    /// How rules are read that the papers leave open.
    pub readings: Readings,
    /// Seed of start times, delays and faults.
    pub seed: u64,
}

impl Setup {
    /// The setup of ESA's simulations (§7.2.1): a switch with links of 100 Gb/s, a base round-trip
    /// time of 10 µs, 5 MB of memory, and jobs of `workers` workers on hosts of their own. Each protocol has
    /// the rules of [`Paper::Esa`].
    #[must_use]
    pub fn esa(protocol: Protocol, models: Vec<Model>, workers: u32, seed: u64) -> Self {
        let job = |(job, model)| {
            let first = job * workers;
            Trainee { model, workers: (first..first + workers).collect(), server: job }
        };
        let Rules { recovery, addressing, priorities, readings, timeouts, window, slots, .. } =
            Paper::Esa.rules();
        Self {
            protocol,
            preemption: Preemption::default(),
            aggregation: Aggregation::Network,
            jobs: (0..).zip(models).map(job).collect(),
            iterations: 3,
            warm_up: 1,
            // A round trip crosses four links.
            cable: Cable { bandwidth: 100e9, latency: Duration::from_nanos(2_500) },
            server_rate: None,
            processing: None,
            memory: 5_000_000,
            values: 62,
            timing_only: true,
            slots,
            window,
            ecn_threshold: 64,
            queue: 4096,
            loss: 0.0,
            start: Duration::from_millis(1),
            jitter: Duration::from_micros(300),
            delays: Delays::default(),
            recovery,
            timeouts,
            addressing,
            ranking: Ranking::default(),
            priorities,
            shift: false,
            readings,
            seed,
        }
    }

    /// The same with our default rules instead of the paper's.
    #[must_use]
    pub fn with_default_rules(self) -> Self {
        let timeouts = RttConfig::default();
        Self { recovery: Recovery::Rack, addressing: Addressing::Default, timeouts, ..self }
    }

    /// Checks what the other parts do not.
    pub(super) fn check(&self) -> Result<(), Error> {
        let fault = |text: &str| Err(Error::Setup(text.to_owned()));
        if self.jobs.is_empty() {
            return fault("an experiment needs at least one job");
        }
        if self.iterations == 0 {
            return fault("an experiment needs at least one measured iteration");
        }
        if !(self.cable.bandwidth.is_finite() && self.cable.bandwidth > 0.0) {
            return fault("the links need a rate above zero");
        }
        if !(0.0..1.0).contains(&self.loss) {
            return fault("the probability of a loss is at least 0 and below 1");
        }
        if self.values == 0 {
            return fault("a packet needs at least one value");
        }
        if self.jobs.iter().any(|job| job.model.bytes() == 0) {
            return fault("a model needs at least one byte of gradients");
        }
        Ok(())
    }

    /// Values that a packet carries in the simulation.
    pub(super) fn carried(&self) -> u16 {
        if self.timing_only { 1 } else { self.values }
    }

    /// Packets for this number of bytes of gradients.
    pub(super) fn packets(&self, bytes: u64) -> u64 {
        bytes.div_ceil(4 * u64::from(self.values))
    }

    /// Number of aggregators that fit in the memory.
    #[must_use]
    pub fn pool(&self) -> u32 {
        let aggregator = 4 * u64::from(self.values) + AGGREGATOR_OVERHEAD;
        u32::try_from(self.memory / aggregator).unwrap_or(u32::MAX).max(1)
    }

    /// Bytes of a packet with values on a link, with framing.
    #[must_use]
    pub fn packet_bytes(&self) -> u64 {
        14 + 20 + 8 + 28 + 4 * u64::from(self.values) + 24
    }

    pub(super) fn scenario(&self) -> Result<Scenario, Error> {
        let count = |hosts: &mut dyn Iterator<Item = u32>| hosts.max().map_or(1, |last| last + 1);
        let workers = count(&mut self.jobs.iter().flat_map(|job| job.workers.iter().copied()));
        let servers = count(&mut self.jobs.iter().map(|job| job.server));
        let (partition, slots) = self.partition();
        let optional = self.protocol.may_have_server() && !self.protocol.needs_server();
        let at_server = optional && self.aggregation == Aggregation::Server;
        let needs_server = at_server || self.protocol.needs_server();
        let server = |number| if servers == 1 { "ps".into() } else { format!("ps{number}") };
        let mut file = format!(
            "[topology]\nkind = \"star\"\nworkers = {workers}\nps_hosts = {servers}\n\
             [protocol]\nkind = \"{}\"\nvalues_per_packet = 64\nslots = {slots}\nwindow = {}\n\
             recovery = \"{}\"\n\
             [faults]\nloss = {}\n\
             [switch]\npool = {}\necn_threshold = {}\nqueue_capacity = {}\n{partition}",
            self.protocol.name(),
            self.window.min(slots),
            self.recovery.name(),
            self.loss,
            self.pool(),
            self.ecn_threshold,
            self.queue,
        );
        for job in &self.jobs {
            let names: Vec<_> = job.workers.iter().map(|w| format!("\"w{}\"", w + 1)).collect();
            let _ = writeln!(file, "[[job]]\nworkers = [{}]", names.join(", "));
            if needs_server {
                let _ = writeln!(file, "ps = \"{}\"", server(job.server + 1));
            }
            if at_server {
                let _ = writeln!(file, "aggregation = \"server\"");
            }
        }
        if let Some(rate) = self.server_rate {
            for number in 1..=servers {
                let name = server(number);
                let _ = writeln!(
                    file,
                    "[[topology.link]]\nbetween = [\"{name}\", \"s1\"]\nrate = \"{rate}b/s\""
                );
            }
        }
        let mut scenario = parse(&file, "training.toml")?;
        scenario.network.switch.values_per_packet = self.carried();
        scenario.network.switch.preemption = self.preemption;
        scenario.network.switch.linear_priorities = self.shift;
        scenario.network.timeouts = self.timeouts;
        scenario.network.addressing = self.addressing;
        scenario.network.priorities = self.priorities;
        scenario.network.readings = self.readings;
        scenario.seed = self.seed;
        Ok(scenario)
    }

    /// SwitchML and P4INC divide the memory equally. A job has at most as many packets in flight as
    /// it has aggregators (P4INC) or pairs of them (SwitchML).
    fn partition(&self) -> (String, u32) {
        let jobs = self.jobs.len() as u32;
        let share = self.pool() / jobs;
        let most = |room: u32| self.slots.min(1 << room.max(1).ilog2());
        if !self.protocol.has_segments() {
            (String::new(), self.slots)
        } else if self.protocol.has_partitions() {
            (format!("partitions = {jobs}\n"), most(share / 2))
        } else {
            (String::new(), most(share))
        }
    }

    pub(super) fn program(&self, scenario: &Scenario) -> Result<Program, Error> {
        let name = self.protocol.name();
        let source = Source::built_in_for(Architecture::V1model, name);
        let compiled =
            source.and_then(|source| Program::compile(&source, &scenario.network.switch));
        Ok(compiled.map_err(tributary_sim::Error::from)?)
    }
}

#[cfg(test)]
mod tests {
    use tributary_protocol::priority::LEVELS_PER_DOUBLING;

    use super::*;

    #[test]
    fn priorities_that_are_far_apart_survive_downgradings() {
        let levels = |ranking: Ranking, jobs| -> Vec<u8> {
            (0..jobs).map(|job| ranking.of_job(job, jobs).unwrap().get()).collect()
        };
        assert_eq!(levels(Ranking::Apart, 1), [255]);
        assert_eq!(levels(Ranking::Apart, 2), [255, 1]);
        let eight = levels(Ranking::Apart, 8);
        let far = |pair: &[u8]| pair[0] - pair[1] >= 6 * LEVELS_PER_DOUBLING;
        assert!(eight.windows(2).all(far), "{eight:?}");
        assert_eq!(levels(Ranking::Equal, 3), [128; 3]);
        assert_eq!(Ranking::Formula.of_job(0, 8), None);
    }
}
