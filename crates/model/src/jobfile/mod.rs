//! Job files: topology, jobs, protocol and faults, validated.
//!
//! A job file is TOML. [`load`] reads one and returns a [`Scenario`]: plain values with all
//! defaults filled in, references resolved, hosts addressed and switch ports numbered. Every error
//! in a file becomes one line that names file, line and column and tells how to fix it ([`Error`]).
//!
//! This module does not start or connect anything. `docs/start/job-files.md` documents the format for
//! users.
//!
//! Start reading at [`load`]. A [`Site`] has the network of a file for jobs that come later. The values are those of
//! `tributary-model`; `tributary_base::document` reads values and their positions from the TOML.

mod draft;
mod jobs;
mod network;
mod orchestration;
mod protocol;
mod site;
mod units;

use std::path::Path;
use std::time::Duration;

use crate::{Scenario, Topology};
use tributary_base::document::{Document, Kind};

pub use tributary_base::document::{Error, Fault};

pub use jobs::Place;
pub use site::Site;

use draft::Demand;
use jobs::Jobs;

/// The name of such a file in messages.
const KIND: Kind = Kind { name: "job file", page: "docs/start/job-files.md" };

/// The keys of a job file.
const KEYS: [&str; 11] = [
    "name",
    "seed",
    "timeout",
    "worker_timeout",
    "topology",
    "profile",
    "protocol",
    "switch",
    "faults",
    "orchestrator",
    "job",
];

/// The warning where the rates and latencies of links have no effect.
pub const TIMING_IGNORED: &str = "`rate` and `latency` of links are ignored: they have an effect only \
     with `tributary run --fabric sim`; `delay` in [faults] has one everywhere";

const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// Longest run.
const LONGEST_RUN: Duration = Duration::from_secs(1000 * 24 * 3600);

/// Reads and validates a job file. Names of tensor files are relative to its directory, and the
/// files must exist.
///
/// # Errors
///
/// [`Error::Read`] if the file does not exist or is not text, [`Error::Invalid`] for any error in
/// its content.
pub fn load(path: impl AsRef<Path>) -> Result<Scenario, Error> {
    load_with_seed(path, None)
}

/// [`load`] with a seed that overrides the file's.
///
/// # Errors
///
/// As for [`load`].
pub fn load_with_seed(path: impl AsRef<Path>, seed: Option<u64>) -> Result<Scenario, Error> {
    let path = path.as_ref();
    let text = KIND.read(path)?;
    let directory = path.parent().unwrap_or(Path::new(""));
    read(&text, &path.display().to_string(), Some(directory), seed)
}

/// What of a scenario depends on the switches that are to run it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Switches {
    /// Whether they are BMv2's, which are slow.
    pub bmv2: bool,
    /// Whether their programs are for TNA.
    pub tna: bool,
}

/// Most values per packet with the programs for TNA: one Tofino pipe has no stateful ALUs for more.
const TNA_VALUES: u16 = 32;

/// [`load_with_seed`] for these switches.
///
/// # Errors
///
/// As for [`load`].
pub fn load_for(
    path: impl AsRef<Path>,
    seed: Option<u64>,
    switches: Switches,
) -> Result<Scenario, Error> {
    let mut scenario = load_with_seed(path, seed)?;
    if switches.bmv2 {
        scenario.pace_for_bmv2();
    }
    if switches.tna {
        let values = &mut scenario.network.switch.values_per_packet;
        *values = TNA_VALUES.min(*values);
    }
    Ok(scenario)
}

/// Validates the text of a job file. Messages call the file `file`. The file system is not
/// accessed, and names of tensor files stay unchanged.
///
/// # Errors
///
/// [`Error::Invalid`] for any error in the text.
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
    let document = parsed.table(&KEYS)?;
    let stem = Path::new(file).file_stem().map_or("job".into(), |stem| stem.to_string_lossy());
    let name = document.or("name", stem.as_ref(), |name| name.word("digits"))?.to_owned();
    let written = document.or("seed", 1, |seed| seed.integer(0..=u64::MAX))?;
    let seed = seed.unwrap_or(written);
    let times = Duration::from_millis(1)..=LONGEST;
    let timeout = document
        .or("timeout", Duration::from_secs(600), |t| t.duration(*times.start()..=LONGEST_RUN))?;
    let worker_timeout =
        document.or("worker_timeout", Duration::from_secs(10), |t| t.duration(times))?;

    let raw = Jobs::open(&document)?;
    let switch = raw.switch_settings(&document)?;
    let demand = Demand {
        workers: raw.workers_wanted()?,
        servers: raw.servers_wanted()?,
        packet_bytes: switch.packet_bytes(),
    };
    let other_traffic = jobs::other_traffic(&document)?;
    let topology = Topology { other_traffic, ..network::read(&document, demand)? };
    let orchestration = match &topology.optical {
        Some(optical) => {
            raw.check_re_patching(&document)?;
            raw.refuse_threads()?;
            Some(orchestration::read(&document, optical.outage)?)
        }
        None => match document.get("orchestrator") {
            Some(item) => {
                return Err(item.fault(
                    "[orchestrator] without a cross-connect",
                    "give the units one: [topology] units = 4",
                ));
            }
            None => None,
        },
    };
    let jobs = raw.resolve(&topology, &switch, seed, directory)?;
    if orchestration.as_ref().is_some_and(|settings| settings.partial_inc) {
        raw.refuse_losses_of_parts(&topology, &jobs)?;
    }
    Ok(Scenario {
        name,
        seed,
        timeout,
        network: raw.network(topology, switch, worker_timeout)?,
        orchestration,
        jobs,
    })
}
