//! From a user's settings to a job.
//!
//! Settings are TOML: `[group]` has the keys of this module, `[job]` those of a job, and all other keys
//! are those of a [job file](tributary_jobfile). The network and the workers follow from the ranks.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};
use tributary_jobfile::Scenario;

/// The only job of a group.
pub const JOB: usize = 0;

/// Most workers below a single switch, and below each of several.
const SWITCH: usize = 32;
const RACK: usize = 31;

/// What a result is if values are NaN or infinite.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NonFinite {
    /// An error at all ranks.
    #[default]
    Raise,
    /// NaN in all elements at all ranks, as mixed-precision training expects.
    Propagate,
}

/// Settings of a group that are not its job's.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Group {
    /// See [`NonFinite`].
    pub nonfinite: NonFinite,
}

/// Settings, complete.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Those that are not the job's.
    pub group: Group,
    /// The text of a job file with one job.
    pub job_file: String,
}

/// Where ranks are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Span {
    /// On one host: packets pass its loopback interface and can be long.
    Host,
    /// On several hosts: packets must fit an ordinary MTU.
    Hosts,
}

impl Settings {
    /// Completes a user's settings for a group of this many ranks. Nobody waits longer than `timeout`
    /// for a rank.
    ///
    /// # Errors
    /// If the settings are invalid.
    pub fn complete(text: &str, ranks: usize, span: Span, timeout: Duration) -> Result<Self> {
        let mut table: Table = text.parse().context("the settings are not TOML")?;
        for key in ["topology", "orchestrator", "name", "timeout", "worker_timeout"] {
            ensure!(
                !table.contains_key(key),
                "the settings have the key `{key}`, which follows from the group; remove it"
            );
        }
        let group = group(&mut table)?;
        let protocol = match table.remove("protocol").unwrap_or_else(|| Table::new().into()) {
            Value::String(kind) => Table::from_iter([("kind".to_owned(), Value::from(kind))]),
            Value::Table(protocol) => protocol,
            other => bail!("`protocol` in the settings is {other}; give a name or a table"),
        };
        let mut job = job(&mut table)?;
        let defaults = |values: i64, slots: i64| {
            [
                ("kind", Value::from("p4inc")),
                ("values_per_packet", Value::from(values)),
                ("slots", Value::from(slots)),
            ]
        };
        let protocol = with_defaults(
            protocol,
            match span {
                Span::Host => defaults(2048, 32),
                Span::Hosts => defaults(256, 128),
            },
        );
        job.insert("name".into(), "group".into());
        job.insert("workers".into(), Value::from(i64::try_from(ranks)?));
        table.insert("protocol".into(), protocol.into());
        table.insert("worker_timeout".into(), patience(timeout));
        table.insert("topology".into(), topology(ranks)?.into());
        table.insert("job".into(), vec![Value::from(job)].into());
        let settings = Self { group, job_file: toml::to_string(&table)? };
        settings.scenario()?;
        Ok(settings)
    }

    /// Completes a user's settings for a group whose ranks are on these hosts of a network, which a job
    /// file describes.
    ///
    /// # Errors
    /// If the settings are invalid, or do not suit the network.
    pub fn within(text: &str, network: &str, hosts: &[String], timeout: Duration) -> Result<Self> {
        let mut table: Table = text.parse().context("the settings are not TOML")?;
        let group = group(&mut table)?;
        let mut job = job(&mut table)?;
        if let Some(key) = table.keys().next() {
            bail!(
                "the settings have the key `{key}`, which the network's job file decides for all jobs of \
                 a controller; remove it"
            );
        }
        job.insert("name".into(), "group".into());
        let hosts = hosts.iter().map(|host| Value::from(host.clone()));
        job.insert("workers".into(), hosts.collect::<Vec<_>>().into());
        let mut table: Table = network.parse().context("the network's job file is not TOML")?;
        table.insert("worker_timeout".into(), patience(timeout));
        table.insert("job".into(), vec![Value::from(job)].into());
        let settings = Self { group, job_file: toml::to_string(&table)? };
        settings.scenario()?;
        Ok(settings)
    }

