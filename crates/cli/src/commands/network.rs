//! `tributary network`: the topology of a job file in detail, for people and for programs that
//! build the network, such as `bmv2-testbed/run.py`.

use anyhow::Result;
use serde::Serialize;
use tributary_model::{Deployment, Duty, End, HostId, LinkFaults, Scenario};
use tributary_run::report::table;

use super::cable::name;
use crate::args::NetworkArgs;

#[derive(Debug, Serialize)]
struct Network<'a> {
    name: &'a str,
    protocol: &'static str,
    seed: u64,
    timeout_seconds: f64,
    /// Bytes of the largest packet, from the IP header on.
    packet_bytes: u32,
    switches: Vec<&'a str>,
    hosts: Vec<Host<'a>>,
    links: Vec<Link<'a>>,
}

#[derive(Debug, Serialize)]
struct Host<'a> {
    name: &'a str,
    mac: String,
    ip: String,
    /// In the order of the jobs.
    duties: Vec<Task<'a>>,
}

#[derive(Debug, Serialize)]
struct Task<'a> {
    job: &'a str,
    /// `worker`, `ps` or `reminder`.
    duty: &'static str,
    /// Index of a worker.
    index: Option<u16>,
}

#[derive(Debug, Serialize)]
struct Link<'a> {
    /// Names, and port numbers: 0 at a host.
    ends: [(&'a str, u16); 2],
    mtu: u32,
    loss: f64,
    delay_us: u64,
    /// Bits per second, and propagation delay, if the file sets them.
    rate: Option<u64>,
    latency_us: Option<f64>,
    /// Whether the link has any faults.
    faulty: bool,
}

/// Shows the network of a job file.
///
/// # Errors
/// One line that describes the problem.
pub(crate) fn run(args: &NetworkArgs) -> Result<()> {
    // Refuses a file whose jobs do not fit into the switches.
    let deployment = Deployment::new(tributary_model::jobfile::load(&args.job_file)?)?;
    let network = network(deployment.scenario());
    if args.json {
        return tributary_base::program::print(
            &serde_json::to_string_pretty(&network).expect("a network is plain data"),
        );
    }
    let mut hosts = table(&["host", "MAC address", "IP address", "port", "runs"]);
    for host in &network.hosts {
        let port = network.links.iter().find_map(|link| match link.ends {
            [(end, _), (switch, port)] if end == host.name => Some(format!("{switch}:{port}")),
            [(switch, port), (end, _)] if end == host.name => Some(format!("{switch}:{port}")),
            _ => None,
        });
        let runs: Vec<String> = host.duties.iter().map(Task::text).collect();
        hosts.add_row([
            host.name.to_owned(),
            host.mac.clone(),
            host.ip.clone(),
            port.unwrap_or_default(),
            runs.join(", "),
        ]);
    }
    let mut links = table(&["link", "MTU", "rate", "latency", "loss", "delay"]);
    for link in &network.links {
        let [(a, a_port), (b, b_port)] = link.ends;
        links.add_row([
            format!("{a}:{a_port} – {b}:{b_port}"),
            link.mtu.to_string(),
            link.rate.map_or_else(String::new, |rate| format!("{} Gb/s", rate as f64 / 1e9)),
            link.latency_us.map_or_else(String::new, |latency| format!("{latency} µs")),
            format!("{:.2} %", 100.0 * link.loss),
            format!("{} µs", link.delay_us),
        ]);
    }
    tributary_base::program::print(&format!(
        "{} ({})\n{hosts}\n{links}",
        network.name, network.protocol
    ))
}

impl Task<'_> {
    fn text(&self) -> String {
        match self.index {
            Some(index) => format!("worker {index} of {}", self.job),
            None => format!("{} of {}", self.duty, self.job),
        }
    }
}

fn network(scenario: &Scenario) -> Network<'_> {
    let topology = &scenario.network.topology;
    Network {
        name: &scenario.name,
        protocol: scenario.network.protocol.name(),
        seed: scenario.seed,
        timeout_seconds: scenario.timeout.as_secs_f64(),
        packet_bytes: scenario.network.switch.packet_bytes(),
        switches: topology.switches.iter().map(|switch| switch.name.as_str()).collect(),
        hosts: topology.host_ids().map(|id| host(scenario, id)).collect(),
        links: topology
            .links
            .iter()
            .map(|link| {
                let LinkFaults { loss, delay, .. } = link.faults;
                Link {
                    ends: link.ends.map(|end| match end {
                        End::Host(_) => (name(topology, end), 0),
                        End::Switch(_, port) => (name(topology, end), port),
                    }),
                    mtu: link.mtu,
                    loss,
                    rate: link.rate,
                    latency_us: link.latency.map(|latency| latency.as_nanos() as f64 / 1e3),
                    delay_us: u64::try_from(delay.as_micros()).unwrap_or(u64::MAX),
                    faulty: !link.faults.is_none(),
                }
            })
            .collect(),
    }
}

fn host(scenario: &Scenario, id: HostId) -> Host<'_> {
    let host = scenario.network.topology.host(id);
    Host {
        name: &host.name,
        mac: host.address.mac.to_string(),
        ip: host.address.ip.to_string(),
        duties: scenario
            .duties(id)
            .map(|(job, duty)| {
                let (duty, index) = match duty {
                    Duty::Worker(index) => ("worker", Some(index.get())),
                    Duty::ParameterServer => ("ps", None),
                    Duty::ReminderAgent => ("reminder", None),
                };
                Task { job: &job.name, duty, index }
            })
            .collect(),
    }
}
