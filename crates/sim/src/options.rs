//! How a scenario is run.

use std::collections::BTreeSet;
use std::time::Duration;

use tributary_dataplane::EngineKind;
use tributary_netio::capture::Recorder;
use tributary_protocol::rtt::RttConfig;

use crate::channel::Pace;
use crate::line::Cable;
use crate::network::{Disturbance, Processing};

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Properties of links that the scenario does not set.
    pub cable: Cable,
    /// Processor time of hosts and switches; `None` for none.
    pub processing: Option<Processing>,
    /// Bytes that each packet with values counts on the links beyond its own: the values that it
    /// does not carry where only times matter.
    pub stretch: usize,
    /// Seed of the links' faults.
    pub seed: u64,
    /// Execution engine of the switches.
    pub engine: EngineKind,
    /// Virtual time limit of the run.
    pub limit: Duration,
    /// Timing of reliable channels.
    pub pace: Pace,
    /// Retransmission timeouts of workers, replacing the scenario's.
    pub worker_rtt: Option<RttConfig>,
    /// How long a finished worker waits for its dismissal (ESA). A replacement agent does not know
    /// which workers have left, and would wait for them forever.
    pub farewell: Duration,
    /// Whether to record every frame and message.
    pub trace: bool,
    /// Captures every frame, with the interfaces of [`Ends`](crate::Ends).
    pub capture: Option<Recorder>,
    /// The only disturbances that may happen by chance, if restricted.
    pub only: Option<BTreeSet<Disturbance>>,
    /// When loss, duplication and reordering by chance end; `None` for never.
    pub until: Option<Duration>,
}

impl Options {
    /// Options with a seed and a limit of ten virtual minutes.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self {
            cable: Cable::default(),
            processing: None,
            stretch: 0,
            seed,
            engine: EngineKind::default(),
            limit: Duration::from_secs(600),
            pace: Pace::default(),
            worker_rtt: None,
            farewell: Duration::from_secs(5),
            trace: false,
            capture: None,
            only: None,
            until: None,
        }
    }
}