    /// The job.
    ///
    /// # Errors
    /// If the job file is invalid.
    pub fn scenario(&self) -> Result<Scenario> {
        Ok(tributary_jobfile::parse(&self.job_file, "the group's settings")?)
    }
}

fn group(table: &mut Table) -> Result<Group> {
    match table.remove("group") {
        Some(group) => group.try_into().context("[group] in the settings"),
        None => Ok(Group::default()),
    }
}

/// The keys of the group's job.
fn job(table: &mut Table) -> Result<Table> {
    let job = match table.remove("job").unwrap_or_else(|| Table::new().into()) {
        Value::Table(job) => job,
        _ => bail!("the settings have several jobs; write one `[job]`, the group's"),
    };
    for key in ["workers", "workload", "ps", "agent", "threads", "straggler"] {
        ensure!(
            !job.contains_key(key),
            "[job] in the settings has the key `{key}`, which follows from the group; remove it"
        );
    }
    Ok(job)
}

fn patience(timeout: Duration) -> Value {
    let limited = timeout.clamp(Duration::from_millis(1), Duration::from_secs(1 << 20));
    format!("{}ms", limited.as_millis()).into()
}

fn with_defaults<const N: usize>(mut table: Table, defaults: [(&str, Value); N]) -> Table {
    for (key, value) in defaults {
        table.entry(key).or_insert(value);
    }
    table
}

fn topology(ranks: usize) -> Result<Table> {
    let number =
        |number: usize| Ok::<_, std::num::TryFromIntError>(Value::from(i64::try_from(number)?));
    let entries = if ranks <= SWITCH {
        [("kind", "star".into()), ("workers", number(ranks)?)].to_vec()
    } else {
        let racks = number(ranks.div_ceil(RACK))?;
        [("kind", "racks".into()), ("racks", racks), ("hosts_per_rack", number(RACK)?)].to_vec()
    };
    Ok(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

#[cfg(test)]
mod tests {
    use tributary_jobfile::Protocol;

    use super::*;

    fn complete(text: &str, ranks: usize) -> Result<Scenario> {
        Settings::complete(text, ranks, Span::Host, Duration::from_secs(60))?.scenario()
    }

    #[test]
    fn defaults_suit_one_host() {
        for ranks in [2, 32, 33, 200] {
            let scenario = complete("", ranks).unwrap();
            assert_eq!(scenario.jobs[0].workers.len(), ranks);
            assert_eq!(scenario.jobs[0].protocol, Protocol::P4inc);
            assert_eq!(scenario.switch.values_per_packet, 2048);
        }
    }

    #[test]
    fn settings_of_job_files_are_kept() {
        let text = "protocol = \"esa\"\n[faults]\nloss = 0.05\n[job]\nwindow = 4\nslots = 16\n";
        let scenario = complete(text, 3).unwrap();
        let job = &scenario.jobs[0];
        assert_eq!((job.protocol, job.window, job.slots), (Protocol::Esa, 4, 16));
        let text = "[protocol]\nkind = \"atp\"\nvalues_per_packet = 64\n";
        assert_eq!(complete(text, 3).unwrap().switch.values_per_packet, 64);
    }

    #[test]
    fn what_makes_no_sense_is_one_clear_line() {
        let cases = [
            ("x = [", "the settings are not TOML"),
            ("[topology]\n", "the key `topology`"),
            ("[job]\nworkers = 3\n", "the key `workers`"),
            ("[group]\nnonfinite = \"ignore\"\n", "unknown variant `ignore`"),
            ("[group]\nnothing = 1\n", "unknown field `nothing`"),
            ("protocol = 3\n", "give a name or a table"),
            ("[protocol]\nslots = 3.5\n", "slots"),
            ("[[job]]\n[[job]]\n", "write one `[job]`"),
        ];
        for (text, expected) in cases {
            let error = tributary_job::one_line(&complete(text, 2).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
