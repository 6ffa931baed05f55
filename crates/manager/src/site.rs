//! The site: servers, their GPUs and the network between them.
//!
//! A site file names a network file, which is the controller's job file; the manager ignores the
//! jobs in it. The switch to which a server's host is attached determines the server's rack.

use std::cmp::Reverse;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::{Table, Value};
use tributary_base::document::{Document, Item, Kind, Table as Reader, suggest};
use tributary_base::{EXCERPT, FileLimit, shortened};
use tributary_cluster::{Cluster, Plan, Rack, RackIndex, Server as ClusterServer, ServerIndex};
use tributary_model::{Protocol, Scenario, SwitchId, SwitchSettings};
use tributary_wire::FRAGMENTS_MAX;

use crate::job::Request;
use crate::job_file;

/// Why a site is invalid.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// The site file or its network file is invalid.
    #[error(transparent)]
    File(#[from] tributary_base::document::Error),
    /// The network file is not TOML, or cannot be read.
    #[error("{path}: {what}")]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// The problem.
        what: String,
    },
}

const KIND: Kind = Kind { name: "site file", page: "docs/operate/manager.md" };

/// Valid range of bandwidths in Gb/s.
const GBPS: RangeInclusive<f64> = 1e-3..=1e9;

/// A server.
#[derive(Clone, PartialEq, Debug)]
pub struct Server {
    /// Its name: the name of its host in the network file.
    pub name: String,
    /// Number of its GPUs.
    pub gpus: u32,
    /// Bandwidth of its link in Gb/s.
    pub link_gbps: f64,
    /// IP address of its host.
    pub address: Ipv4Addr,
}

/// The servers attached to one switch.
#[derive(Clone, PartialEq, Debug)]
struct SiteRack {
    /// Name of its switch.
    switch: String,
    uplink_gbps: f64,
    peak: Peak,
    servers: Vec<Server>,
}

/// Peak aggregation throughput of a switch (NetPack §4.1).
#[derive(Clone, PartialEq, Debug)]
struct Peak {
    gbps: f64,
    /// What it follows from, for people.
    inputs: String,
}

/// All servers, and the network between them.
#[derive(Clone, PartialEq, Debug)]
pub struct Site {
    racks: Vec<SiteRack>,
    /// The network file without its jobs.
    network: Table,
    /// The protocol of all jobs.
    protocol: Protocol,
    /// Number of 32-bit values per packet.
    values_per_packet: u16,
}

/// A subset of the servers.
#[derive(Clone, Debug)]
pub struct Part {
    /// The servers and their racks.
    pub cluster: Cluster,
    /// Their names.
    pub names: Vec<String>,
}

impl Part {
    /// The index of the server with this name.
    #[must_use]
    pub fn index(&self, name: &str) -> Option<ServerIndex> {
        let at = self.names.iter().position(|known| known == name)?;
        u32::try_from(at).ok().map(ServerIndex)
    }
}

/// Where a job is summed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summed {
    /// The server of the parameter server. `None` if the job needs none, or if the controller chooses one: except with ATP,
    /// it is on no worker's server.
    pub ps: Option<String>,
    /// The switches that add; `None` for all that have something to add, `[]` for the parameter server alone.
    pub adding: Option<Vec<String>>,
}

/// The same limit as for job files.
const NETWORK: FileLimit = FileLimit::new("network file", 4 << 20);

/// Maximum number of iterations of a job: the number of tensors that a job file may have.
const ITERATIONS_MAX: u32 = 1_000_000;

/// Maximum computing time per iteration: the longest pause of a job file.
const COMPUTE_US_MAX: u64 = 60_000_000;

/// Maximum gradients per iteration in bytes.
const GRADIENT_BYTES_MAX: u64 = 16 << 30;

/// Maximum length of a command in bytes: a message describes a job.
const COMMAND_MAX: usize = 32 << 10;

