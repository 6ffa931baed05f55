//! Files of a network and its jobs, in TOML.

use tributary_base::document::{Document, Item, Kind, Table};

use crate::instance::Instance;
use crate::limits::{JOBS_MAX, SLOTS_MAX};
use crate::network::{PORTS_MAX, UNITS_MAX};
use crate::{Demand, Error, Job, Network, Unit, UnitId};

const MEGABYTE: f64 = 8e6;
const GIGABIT: f64 = 1e9;

const KIND: Kind = Kind { name: "file of jobs", page: "docs/evaluation/optical.md" };

/// Most workers of a job in a unit, and most jobs of a switch: more would be a typing error.
const WORKERS_MAX: u32 = 1_000_000;

/// Most data in megabytes: more is not sent within the longest schedule by any of today's networks.
const MEGABYTES_MAX: f64 = 1e12;

/// Highest bandwidth in Gb/s.
const GBPS_MAX: f64 = 1e9;

/// Longest slot and update in seconds.
const SECONDS_MAX: f64 = 1e6;

/// A network and jobs.
#[derive(Clone, PartialEq, Debug)]
pub struct Input {
    /// The network.
    pub network: Network,
    /// The jobs, in the order of the file: training jobs, then coflows.
    pub jobs: Vec<Job>,
}

/// Reads a network and jobs from TOML. Jobs are numbered from 0. Messages call the file `file`.
///
/// # Errors
/// One line: what is wrong, and where.
pub fn read(text: &str, file: &str) -> Result<Input, Error> {
    let document = Document::parse(KIND, text, file)?;
    let root = document.table(&["network", "training", "coflow"])?;
    let table = root.require("network", "{ units = 4, ports = 4, … }")?;
    let keys = [
        "units",
        "ports",
        "port_gbps",
        "switch_gbps",
        "inc",
        "slot_s",
        "reconfiguration_ms",
        "local_inc_only",
    ];
    let table = table.table("[network]", &keys)?;
    let local = table.or("local_inc_only", true, Item::boolean)?;
    let network = network(&table)?;
    let mut jobs = Vec::new();
    for item in root.items("training")? {
        let table = item
            .table("[[training]]", &["workers", "server", "megabytes", "update_ms", "arrival"])?;
        let job = training(&table, &network, jobs.len())?;
        let job = if local { job.local_inc_only() } else { job };
        check(&network, &job, &table, "megabytes")?;
        jobs.push(job);
    }
    for item in root.items("coflow")? {
        let table = item.table("[[coflow]]", &["demands", "arrival"])?;
        let job = coflow(&table, &network, jobs.len())?;
        check(&network, &job, &table, "demands")?;
        jobs.push(job);
    }
    if jobs.len() > JOBS_MAX {
        let problem = format!("there are {} jobs", jobs.len());
        return Err(root.fault(problem, format!("keep at most {JOBS_MAX}")).into());
    }
    Ok(Input { network, jobs })
}

fn network(table: &Table<'_>) -> Result<Network, Error> {
    let bandwidth = |key: &str| -> Result<f64, Error> {
        Ok(table.require(key, "40")?.number(1e-3..=GBPS_MAX)? * GIGABIT)
    };
    let units = table.require("units", "4")?.integer(1..=UNITS_MAX as u64)? as usize;
    let ports = table.require("ports", "4")?.integer32(0..=PORTS_MAX)?;
    let inc = table.require("inc", "1")?.integer32(0..=WORKERS_MAX)?;
    let unit = Unit { ports, inc, bandwidth: bandwidth("switch_gbps")? };
    let slot = table.or("slot_s", 1.0, |slot| slot.number(1e-6..=SECONDS_MAX))?;
    let item = table.require("reconfiguration_ms", "20")?;
    let reconfiguration = item.number(0.0..=SECONDS_MAX * 1e3)? / 1e3;
    if reconfiguration >= slot {
        let problem = format!("a reconfiguration of {reconfiguration} s in a slot of {slot} s");
        return Err(item.fault(problem, "choose one that is shorter than a slot").into());
    }
    let network = Network {
        units: vec![unit; units],
        port_rate: bandwidth("port_gbps")?,
        reconfiguration,
        slot,
    };
    network.check()?;
    Ok(network)
}

