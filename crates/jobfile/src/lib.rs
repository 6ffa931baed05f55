//! Job files: topology, jobs, protocol and faults, checked.
//!
//! A job file is TOML. [`load`] reads one and gives a [`Scenario`]: plain values, every default
//! filled in, every reference resolved, hosts addressed, switch ports numbered. Whatever is wrong
//! with a file becomes one line that names file, line and column and says how to mend it
//! ([`Error`]).
//!
//! The crate knows no fabric: it neither starts nor connects anything. `docs/job-files.md` is the
//! user's side of it.
//!
//! Start reading at [`Scenario`]; `tributary-document` is how values and their positions come out of
//! the TOML.

mod endpoints;
mod faults;
mod jobs;
mod network;
mod pace;
mod protocol;
mod scenario;
mod topology;

use std::path::Path;
use std::time::Duration;

use tributary_document::{Document, Kind};
use tributary_protocol::rtt::RttConfig;

pub use scenario::{
    Aggregation, Digits, Distribution, Duty, Job, OnUnderflow, Preemption, Profile, Protocol,
    RandomTensors, Scenario, Straggler, SwitchSettings, TensorFiles, Workload,
};
pub use topology::{
    End, Host, HostId, HostRole, Link, LinkFaults, LinkId, Switch, SwitchId, Topology,
};
pub use tributary_document::{Error, Fault};

pub use jobs::SCALES;

use jobs::Jobs;
use network::Demand;

/// What messages call such a file.
const KIND: Kind = Kind { name: "job file", page: "docs/job-files.md" };

const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// Reads and checks a job file. Names of tensor files in it start at its directory, and must exist.
///
/// # Errors
/// [`Error::Read`] if there is no such file or it is not text, [`Error::Invalid`] for whatever is
/// wrong in it.
pub fn load(path: impl AsRef<Path>) -> Result<Scenario, Error> {
    load_with_seed(path, None)
}

/// [`load`], with a seed in place of the file's.
///
/// # Errors
/// As [`load`].
pub fn load_with_seed(path: impl AsRef<Path>, seed: Option<u64>) -> Result<Scenario, Error> {
    let path = path.as_ref();
    let text = KIND.read(path)?;
    let directory = path.parent().unwrap_or(Path::new(""));
    read(&text, &path.display().to_string(), Some(directory), seed)
}

/// Checks the text of a job file. `file` is what messages call it. Nothing is looked up in the file
/// system, and names of tensor files stay as they are.
///
/// # Errors
/// [`Error::Invalid`] for whatever is wrong.
pub fn parse(text: &str, file: &str) -> Result<Scenario, Error> {
    read(text, file, None, None)
}

fn read(
    text: &str,
    file: &str,
    directory: Option<&Path>,
    seed: Option<u64>,
) -> Result<Scenario, Error> {
    let parsed = Document::parse(KIND, text, file)?;
    let document = parsed.table(&[
        "name",
        "seed",
        "timeout",
        "worker_timeout",
        "topology",
        "protocol",
        "switch",
        "faults",
        "job",
    ])?;
    let stem = Path::new(file).file_stem().map_or("job".into(), |stem| stem.to_string_lossy());
    let name = document.or("name", stem.as_ref(), |name| name.word("digits"))?.to_owned();
    let written = document.or("seed", 1, |seed| seed.integer(0..=u64::MAX))?;
    let seed = seed.unwrap_or(written);
    let times = Duration::from_millis(1)..=LONGEST;
    let timeout =
        document.or("timeout", Duration::from_secs(600), |t| t.duration(times.clone()))?;
    let worker_timeout =
        document.or("worker_timeout", Duration::from_secs(10), |t| t.duration(times))?;

    let raw = Jobs::open(&document)?;
    let switch = raw.switch_settings(&document)?;
    let demand = Demand {
        workers: raw.workers_wanted()?,
        servers: raw.servers_wanted()?,
        packet_bytes: switch.packet_bytes(),
    };
    let topology = network::read(&document, demand)?;
    let jobs = raw.resolve(&topology, &switch, seed, directory)?;
    Ok(Scenario {
        name,
        seed,
        timeout,
        worker_timeout,
        timeouts: RttConfig::default(),
        recovery: protocol::recovery(&document)?,
        topology,
        switch,
        jobs,
    })
}