impl Site {
    /// Reads a site file. The path of the network file is relative to the site file's directory.
    ///
    /// # Errors
    ///
    /// If either file cannot be read or is invalid.
    pub fn load(path: &Path) -> Result<Self, SiteError> {
        let text = KIND.read(path)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        Self::read(&text, &path.display().to_string(), |name| {
            let path = directory.join(name);
            NETWORK
                .read_text(&path)
                .map_err(|error| SiteError::Unreadable { path, what: error.to_string() })
        })
    }

    /// Parses the texts of a site file and its network file.
    ///
    /// # Errors
    ///
    /// As for [`load`](Self::load).
    pub fn parse(site: &str, network: &str) -> Result<Self, SiteError> {
        Self::read(site, "site.toml", |_| Ok(network.to_owned()))
    }

    fn read(
        text: &str,
        file: &str,
        network: impl FnOnce(&str) -> Result<String, SiteError>,
    ) -> Result<Self, SiteError> {
        let document = Document::parse(KIND, text, file)?;
        let keys = ["network", "link_gbps", "uplink_gbps", "pat_gbps", "round_trip", "server"];
        let table = document.table(&keys)?;
        let item = table.require("network", "\"network.toml\"")?;
        let name = item.string("network.toml")?;
        let servers = table.items("server")?;
        if servers.is_empty() {
            let fix = "add a [[server]] with `host` and `gpus`";
            return Err(table.place_of("server").fault("there is no server", fix).into());
        }
        let network = network(name)?;
        let mut rest: Table = network.parse().map_err(|_| {
            // The reader of job files gives better error messages.
            match tributary_model::jobfile::parse(&network, name) {
                Err(error) => error.into(),
                Ok(_) => SiteError::Unreadable { path: name.into(), what: "it is not TOML".into() },
            }
        })?;
        // Jobs started from it have their own names.
        for key in ["job", "name"] {
            rest.remove(key);
        }
        let protocol = Protocol::Atp;
        let mut site = Self { racks: Vec::new(), network: rest, protocol, values_per_packet: 0 };
        let probe = |hosts: &[&str]| {
            let text = site.render(job_file::probe(hosts));
            tributary_model::jobfile::parse(&text, name)
        };
        // If a host is wrong, an error in the site file is more helpful.
        let hosts = servers.iter().take(2).map(|server| {
            server.table("[[server]]", &SERVER_KEYS)?.require("host", "\"w1\"")?.string("w1")
        });
        let hosts = hosts.collect::<Result<Vec<_>, _>>()?;
        // Only with ATP may the parameter server be on the worker's host.
        let alone = [hosts[0], hosts[0]];
        let scenario = probe(&hosts)
            .or_else(|error| probe(&alone).or_else(|_| probe(&[])).map_err(|_| error))?;
        site.protocol = scenario.network.protocol;
        site.values_per_packet = scenario.network.switch.values_per_packet;
        site.racks = racks(&table, &servers, &scenario)?;
        if !site.protocol.spans_switches() && site.racks.len() > 1 {
            let problem = format!(
                "the jobs of `{name}` are of \"switchml\", and the servers are at {} switches",
                site.racks.len()
            );
            let fix =
                "one switch sums such a job: list the servers of one switch, or use \"p4inc\"";
            return Err(item.fault(problem, fix).into());
        }
        Ok(site)
    }

    /// The policy of this name, or its variant by which a parameter server is on no worker's server.
    pub fn policy<P>(&self, name: &str, by_name: impl Fn(&str) -> Option<P>) -> Option<P> {
        let apart = self.protocol.may_have_server() && !self.protocol.allows_server_beside_worker();
        let apart = apart.then(|| by_name(&format!("{name}:apart"))).flatten();
        apart.or_else(|| by_name(name))
    }