fn training(table: &Table<'_>, network: &Network, id: usize) -> Result<Job, Error> {
    let units = network.units.len();
    let item = table.require("workers", "[2, 2]")?;
    let workers = item.array("a number of workers")?;
    if workers.len() > units {
        let problem = format!("workers in {} units; the network has {units}", workers.len());
        return Err(item.fault(problem, "remove some, or add units").into());
    }
    let workers = workers.iter().map(|count| count.integer32(0..=WORKERS_MAX));
    let mut workers = workers.collect::<Result<Vec<u32>, _>>()?;
    if workers.iter().all(|&count| count == 0) {
        return Err(item.fault("the job has no workers", "give at least one unit a worker").into());
    }
    workers.resize(units, 0);
    let server = unit(&table.require("server", "0")?, network)?;
    let bits = megabytes(&table.require("megabytes", "100")?)?;
    let update = table.or("update_ms", 0.0, |update| update.number(0.0..=SECONDS_MAX * 1e3))?;
    Job::training(id as u32, arrival(table)?, &workers, server, bits, update / 1e3)
}

fn coflow(table: &Table<'_>, network: &Network, id: usize) -> Result<Job, Error> {
    let item = table.require("demands", "[[0, 1, 2000]]")?;
    let demand = |item: Item<'_>| -> Result<Demand, Error> {
        let fields = item.array("a demand")?;
        let [from, to, data] = &fields[..] else {
            let problem = format!("a demand has {} numbers", fields.len());
            return Err(item.fault(problem, "write [from unit, to unit, megabytes]").into());
        };
        Ok(Demand { from: unit(from, network)?, to: unit(to, network)?, bits: megabytes(data)? })
    };
    let demands = item.array("a demand")?.into_iter().map(demand);
    let demands = demands.collect::<Result<Vec<_>, Error>>()?;
    if demands.is_empty() {
        return Err(item.fault("the coflow has no demands", "give it at least one").into());
    }
    Job::coflow(id as u32, arrival(table)?, network.units.len(), &demands)
}

fn unit(item: &Item<'_>, network: &Network) -> Result<UnitId, Error> {
    Ok(UnitId(item.integer(0..=network.units.len() as u64 - 1)? as usize))
}

fn megabytes(item: &Item<'_>) -> Result<f64, Error> {
    Ok(item.number(0.0..=MEGABYTES_MAX)? * MEGABYTE)
}

fn arrival(table: &Table<'_>) -> Result<usize, Error> {
    Ok(table.or("arrival", 0, |arrival| arrival.integer(0..=SLOTS_MAX as u64))? as usize)
}

