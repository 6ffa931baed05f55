//! The embedded switch, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use tributary_p4::{Architecture, Sources};
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::p4::v1::Update;
use tributary_switch::trace::{Budget, Filter, Tracing, What};
use tributary_switch::{Forwarding, Switch, SwitchConfig};

use crate::controller::{to_counts, to_evictions};
use crate::entries::{eviction_counters, outcome_counters};
use crate::target::{Build, Counts, Evictions, Outputs, PORTS, Target};
use crate::tools::source;

/// Step limit of a packet in the switch, enough for a sweep of the largest pool.
const STEPS: usize = 1 << 20;

pub(crate) struct Embedded {
    architecture: Architecture,
    switch: Switch,
    p4info: P4Info,
    now_us: u64,
    /// Whether each packet is traced.
    traced: bool,
}

impl Embedded {
    /// The same, with a trace of each packet.
    pub(crate) fn traced(mut self) -> Self {
        let budget = Arc::new(Budget::new(u64::MAX, u64::MAX));
        self.switch.set_tracing(Some(Tracing::new(Filter::all(), budget)));
        self.traced = true;
        self
    }

    /// Compares what left the switch with what its traces say.
    fn check_traces(&mut self, outputs: &Outputs) {
        let recordings: Vec<_> = std::iter::from_fn(|| self.switch.poll_trace()).collect();
        if recordings.iter().any(|recording| recording.cut) {
            return;
        }
        let cpu = self.switch.cpu_port();
        let of_trace = recordings.into_iter().flat_map(|recording| recording.steps);
        let mut traced: Vec<(u16, Vec<u8>)> = of_trace
            .filter_map(|step| match step.what {
                What::Sent { port, frame } => Some((port, frame)),
                _ => None,
            })
            .collect();
        let to_cpu = outputs.packets_in.iter().map(|frame| (cpu, frame.clone()));
        let mut sent: Vec<(u16, Vec<u8>)> = outputs.frames.iter().cloned().chain(to_cpu).collect();
        traced.sort();
        sent.sort();
        assert_eq!(traced, sent, "the traces say otherwise");
    }

    /// With the program for v1model.
    pub(crate) fn new(build: &Build) -> Self {
        Self::with(Architecture::V1model, build)
    }

    /// With the program for TNA, if it exists: a pipe has stateful ALUs for 32 values, and pool
    /// sizes are powers of two.
    pub(crate) fn tna(build: &Build) -> Option<Self> {
        let fits = build.values == 32 && build.pool.is_power_of_two();
        fits.then(|| Self::with(Architecture::Tna, build))
    }

    pub(crate) fn with(architecture: Architecture, build: &Build) -> Self {
        let defines = build.defines().map(|(name, value)| (name.to_owned(), value));
        let path = source(architecture, build.program);
        let source = tributary_p4::preprocess(&Sources::disk(), &path, &defines);
        let source = source.unwrap_or_else(|errors| panic!("the program has errors:\n{errors}"));
        let forwarding = Forwarding::from_source(&source);
        let forwarding = forwarding.unwrap_or_else(|error| panic!("{error}"));
        let p4info = forwarding.p4info().clone();
        let ports = PORTS.collect();
        let mut switch = Switch::new(SwitchConfig { ports, ..SwitchConfig::default() });
        switch.commit(forwarding);
        Self { architecture, switch, p4info, now_us: 0, traced: false }
    }
}

impl Embedded {
    /// The switch, for running a packet pass by pass.
    pub(crate) fn switch_mut(&mut self) -> &mut Switch {
        &mut self.switch
    }
}

impl Target for Embedded {
    fn name(&self) -> &'static str {
        match (self.architecture, self.traced) {
            (Architecture::V1model, false) => "the embedded switch",
            (Architecture::V1model, true) => "the embedded switch, which traces each packet",
            (Architecture::Tna, false) => "the embedded switch with the program for TNA",
            (Architecture::Tna, true) => "the embedded switch for TNA, which traces each packet",
            (Architecture::Psa, _) => "the embedded switch for PSA",
        }
    }

    fn p4info(&self) -> &P4Info {
        &self.p4info
    }

    fn write(&mut self, updates: &[Update]) {
        let results = self.switch.write(updates).expect("a pipeline is set");
        for (result, update) in results.into_iter().zip(updates) {
            if let Err(refusal) = result {
                panic!("{} refuses an update: {refusal}\n{update:#?}", self.name());
            }
        }
    }

    fn inject(&mut self, port: u16, frame: &[u8]) {
        self.switch.receive(self.now_us, port, frame);
    }

    fn packet_out(&mut self, frame: &[u8]) {
        self.switch.packet_out(self.now_us, frame);
    }

    fn settle(&mut self) -> Outputs {
        let mut outputs = Outputs::default();
        let pending = self.switch.run_pending(self.now_us, STEPS);
        assert!(!pending, "a packet walks for ever");
        while let Some(frame) = self.switch.poll_packet_in() {
            outputs.packets_in.push(frame);
        }
        let mut frame = Vec::new();
        for port in PORTS {
            while self.switch.transmit(self.now_us, port, &mut frame) {
                outputs.frames.push((port, frame.clone()));
            }
        }
        if self.traced {
            self.check_traces(&outputs);
        }
        outputs
    }

    fn advance(&mut self, time: Duration) {
        self.now_us += u64::try_from(time.as_micros()).expect("less than the age of the universe");
    }

    fn counters(&mut self) -> Counts {
        let which = outcome_counters(&self.p4info);
        to_counts(&self.switch.read(&[which]).expect("the counters can be read"))
    }

    fn evictions(&mut self) -> Evictions {
        let which = eviction_counters(&self.p4info);
        to_evictions(&self.switch.read(&which).expect("the counters can be read"))
    }

    fn recirculated(&self) -> Option<u64> {
        let pipes = self.architecture == Architecture::Tna;
        pipes.then(|| self.switch.statistics().recirculated)
    }
}
