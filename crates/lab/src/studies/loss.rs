//! The cost of loss: jobs at one switch in virtual time, at any rate of loss, for every protocol.

use std::time::Duration;

use tributary_controller::programs::Source;
use tributary_model::jobfile::parse;
use tributary_model::{Protocol, Scenario};
use tributary_p4::Architecture;
use tributary_protocol::{Recovery, Tensor};

use tributary_sim::Cable;
use tributary_sim::Processing;
use tributary_sim::Program;
use tributary_sim::{Error, Inputs, Options, run};

/// Workers of one job at one switch, which sum tensors one after the other.
#[derive(Clone, PartialEq, Debug)]
pub struct Trial {
    /// The protocol.
    pub protocol: Protocol,
    /// Lines of a job file's `[faults]`, such as `loss = 0.01`.
    pub faults: String,
    /// The workers' loss recovery.
    pub recovery: Recovery,
    /// Additional lines of the job, such as a straggler.
    pub job: String,
    /// Number of workers.
    pub workers: u32,
    /// Values per packet.
    pub values: u32,
    /// Number of tensors.
    pub tensors: u32,
    /// Bytes of each tensor.
    pub bytes: u64,
    /// The links.
    pub cable: Cable,
    /// Processor time of hosts and switches; `None` for none.
    pub processing: Option<Processing>,
    /// Virtual time limit.
    pub limit: Duration,
}

impl Trial {
    /// Four workers with links of 10 Gb/s, packets of 64 values, two tensors of 1 MB.
    #[must_use]
    pub fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            faults: String::new(),
            recovery: Recovery::default(),
            job: String::new(),
            workers: 4,
            values: 64,
            tensors: 2,
            bytes: 1 << 20,
            cable: Cable::default(),
            processing: None,
            limit: Duration::from_secs(100),
        }
    }

    /// The same trial with independent loss on every link, in each direction.
    #[must_use]
    pub fn with_loss(self, loss: f64) -> Self {
        Self { faults: format!("loss = {loss}\n"), ..self }
    }

    /// The job file's scenario.
    ///
    /// # Panics
    /// If the additional lines are invalid.
    #[must_use]
    pub fn scenario(&self) -> Scenario {
        let file = format!(
            "timeout = \"10min\"\nworker_timeout = \"10min\"\n\
             [topology]\nkind = \"star\"\nworkers = {}\n\
             [protocol]\nkind = \"{}\"\nvalues_per_packet = {}\n\
             recovery = \"{}\"\n[faults]\n{}\n[[job]]\n{}\n",
            self.workers,
            self.protocol.name(),
            self.values,
            self.recovery.name(),
            self.faults,
            self.job,
        );
        parse(&file, "loss.toml").unwrap_or_else(|error| panic!("{error}\n{file}"))
    }

    fn inputs(&self) -> Inputs {
        let values = (self.bytes / 4) as u32;
        let tensor = |worker: u32, round: u32| {
            Tensor::F32(
                (0..values).map(|at| (at % 1013 + 7 * worker + round) as f32 / 1024.0).collect(),
            )
        };
        let of = |worker| (0..self.tensors).map(|round| tensor(worker, round)).collect();
        vec![(0..self.workers).map(of).collect()]
    }

    /// Runs the job once.
    ///
    /// # Errors
    /// [`Error`]; not expected.
    pub fn run(&self, seed: u64) -> Result<Cost, Error> {
        let scenario = self.scenario();
        let source = Source::built_in_for(Architecture::V1model, self.protocol.name())?;
        let program = Program::compile(&source, &scenario.network.switch)?;
        let Self { cable, processing, limit, .. } = *self;
        let options = Options { cable, processing, limit, ..Options::seeded(seed) };
        let outcome = run(&scenario, &program, self.inputs(), &options)?;
        let workers = &outcome.workers[0];
        Ok(Cost {
            complete: outcome.complete,
            time: outcome.time,
            goodput_bps: 8.0 * (u64::from(self.tensors) * self.bytes) as f64
                / outcome.time.as_secs_f64(),
            sent: workers.iter().map(|worker| worker.sent).sum(),
            resent: workers.iter().map(|worker| worker.resent + worker.reminders).sum(),
            timeouts: workers.iter().map(|worker| worker.timeouts).sum(),
            hops: outcome.hops,
        })
    }
}

/// The result of a trial.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cost {
    /// Whether all sums arrived before the limit.
    pub complete: bool,
    /// From the first packet to the last sum.
    pub time: Duration,
    /// Summed bits per second at each worker.
    pub goodput_bps: f64,
    /// Packets that workers sent.
    pub sent: u64,
    /// Packets sent again; with ESA also reminders.
    pub resent: u64,
    /// Timeouts of workers.
    pub timeouts: u64,
    /// Frame arrivals at any host or switch.
    pub hops: u64,
}