/// Checks that a job, were it alone, can be carried out, and ends within the longest schedule.
fn check(network: &Network, job: &Job, table: &Table<'_>, data: &str) -> Result<(), Error> {
    match Instance::new(network, std::slice::from_ref(job)) {
        Ok(_) => Ok(()),
        Err(Error::Job { problem, .. }) => {
            let (problem, fix) = problem.split_once("; ").unwrap_or((&problem, ""));
            Err(table.place_of(data).fault(problem, fix).into())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: &str = "[network]\nunits = 3\nports = 2\nport_gbps = 40\nswitch_gbps = 640\n\
                           inc = 1\nreconfiguration_ms = 20\n";
    const JOB: &str = "[[training]]\nworkers = [2]\nserver = 1\nmegabytes = 100\n";

    fn error(text: &str) -> String {
        read(text, "f").unwrap_err().to_string()
    }

    #[test]
    fn a_file_has_a_network_training_jobs_and_coflows() {
        let jobs = "[[training]]\nworkers = [2]\nserver = 2\nmegabytes = 100\nupdate_ms = 50\n\
                    [[coflow]]\ndemands = [[0, 1, 10], [1, 2, 20]]\narrival = 3\n";
        let input = read(&format!("{NETWORK}{jobs}"), "f").unwrap();
        assert_eq!(input.network.units.len(), 3);
        assert_eq!(input.network.reconfiguration, 0.02);
        assert_eq!(input.jobs[0].bits, 800e6);
        assert_eq!(input.jobs[0].ways[0].update, 0.05);
        assert_eq!((input.jobs[1].id, input.jobs[1].arrival), (1, 3));
    }

    #[test]
    fn malformed_files_are_one_clear_line() {
        for (jobs, expected) in [
            ("[[training]]\nserver = 0\nmegabytes = 1\n", "f:8:1: [[training]] has no `workers`; "),
            ("speed = 1\n", "f:8:1: unknown key `speed` in [network]; "),
            (
                "[[training]]\nworkers = []\nserver = 0\nmegabytes = 1\n",
                "f:9:11: the job has no workers; give at least one unit a worker",
            ),
            (
                "[[training]]\nworkers = [1, 1, 1, 1]\nserver = 0\nmegabytes = 1\n",
                "f:9:11: workers in 4 units; the network has 3; ",
            ),
            (
                "[[coflow]]\ndemands = [[0, 3, 1]]\n",
                "f:9:16: a demand is 3, out of range; choose a value from 0 to 2",
            ),
            ("[[coflow]]\ndemands = []\n", "f:9:11: the coflow has no demands; "),
            ("[[coflow]]\ndemands = [[0, 1]]\n", "f:9:12: a demand has 2 numbers; "),
            (
                "[[coflow]]\ndemands = [[0, 1, 1e14]]\n",
                "f:9:19: a demand is 1e14, out of range; choose a value from 0 to 1000000000000",
            ),
        ] {
            let error = error(&format!("{NETWORK}{jobs}"));
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn numbers_that_would_take_all_memory_or_hours_are_one_clear_line() {
        let file = format!("{NETWORK}{JOB}");
        for (from, to, expected) in [
            (
                "units = 3",
                "units = 1000000000",
                "f:2:9: `units` is 1000000000, out of range; choose a value from 1 to 512",
            ),
            (
                "ports = 2",
                "ports = 1000000000",
                "f:3:9: `ports` is 1000000000, out of range; choose a value from 0 to 256",
            ),
            (
                "inc = 1",
                "inc = 4000000000",
                "f:6:7: `inc` is 4000000000, out of range; choose a value from 0 to 1000000",
            ),
            ("port_gbps = 40", "port_gbps = 0", "f:4:13: `port_gbps` is 0, out of range; "),
            (
                "switch_gbps = 640",
                "switch_gbps = nan",
                "f:5:15: `switch_gbps` is nan, out of range; ",
            ),
            (
                "reconfiguration_ms = 20",
                "reconfiguration_ms = 1000",
                "f:7:22: a reconfiguration of 1 s in a slot of 1 s; ",
            ),
            ("[2]", "[4000000000]", "f:9:12: a number of workers is 4000000000, out of range; "),
            (
                "megabytes = 100",
                "megabytes = 100\narrival = 4000000000",
                "f:12:11: `arrival` is 4000000000, out of range; choose a value from 0 to 10000",
            ),
            (
                "megabytes = 100",
                "megabytes = 1e12",
                "f:11:13: it arrives in slot 0 and sends for at least 24999900 slots, but a schedule has at \
                 most 10000; choose an earlier arrival, less data or longer slots",
            ),
        ] {
            let text = file.replace(from, to);
            assert_ne!(text, file);
            let error = error(&text);
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn a_job_that_no_network_can_carry_has_its_position() {
        let alone = NETWORK.replace("ports = 2", "ports = 0").replace("inc = 1", "inc = 0");
        assert_eq!(
            error(&format!("{alone}{JOB}")),
            "f:11:13: switches, ports or aggregation are missing for each of its ways; give the units more"
        );
    }
}
