//! Reads the protocol of a file, and the keys of a single protocol.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use tributary_base::document::{Error, Item, Table, suggest};
use tributary_protocol::priority::Code;
use tributary_protocol::rtt::RttConfig;
use tributary_protocol::{Addressing, LaterResults, Readings, Recovery};

use crate::jobfile::LONGEST;
use crate::papers::{Paper, Rules};
use crate::{Aggregation, Preemption, Profile, Protocol, SwitchId, Topology};

/// Keys of `[protocol]`.
const KEYS: [&str; 15] = [
    "kind",
    "values_per_packet",
    "scale",
    "max_underflow",
    "on_underflow",
    "slots",
    "window",
    "rate",
    "recovery",
    "addressing",
    "priority_unit",
    "later_results",
    "initial_timeout",
    "min_timeout",
    "max_timeout",
];
/// The protocols for which the switches have a program.
fn protocols() -> [(&'static str, Protocol); 4] {
    Protocol::ALL.map(|protocol| (protocol.name(), protocol))
}
/// The profiles of papers.
fn papers() -> [(&'static str, Paper); 3] {
    Paper::ALL.map(|paper| (paper.name(), paper))
}
const AGGREGATIONS: [(&str, Aggregation); 2] =
    [("network", Aggregation::Network), ("server", Aggregation::Server)];
const RECOVERIES: [(&str, Recovery); 2] =
    [(Recovery::Rack.name(), Recovery::Rack), (Recovery::Papers.name(), Recovery::Papers)];
const LATER_RESULTS: [(&str, LaterResults); 2] =
    [("halve", LaterResults::Halve), ("leave", LaterResults::Ignore)];
const ADDRESSINGS: [(&str, Addressing); 3] = [
    (Addressing::Default.name(), Addressing::Default),
    (Addressing::Hashed.name(), Addressing::Hashed),
    (Addressing::Spread.name(), Addressing::Spread),
];
const PREEMPTIONS: [(&str, Preemption); 3] = [
    ("priority", Preemption::Priority),
    ("always", Preemption::Always),
    ("coin", Preemption::Coin),
];

/// Keys of a job that only ESA uses.
pub(crate) const ESA_KEYS: [&str; 7] = [
    "layers",
    "communication",
    "computation",
    "remaining",
    "agent",
    "max_priority",
    "max_preemption",
];
/// Keys of a job that only P4INC uses.
pub(crate) const P4INC_KEYS: [&str; 3] = ["segment", "aggregation", "update"];
/// Keys of a job that only ATP uses.
pub(crate) const ATP_KEYS: [&str; 1] = ["switches"];
/// Default number of partitions of the pool (SwitchML).
const PARTITIONS: u32 = 8;

const MAX_LAYERS: u32 = 1 << 20;
/// Maximum remaining training time, more than a year.
const MAX_REMAINING: Duration = Duration::from_secs(400 * 24 * 3600);
/// Minimum of times that are divisors.
const SHORTEST: Duration = Duration::from_nanos(1);

/// `[protocol]`, or an empty table if the file names the protocol in one word.
pub(crate) fn settings<'a>(document: &Table<'a>) -> Result<Table<'a>, Error> {
    document.table_unless_word("protocol", &KEYS)
}

/// Range of retransmission timeouts.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_micros(1)..=Duration::from_secs(60);

/// Range of the value of one level of a linear code of priorities.
const UNITS: RangeInclusive<f64> = 1e-12..=1e12;

/// The protocol of a file, the location of its setting, and the profile from which other rules come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    pub(crate) protocol: Protocol,
    paper: Option<Paper>,
    /// Whether the file has a table `[protocol]`, where the user would change the protocol.
    table: bool,
}