    /// The peak aggregation throughput of each switch, and what it follows from: one line each.
    pub fn peaks(&self) -> impl Iterator<Item = String> {
        self.racks.iter().map(|SiteRack { switch, peak: Peak { gbps, inputs }, .. }| {
            format!("switch {switch} aggregates at most {gbps:.1} Gb/s: {inputs}")
        })
    }

    /// All servers, rack by rack.
    pub fn servers(&self) -> impl Iterator<Item = &Server> {
        self.racks.iter().flat_map(|rack| &rack.servers)
    }

    /// The name of a rack's switch.
    #[must_use]
    pub fn switch(&self, rack: RackIndex) -> &str {
        &self.racks[rack.at()].switch
    }

    /// The IP address of a server's host.
    #[must_use]
    pub fn address(&self, server: &str) -> Option<Ipv4Addr> {
        self.servers().find(|known| known.name == server).map(|known| known.address)
    }

    /// Where the job of a plan is summed.
    #[must_use]
    pub fn summed(&self, part: &Part, plan: &Plan) -> Summed {
        if !plan.is_distributed() {
            return Summed::default();
        }
        let workers = plan.workers();
        let most = || workers.iter().min_by_key(|(server, gpus)| (Reverse(*gpus), *server));
        let ps = if !self.protocol.may_have_server() {
            None
        } else if self.protocol.allows_server_beside_worker() {
            plan.ps.or_else(|| most().map(|(server, _)| *server))
        } else {
            plan.ps.filter(|ps| workers.iter().all(|(server, _)| server != ps))
        };
        let ps = ps.map(|server| part.names[server.at()].clone());
        let adding = match self.protocol {
            Protocol::Atp => self.adding(&part.cluster, plan),
            Protocol::P4inc => (ps.is_some() && plan.aggregating.is_empty()).then(Vec::new),
            Protocol::Esa | Protocol::SwitchMl => None,
        };
        Summed { ps, adding }
    }

    /// The switches that add for a plan; `None` if all do that have something to add.
    fn adding(&self, cluster: &Cluster, plan: &Plan) -> Option<Vec<String>> {
        let all = plan.ps.map(|ps| Plan::spread(cluster, &plan.workers(), ps).aggregating);
        if all.is_none_or(|all| all.iter().all(|rack| plan.aggregating.contains(rack))) {
            return None;
        }
        let names = plan.aggregating.iter().map(|rack| self.racks[rack.at()].switch.clone());
        Some(names.collect())
    }

    /// Takes the switches out of a plan that do not add.
    pub fn leave_out(&self, plan: &mut Plan, adding: Option<&[String]>) {
        let adds = |rack: &RackIndex| {
            adding.is_none_or(|adding| adding.contains(&self.racks[rack.at()].switch))
        };
        plan.aggregating.retain(adds);
    }

