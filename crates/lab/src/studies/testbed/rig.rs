//! The parts of a testbed: hosts, a switch with a program, and settings.

use std::time::Duration;

use tributary_cluster::{Cluster, Job as TrainingJob};
use tributary_controller::Catalogue;
use tributary_controller::programs::Source;
use tributary_model::Scenario;
use tributary_model::jobfile::parse;
use tributary_p4::Architecture;
use tributary_protocol::rtt::RttConfig;
use tributary_switch::{Switch, SwitchConfig};

use super::Error;
use tributary_sim::Cable;
use tributary_sim::Program;

/// Values per packet.
pub const VALUES: usize = 32;

/// Packets that a link carries in the propagation time of a round trip; also the queues' marking
/// threshold.
pub const BDP: u32 = 32;

/// Maximum number of a worker's packets in flight: four round trips with full queues.
const SLOTS: u32 = 4 * ROUND_TRIP;

/// Packets of a full round trip: in flight, and queued without a mark (NetPack §4.1, footnote 3).
pub(super) const ROUND_TRIP: u32 = 2 * BDP;

/// Time of a packet on a link.
pub(super) const PACKET: Duration = Duration::from_nanos(200);

/// Retransmission timeouts: at least some forty full round trips, as one millisecond is of 25 µs.
/// It also applies from the first packet, because a slower start is negligible in hours of
/// training.
const TIMEOUTS: RttConfig = RttConfig {
    initial: Duration::from_micros(500),
    min: Duration::from_micros(500),
    max: Duration::from_millis(50),
};

/// Bits of a packet on a link: headers, values, and framing.
const PACKET_BITS: f64 = 8.0 * (14 + 20 + 8 + 28 + 4 * VALUES + 24) as f64;

/// Why a cluster cannot be a testbed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unfit {
    /// It does not have exactly one rack.
    #[error("a testbed has one rack, not {0}")]
    Racks(usize),
    /// It has no servers, or more than a switch has ports.
    #[error("a testbed has 1 to 254 servers, not {0}")]
    Servers(usize),
    /// Links differ, or have no bandwidth.
    #[error("the links of a testbed have one speed, above zero")]
    Links,
}

/// The parts of a testbed, for repeated use.
#[derive(Debug)]
pub(super) struct Rig {
    pub(super) scenario: Scenario,
    pub(super) catalogue: Catalogue,
    program: Program,
    link_gbps: f64,
    /// Number of aggregators; zero if the switch only forwards.
    pub(super) pool: u32,
}

impl Rig {
    pub(super) fn new(cluster: &Cluster) -> Result<Self, Error> {
        let [rack] = cluster.racks() else {
            return Err(Unfit::Racks(cluster.racks().len()).into());
        };
        let servers = cluster.servers();
        if !(1..=254).contains(&servers.len()) {
            return Err(Unfit::Servers(servers.len()).into());
        }
        let link_gbps = servers[0].link_gbps;
        if link_gbps <= 0.0 || servers.iter().any(|server| server.link_gbps != link_gbps) {
            return Err(Unfit::Links.into());
        }
        let pool = (rack.pat_gbps / link_gbps * f64::from(ROUND_TRIP)).round() as u32;
        // Three later results halve windows, as when the pages of docs/evaluation were measured.
        let file = format!(
            "[topology]\nkind = \"star\"\nworkers = {}\nps_hosts = 1\n\
             [protocol]\nvalues_per_packet = {VALUES}\nslots = {SLOTS}\nwindow = {BDP}\nrecovery = \"papers\"\n\
             later_results = \"halve\"\n\
             [switch]\npool = {}\necn_threshold = {BDP}\n\
             [[job]]\nworkers = 1\n",
            servers.len(),
            // A program has at least one aggregator, which is unused then.
            pool.max(1),
        );
        let mut scenario = parse(&file, "testbed.toml").expect("a job file");
        scenario.network.timeouts = TIMEOUTS;
        let source = Source::built_in_for(Architecture::V1model, "atp")
            .map_err(tributary_sim::Error::from)?;
        let program = Program::compile(&source, &scenario.network.switch)
            .map_err(tributary_sim::Error::from)?;
        let catalogue = Catalogue::new(program.p4info()).map_err(tributary_sim::Error::from)?;
        Ok(Self { scenario, catalogue, program, link_gbps, pool })
    }

    pub(super) fn cable() -> Cable {
        // A round trip crosses four links.
        let latency = PACKET * BDP / 4;
        Cable { bandwidth: PACKET_BITS / PACKET.as_secs_f64(), latency }
    }

    pub(super) fn switch(&self) -> Switch {
        let id = self.scenario.network.topology.switch_ids().next().expect("a star has a switch");
        let mut switch = Switch::new(SwitchConfig {
            device_id: 1,
            ports: self.scenario.network.topology.ports(id).map(|(port, ..)| port).collect(),
            queue_limit: self.scenario.network.switch.queue_capacity as usize,
            ..SwitchConfig::default()
        });
        switch.commit(self.program.load());
        switch
    }

    /// Seconds for a job's gradients on a link of its own.
    pub(super) fn alone_s(&self, job: &TrainingJob) -> f64 {
        job.gradient_bytes * 8.0 / (self.link_gbps * 1e9)
    }
}