impl Choice {
    /// The protocol of the profile, else of `[protocol]`, else of the first job that names one, else ATP. A
    /// switch runs one program, so there is one protocol per file.
    pub(crate) fn read(document: &Table<'_>, jobs: &[Table<'_>]) -> Result<Self, Error> {
        let settings = settings(document)?;
        let word = document.get("protocol").filter(Item::is_string);
        let of_file = word.or_else(|| settings.get("kind"));
        let of_jobs = || jobs.iter().find_map(|job| job.get("protocol"));
        let table = document.get("protocol").is_some_and(|item| !item.is_string());
        if let Some(profile) = document.get("profile") {
            let paper = profile.choice(&papers())?;
            let choice = Self { protocol: paper.rules().protocol, paper: Some(paper), table };
            of_file.map_or(Ok(()), |item| choice.compare(&item))?;
            return Ok(choice);
        }
        let protocol = match of_file.or_else(of_jobs) {
            Some(item) => item.choice(&protocols())?,
            None => Protocol::Atp,
        };
        Ok(Self { protocol, paper: None, table })
    }

    /// The rules of the profile, if the file has one.
    pub(crate) fn rules(self) -> Option<Rules> {
        self.paper.map(Paper::rules)
    }

    /// Rejects a protocol that differs from that of the file.
    fn compare(self, item: &Item<'_>) -> Result<(), Error> {
        let own = item.choice(&protocols())?;
        if own == self.protocol {
            return Ok(());
        }
        let (own, protocol) = (own.name(), self.protocol.name());
        Err(match self.paper {
            Some(paper) => item.fault(
                format!(
                    "{} is \"{own}\", but the profile \"{}\" is for \"{protocol}\"",
                    item.name(),
                    paper.name()
                ),
                format!("leave {} or `profile` out", item.name()),
            ),
            None => item.fault(
                format!(
                    "the job wants \"{own}\" but the file uses \"{protocol}\", and a switch runs one program"
                ),
                "put jobs with different protocols into different files",
            ),
        })
    }

    /// Rejects a job whose protocol differs from the rest of the file.
    pub(crate) fn check(self, job: &Table<'_>) -> Result<(), Error> {
        job.get("protocol").map_or(Ok(()), |item| self.compare(&item))
    }

    /// Rejects keys of protocol `owner` if the file uses another protocol.
    fn keep_for(self, owner: Protocol, table: &Table<'_>, keys: &[&str]) -> Result<(), Error> {
        if owner == self.protocol {
            return Ok(());
        }
        let Some(item) = keys.iter().find_map(|key| table.get(key)) else { return Ok(()) };
        let owner = owner.name();
        let write = if self.table {
            format!("write `kind = \"{owner}\"` into [protocol]")
        } else {
            format!("write `protocol = \"{owner}\"` at the top of the file")
        };
        let instead = if self.paper.is_some() { " instead of `profile`" } else { "" };
        Err(item.fault(
            format!("{} means nothing to {self}, the protocol of this file", item.name()),
            format!("{write}{instead}, or leave {} out", item.name()),
        ))
    }

    /// Rejects keys of a job that only other protocols use.
    pub(crate) fn refuse_keys_of_others(self, job: &Table<'_>) -> Result<(), Error> {
        self.keep_for(Protocol::Atp, job, &ATP_KEYS)?;
        self.keep_for(Protocol::Esa, job, &ESA_KEYS)?;
        self.keep_for(Protocol::P4inc, job, &P4INC_KEYS)
    }

    /// `[protocol] recovery`.
    pub(crate) fn recovery(self, protocol: &Table<'_>) -> Result<Recovery, Error> {
        let default = self.rules().map_or_else(Recovery::default, |rules| rules.recovery);
        protocol.or("recovery", default, |item| item.choice(&RECOVERIES))
    }

    /// `[protocol] later_results`: without it, what three later results do depends on the protocol.
    pub(crate) fn readings(
        self,
        protocol: &Table<'_>,
        recovery: Recovery,
    ) -> Result<Readings, Error> {
        let default = self.rules().map_or_else(Readings::default, |rules| rules.readings);
        let Some(item) = protocol.get("later_results") else { return Ok(default) };
        if recovery != Recovery::Papers {
            return Err(item.fault(
                format!(
                    "{} means nothing with the recovery \"{}\", which does not count later results",
                    item.name(),
                    recovery.name()
                ),
                format!(
                    "write `recovery = \"papers\"` into [protocol], or leave {} out",
                    item.name()
                ),
            ));
        }
        Ok(Readings { later_results: item.choice(&LATER_RESULTS)?, ..default })
    }

    /// `[protocol] initial_timeout`, `min_timeout` and `max_timeout`.
    pub(crate) fn timeouts(self, protocol: &Table<'_>) -> Result<RttConfig, Error> {
        let read = |key: &str, default| protocol.or(key, default, |item| item.duration(TIMEOUTS));
        let default = self.rules().map_or_else(RttConfig::default, |rules| rules.timeouts);
        let timeouts = RttConfig {
            initial: read("initial_timeout", default.initial)?,
            min: read("min_timeout", default.min)?,
            max: read("max_timeout", default.max)?,
        };
        let RttConfig { initial, min, max } = timeouts;
        for (key, timeout) in [("min_timeout", min), ("initial_timeout", initial)] {
            if timeout > max {
                let written = if protocol.get(key).is_some() { key } else { "max_timeout" };
                return Err(protocol.place_of(written).fault(
                    format!("`{key}` is {timeout:?}, longer than `max_timeout`, which is {max:?}"),
                    format!("choose a shorter `{key}` or a longer `max_timeout`"),
                ));
            }
        }
        Ok(timeouts)
    }

    /// `[protocol] addressing`.
    pub(crate) fn addressing(self, protocol: &Table<'_>) -> Result<Addressing, Error> {
        if self.protocol.has_segments() {
            self.keep_for(Protocol::Atp, protocol, &["addressing"])?;
        }
        let default = self.rules().map_or_else(Addressing::default, |rules| rules.addressing);
        protocol.or("addressing", default, |item| item.choice(&ADDRESSINGS))
    }

    /// `[protocol] priority_unit`: without it, the code is the profile's, or logarithmic.
    pub(crate) fn priorities(self, protocol: &Table<'_>) -> Result<Code, Error> {
        self.keep_for(Protocol::Esa, protocol, &["priority_unit"])?;
        let linear = |item: &Item<'_>| Ok(Code::Linear { unit: item.number(UNITS)? });
        let default = self.rules().map_or_else(Code::default, |rules| rules.priorities);
        protocol.or("priority_unit", default, linear)
    }

    /// `[switch] partitions`: number of partitions of a pool of `pool` aggregators, each with at
    /// least two.
    pub(crate) fn partitions(self, switch: &Table<'_>, pool: u32) -> Result<u32, Error> {
        self.keep_for(Protocol::SwitchMl, switch, &["partitions"])?;
        let partitions = switch.or("partitions", PARTITIONS, |p| p.integer32(1..=1 << 23))?;
        if self.protocol.has_partitions() && pool / partitions < 2 {
            let written = switch.get("partitions").is_some();
            let place = switch.place_of(if written { "partitions" } else { "pool" });
            return Err(place.fault(
                format!(
                    "{partitions} partitions of {pool} aggregators have no room for two versions \
                     of a slot"
                ),
                "choose fewer partitions or a larger pool",
            ));
        }
        Ok(partitions)
    }

    /// `[switch] preemption`.
    pub(crate) fn preemption(self, switch: &Table<'_>) -> Result<Preemption, Error> {
        self.keep_for(Protocol::Esa, switch, &["preemption"])?;
        switch.or("preemption", Preemption::Priority, |item| item.choice(&PREEMPTIONS))
    }

    /// Rejects settings that only ATP switches have.
    pub(crate) fn refuse_atp_keys(self, switch: &Table<'_>) -> Result<(), Error> {
        let instead = match self.protocol {
            Protocol::Atp => return Ok(()),
            Protocol::Esa => "each lost collision lowers an aggregator's priority instead",
            Protocol::P4inc | Protocol::SwitchMl => "no job takes another's aggregators",
        };
        match switch.get("idle_timeout") {
            None => Ok(()),
            Some(item) => Err(item.fault(
                format!("`idle_timeout` means nothing to {self}, the protocol of this file"),
                format!("leave it out: there, {instead}"),
            )),
        }
    }
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.protocol.name())
    }
}

/// Where the job is summed.
pub(crate) fn aggregation(job: &Table<'_>) -> Result<Aggregation, Error> {
    job.or("aggregation", Aggregation::Network, |item| item.choice(&AGGREGATIONS))
}

/// The switches that add for the job, if it names them.
pub(crate) fn adding(
    job: &Table<'_>,
    topology: &Topology,
) -> Result<Option<BTreeSet<SwitchId>>, Error> {
    let Some(item) = job.get("switches") else { return Ok(None) };
    let named = |item: Item<'_>| {
        let name = item.string("s1")?;
        topology.switch_named(name).ok_or_else(|| {
            let names = || topology.switches.iter().map(|switch| switch.name.as_str());
            let fix = match suggest::nearest(name, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the switches are {}", suggest::list(names())),
            };
            item.fault(format!("there is no switch `{name}`"), fix)
        })
    };
    item.array("a switch")?.into_iter().map(named).collect::<Result<_, _>>().map(Some)
}

/// The job's training profile.
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