    /// Total number of GPUs.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.servers().map(|server| server.gpus).sum()
    }

    /// The servers for which `wanted` returns true, in the policy's terms.
    #[must_use]
    pub fn part(&self, wanted: impl Fn(&str) -> bool) -> Part {
        let (mut servers, mut racks, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for (rack, index) in self.racks.iter().zip(0..) {
            let first = servers.len() as u32;
            for server in rack.servers.iter().filter(|server| wanted(&server.name)) {
                let Server { ref name, gpus, link_gbps, .. } = *server;
                servers.push(ClusterServer { rack: RackIndex(index), gpus, link_gbps });
                names.push(name.clone());
            }
            racks.push(Rack {
                servers: first..servers.len() as u32,
                pod: None,
                uplink_gbps: rack.uplink_gbps,
                pat_gbps: rack.peak.gbps,
            });
        }
        Part { cluster: Cluster::new(servers, racks, Vec::new()), names }
    }

    /// Checks whether a request can be satisfied.
    ///
    /// # Errors
    ///
    /// The problem, and how to fix it.
    pub fn check(&self, request: &Request) -> Result<(), String> {
        let Request {
            ref name,
            ref model,
            ref key,
            gpus,
            value,
            iterations,
            compute_us,
            gradient_bytes,
            ref command,
            ref directory,
            ..
        } = *request;
        let word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > 64 || !name.chars().all(word) {
            let name = shortened(name, EXCERPT);
            return Err(format!("{name:?} is not a name: 1 to 64 letters, digits, `-`, `_`, `.`"));
        }
        // Both are stored, and printed on the terminals of other users.
        for (what, text) in [("model", model), ("key", key)] {
            if text.len() > 256 || text.chars().any(char::is_control) {
                return Err(format!(
                    "the {what} is longer than 256 bytes or contains control characters; choose another"
                ));
            }
        }
        let length: usize = command.iter().map(|word| word.len() + 1).sum();
        if length > COMMAND_MAX || command.iter().any(|word| word.contains('\0')) {
            return Err(format!(
                "the command is longer than {COMMAND_MAX} bytes or contains a zero byte; put it into a \
                 script"
            ));
        }
        if !command.is_empty() && !Path::new(directory).is_absolute() {
            let directory = shortened(directory, EXCERPT);
            return Err(format!("the directory {directory:?} is not an absolute path"));
        }
        if gpus == 0 || gpus > self.gpus() {
            let all = self.gpus();
            return Err(format!(
                "{gpus} GPUs cannot be had: choose 1 to {all}, all that there are"
            ));
        }
        if !value.is_finite() || value <= 0.0 {
            return Err(format!("a value of {value} means nothing: choose a number above 0"));
        }
        if iterations == 0 || iterations > ITERATIONS_MAX {
            return Err(format!("{iterations} iterations: choose 1 to {ITERATIONS_MAX}"));
        }
        if compute_us > COMPUTE_US_MAX {
            return Err(format!("an iteration may compute for {COMPUTE_US_MAX} µs at most"));
        }
        if gradient_bytes == 0
            || !gradient_bytes.is_multiple_of(4)
            || gradient_bytes > GRADIENT_BYTES_MAX
        {
            return Err(format!(
                "{gradient_bytes} bytes of gradients: choose a multiple of 4, up to \
                 {GRADIENT_BYTES_MAX}"
            ));
        }
        if command.is_empty() && !self.fits(request) {
            return Err(format!(
                "{iterations} iterations of {} packets are more than a job may send; take fewer iterations",
                self.fragments(request)
            ));
        }
        Ok(())
    }

    /// Packets of an iteration.
    fn fragments(&self, request: &Request) -> u64 {
        (request.gradient_bytes / 4).div_ceil(self.values_per_packet.into())
    }

    /// Whether one job may send all sums of a request.
    #[must_use]
    pub fn fits(&self, request: &Request) -> bool {
        let most = if self.protocol.has_rounds() { FRAGMENTS_MAX } else { u32::MAX };
        self.fragments(request).saturating_mul(request.iterations.into()) <= most.into()
    }

    /// Number of 32-bit values per packet.
    #[must_use]
    pub fn values_per_packet(&self) -> u16 {
        self.values_per_packet
    }

    fn render(&self, job: Table) -> String {
        let mut table = self.network.clone();
        table.insert("job".into(), Value::Array(vec![Value::Table(job)]));
        job_file::render(table)
    }
}

/// Range of a round trip.
const ROUND_TRIP: RangeInclusive<Duration> = Duration::from_nanos(1)..=Duration::from_secs(10);

/// A round trip for people.
fn micros(seconds: f64) -> String {
    format!("{:.1} µs", seconds * 1e6)
}

impl Peak {
    /// The site file's own.
    fn given(gbps: f64) -> Self {
        Self { gbps, inputs: "pat_gbps of the site file".to_owned() }
    }

