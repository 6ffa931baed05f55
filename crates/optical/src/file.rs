//! Files of a network and its jobs, in TOML.

use serde::Deserialize;

use crate::{Demand, Error, Job, Network, Unit, UnitId};

const MEGABYTE: f64 = 8e6;
const GIGABIT: f64 = 1e9;

/// A network and jobs.
#[derive(Clone, PartialEq, Debug)]
pub struct Input {
    /// The network.
    pub network: Network,
    /// The jobs, in the order of the file: training jobs, then coflows.
    pub jobs: Vec<Job>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    network: NetworkTable,
    #[serde(default)]
    training: Vec<TrainingTable>,
    #[serde(default)]
    coflow: Vec<CoflowTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkTable {
    units: usize,
    ports: u32,
    port_gbps: f64,
    switch_gbps: f64,
    inc: u32,
    #[serde(default = "second")]
    slot_s: f64,
    reconfiguration_ms: f64,
    #[serde(default = "yes")]
    local_inc_only: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrainingTable {
    workers: Vec<u32>,
    server: usize,
    megabytes: f64,
    #[serde(default)]
    update_ms: f64,
    #[serde(default)]
    arrival: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CoflowTable {
    demands: Vec<(usize, usize, f64)>,
    #[serde(default)]
    arrival: usize,
}

fn second() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

/// Reads a network and jobs from TOML. Jobs are numbered from 0.
///
/// # Errors
/// One line: what is wrong, and where.
pub fn read(text: &str) -> Result<Input, Error> {
    let file: File = toml::from_str(text).map_err(|error| {
        let before = error.span().map_or("", |span| &text[..span.start]);
        let line = before.matches('\n').count() + 1;
        Error::File(format!("line {line}: {}", error.message().replace('\n', "; ")))
    })?;
    let NetworkTable { units, ports, port_gbps, switch_gbps, inc, .. } = file.network;
    let unit = Unit { ports, inc, bandwidth: switch_gbps * GIGABIT };
    let network = Network {
        units: vec![unit; units],
        port_rate: port_gbps * GIGABIT,
        reconfiguration: file.network.reconfiguration_ms / 1e3,
        slot: file.network.slot_s,
    };
    network.check()?;
    let mut jobs = Vec::new();
    for training in file.training {
        let id = jobs.len() as u32;
        let TrainingTable { mut workers, server, megabytes, update_ms, arrival } = training;
        if workers.len() > units {
            let problem = format!("workers in {} units; the network has {units}", workers.len());
            return Err(Error::job(id, problem));
        }
        workers.resize(units, 0);
        let (bits, update) = (megabytes * MEGABYTE, update_ms / 1e3);
        let job = Job::training(id, arrival, &workers, UnitId(server), bits, update)?;
        jobs.push(if file.network.local_inc_only { job.local_inc_only() } else { job });
    }
    for CoflowTable { demands, arrival } in file.coflow {
        let demand = |(from, to, megabytes)| Demand {
            from: UnitId(from),
            to: UnitId(to),
            bits: megabytes * MEGABYTE,
        };
        let demands: Vec<Demand> = demands.into_iter().map(demand).collect();
        jobs.push(Job::coflow(jobs.len() as u32, arrival, units, &demands)?);
    }
    Ok(Input { network, jobs })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: &str = "[network]\nunits = 3\nports = 2\nport_gbps = 40\nswitch_gbps = 640\n\
                           inc = 1\nreconfiguration_ms = 20\n";

    #[test]
    fn a_file_has_a_network_training_jobs_and_coflows() {
        let jobs = "[[training]]\nworkers = [2]\nserver = 2\nmegabytes = 100\nupdate_ms = 50\n\
                    [[coflow]]\ndemands = [[0, 1, 10], [1, 2, 20]]\narrival = 3\n";
        let input = read(&format!("{NETWORK}{jobs}")).unwrap();
        assert_eq!(input.network.units.len(), 3);
        assert_eq!(input.network.reconfiguration, 0.02);
        assert_eq!(input.jobs[0].bits, 800e6);
        assert_eq!(input.jobs[0].ways[0].update, 0.05);
        assert_eq!((input.jobs[1].id, input.jobs[1].arrival), (1, 3));
    }

    #[test]
    fn malformed_files_are_one_clear_line() {
        for (jobs, expected) in [
            ("[[training]]\nserver = 0\nmegabytes = 1\n", "line 8: missing field `workers`"),
            ("speed = 1\n", "line 8: unknown field `speed`"),
            (
                "[[training]]\nworkers = []\nserver = 0\nmegabytes = 1\n",
                "job 0: it has no workers; give at least one unit a worker",
            ),
            (
                "[[training]]\nworkers = [1, 1, 1, 1]\nserver = 0\nmegabytes = 1\n",
                "job 0: workers in 4 units; the network has 3",
            ),
            ("[[coflow]]\ndemands = [[0, 3, 1]]\n", "job 0: unit 3 does not exist; choose 0 to 2"),
        ] {
            let error = read(&format!("{NETWORK}{jobs}")).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
        let endless = NETWORK.replace("= 20\n", "= 1000\n");
        let error = read(&endless).unwrap_err().to_string();
        let start = "network: a reconfiguration of 1 s; choose 0 s or more, and less than a slot";
        assert!(error.starts_with(start), "{error}");
    }
}
