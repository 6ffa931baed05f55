//! Reads which protocol a file uses, and what only one of the protocols needs.

use std::time::Duration;

use crate::LONGEST;
use crate::error::Error;
use crate::reader::{Item, Table};
use crate::scenario::{Preemption, Profile, Protocol};

/// Keys of `[protocol]`.
const KEYS: [&str; 5] = ["kind", "values_per_packet", "scale", "slots", "window"];
/// The protocols that the switches have a program for.
const PROTOCOLS: [(&str, Protocol); 2] = [("atp", Protocol::Atp), ("esa", Protocol::Esa)];
const PREEMPTIONS: [(&str, Preemption); 3] = [
    ("priority", Preemption::Priority),
    ("always", Preemption::Always),
    ("coin", Preemption::Coin),
];

/// Keys of a job that only ESA looks at.
pub(crate) const ESA_KEYS: [&str; 5] =
    ["layers", "communication", "computation", "remaining", "agent"];

const MAX_LAYERS: u32 = 1 << 20;
/// Longest training that is left, more than a year.
const MAX_REMAINING: Duration = Duration::from_secs(400 * 24 * 3600);
/// For times that are divided by.
const SHORTEST: Duration = Duration::from_nanos(1);

/// `[protocol]`, or the empty table where the file names the protocol in one word.
pub(crate) fn settings<'a>(document: &Table<'a>) -> Result<Table<'a>, Error> {
    document.table_unless_word("protocol", &KEYS)
}

/// The protocol of a file, and how to name another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    pub(crate) protocol: Protocol,
    /// What to write to use ESA in this file.
    esa: &'static str,
}

impl Choice {
    /// What the file says, else what the first job that says something says, else ATP. A switch runs
    /// one program, so there is one protocol a file.
    pub(crate) fn read(document: &Table<'_>, jobs: &[Table<'_>]) -> Result<Self, Error> {
        let settings = settings(document)?;
        let word = document.get("protocol").filter(Item::is_string);
        let of_file = word.or_else(|| settings.get("kind"));
        let of_jobs = || jobs.iter().find_map(|job| job.get("protocol"));
        let protocol = match of_file.or_else(of_jobs) {
            Some(item) => item.choice(&PROTOCOLS)?,
            None => Protocol::Atp,
        };
        let table = document.get("protocol").is_some_and(|item| !item.is_string());
        let esa = if table {
            "write `kind = \"esa\"` into [protocol]"
        } else {
            "write `protocol = \"esa\"` at the top of the file"
        };
        Ok(Self { protocol, esa })
    }

    /// Refuses a job that wants another protocol than the rest of the file.
    pub(crate) fn check(self, job: &Table<'_>) -> Result<(), Error> {
        let Some(item) = job.get("protocol") else { return Ok(()) };
        let own = item.choice(&PROTOCOLS)?;
        if own == self.protocol {
            return Ok(());
        }
        Err(item.fault(
            format!(
                "the job wants \"{}\" but the file uses \"{}\", and a switch runs one program",
                own.name(),
                self.protocol.name()
            ),
            "put jobs with different protocols into different files",
        ))
    }

    /// Refuses keys that only ESA looks at where the file uses another protocol.
    pub(crate) fn refuse_esa_keys(self, table: &Table<'_>, keys: &[&str]) -> Result<(), Error> {
        if self.protocol == Protocol::Esa {
            return Ok(());
        }
        match keys.iter().find_map(|key| table.get(key)) {
            None => Ok(()),
            Some(item) => Err(item.fault(
                format!(
                    "{} means nothing to \"{}\", the protocol of this file",
                    item.name(),
                    self.protocol.name()
                ),
                format!("{}, or leave {} out", self.esa, item.name()),
            )),
        }
    }

    /// `[switch] preemption`.
    pub(crate) fn preemption(self, switch: &Table<'_>) -> Result<Preemption, Error> {
        self.refuse_esa_keys(switch, &["preemption"])?;
        switch.or("preemption", Preemption::Priority, |item| item.choice(&PREEMPTIONS))
    }

    /// Refuses what only ATP's switches do.
    pub(crate) fn refuse_atp_keys(self, switch: &Table<'_>) -> Result<(), Error> {
        match switch.get("idle_timeout") {
            Some(item) if self.protocol == Protocol::Esa => Err(item.fault(
                "`idle_timeout` means nothing to \"esa\", the protocol of this file",
                "leave it out: there, each lost collision halves an aggregator's priority instead",
            )),
            _ => Ok(()),
        }
    }
}

/// What a job says about its training.
pub(crate) fn profile(job: &Table<'_>) -> Result<Profile, Error> {
    let default = Profile::default();
    let time = |item: &Item<'_>| item.duration(SHORTEST..=LONGEST);
    let remaining = job.get("remaining");
    Ok(Profile {
        layers: job.or("layers", default.layers, |item| item.integer32(1..=MAX_LAYERS))?,
        communication: job.or("communication", default.communication, time)?,
        computation: job.or("computation", default.computation, time)?,
        remaining: remaining.map(|item| item.duration(SHORTEST..=MAX_REMAINING)).transpose()?,
    })
}