    /// A switch sums as many packets as it has aggregators in each round trip. Unless that is given,
    /// it takes the propagation from a worker to the parameter server and back, and a queue up to the
    /// mark of congestion (footnote 3).
    fn of_pool(
        switch: &SwitchSettings,
        link_gbps: f64,
        latency: Duration,
        round_trip: Option<Duration>,
    ) -> Self {
        let bits = |bytes: u32| 8.0 * f64::from(bytes);
        let mark = f64::from(switch.ecn_threshold);
        let queue = mark * bits(switch.packet_bytes()) / (link_gbps * 1e9);
        let propagation = 4.0 * latency.as_secs_f64();
        let (seconds, source) = match round_trip {
            Some(given) => (given.as_secs_f64(), "round_trip of the site file".to_owned()),
            None => (
                propagation + queue,
                format!(
                    "propagation of {} and a queue of {mark} packets at {link_gbps} Gb/s",
                    micros(propagation)
                ),
            ),
        };
        let bytes = 4 * u32::from(switch.values_per_packet);
        let pool = switch.pool;
        let gbps = f64::from(pool) * bits(bytes) / seconds / 1e9;
        Self {
            gbps: gbps.clamp(*GBPS.start(), *GBPS.end()),
            inputs: format!(
                "{pool} aggregators of {bytes} bytes in each round trip of {} ({source})",
                micros(seconds)
            ),
        }
    }
}

const SERVER_KEYS: [&str; 3] = ["host", "gpus", "link_gbps"];

/// The servers, grouped by the switches to which their hosts are attached.
fn racks(
    table: &Reader<'_>,
    servers: &[Item<'_>],
    scenario: &Scenario,
) -> Result<Vec<SiteRack>, tributary_base::document::Error> {
    let topology = &scenario.network.topology;
    let every_link = table.or("link_gbps", 100.0, |link| link.number(GBPS))?;
    let every_uplink = table.or("uplink_gbps", None, |up| up.number(GBPS).map(Some))?;
    let every_pat = table.or("pat_gbps", None, |pat| pat.number(GBPS).map(Some))?;
    let round_trip = table.or("round_trip", None, |time| time.duration(ROUND_TRIP).map(Some))?;
    let mut by_switch: Vec<Vec<Server>> = vec![Vec::new(); topology.switches.len()];
    let mut latency = Duration::ZERO;
    let mut hosts = Vec::new();
    for server in servers {
        let server = server.table("[[server]]", &SERVER_KEYS)?;
        let item = server.require("host", "\"w1\"")?;
        let name = item.string("w1")?;
        let Some(host) = topology.host_named(name) else {
            let problem = format!("the network file has no host `{name}`");
            let names = suggest::list(topology.hosts.iter().map(|host| host.name.as_str()));
            return Err(item.fault(problem, format!("its hosts are {names}")));
        };
        if hosts.contains(&host) {
            let problem = format!("host `{name}` is given twice");
            return Err(item.fault(problem, "keep one [[server]] of it"));
        }
        hosts.push(host);
        let gpus = server.require("gpus", "4")?.integer32(0..=1 << 16)?;
        let link_gbps = server.or("link_gbps", every_link, |link| link.number(GBPS))?;
        let (switch, _) = topology.attachment(host);
        latency = latency.max(topology.link(topology.host(host).link).latency.unwrap_or_default());
        let address = topology.host(host).address.ip;
        by_switch[switch.0].push(Server { name: name.to_owned(), gpus, link_gbps, address });
    }
    let rack = |(id, servers): (SwitchId, Vec<Server>)| {
        let links = servers.iter().map(|server| server.link_gbps);
        let fastest = links.clone().fold(0.0, f64::max);
        SiteRack {
            switch: topology.switch(id).name.clone(),
            uplink_gbps: every_uplink.unwrap_or(links.sum()),
            peak: every_pat.map_or_else(
                || Peak::of_pool(&scenario.network.switch, fastest, latency, round_trip),
                Peak::given,
            ),
            servers,
        }
    };
    let racks = topology.switch_ids().zip(by_switch);
    Ok(racks.filter(|(_, servers)| !servers.is_empty()).map(rack).collect())
}
