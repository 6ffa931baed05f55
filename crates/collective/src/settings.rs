//! From a user's settings to a job.
//!
//! Settings are TOML: `[group]` has the keys of this module, `[job]` those of a job, and all other keys
//! are those of a [job file](tributary_model::jobfile). The network and the workers follow from the ranks.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};
use tributary_base::document::{Document, Kind};
use tributary_dataplane::ROW_BITS;
use tributary_model::{Protocol, Scenario};
use tributary_protocol::fragments;

use crate::scales::Precision;

const KIND: Kind = Kind { name: "settings", page: "docs/start/pytorch.md" };

/// What messages call the settings.
const NAME: &str = "the group's settings";

/// The only job of a group.
pub const JOB: usize = 0;

/// Most workers below a single switch, and below each of several.
const SWITCH: usize = 32;
const RACK: usize = 31;

/// Most threads of a switch.
const MOST_SWITCH_THREADS: u16 = 16;

/// Aggregators of a row.
const ROW: u32 = 1 << ROW_BITS;

/// What the sums are of values that are NaN or infinite.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NonFinite {
    /// What floating-point addition makes of each, as mixed-precision training expects.
    #[default]
    Propagate,
    /// An error at all ranks.
    Raise,
}

/// Settings of a group that are not its job's.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Group {
    /// See [`NonFinite`].
    pub nonfinite: NonFinite,
    /// See [`Precision`].
    pub precision: Precision,
    /// Fragments per thread of a rank after which the job begins another run, because a run's sequence numbers
    /// are limited; `None` for half of them.
    pub fragments_per_run: Option<u32>,
    /// Threads of each switch; `None` before the settings are completed, unless the user has set them.
    pub switch_threads: Option<u16>,
    /// Whether the group has a switch although all its ranks are on one host.
    pub switch: bool,
    /// Whether ranks also agree before calls that something else carries out.
    pub check: bool,
}

impl Group {
    /// Fragments of a lane after which the job begins another run; `None` if it has only one run: the
    /// reminder agent of ESA serves no other.
    pub(crate) fn fragments_per_run(&self, protocol: Protocol) -> Option<u64> {
        let half = fragments(protocol) / 2;
        let wanted = self.fragments_per_run.unwrap_or(half).min(half);
        (!protocol.has_reminder_agent()).then_some(wanted.into())
    }
}

/// The settings of a group that needs no switch if all its ranks are on one host: a user's settings are not for a
/// network, and do not ask for one.
///
/// # Errors
/// If the settings are invalid.
pub fn in_memory(text: &str) -> Result<Option<Group>> {
    let (table, group) = read(text)?;
    let asks = group.switch || group.switch_threads.is_some() || group.fragments_per_run.is_some();
    Ok((table.is_empty() && !asks).then_some(group))
}

/// The settings of a group at a controller, whose job's settings are for the network.
///
/// # Errors
/// If the settings are invalid, or decide what the network decides.
pub fn at_controller(text: &str) -> Result<Group> {
    Ok(within(text)?.0)
}

/// Whether each rank is to be a worker of its own, although ranks of a host could add in memory.
///
/// # Errors
/// If the settings are invalid.
pub fn is_each_alone(text: &str) -> Result<bool> {
    Ok(read(text)?.1.switch)
}

/// A user's settings for a group in a network with a controller: those of the group, and the text of the table `[job]`.
///
/// # Errors
/// If the settings are invalid, or decide what the network decides.
pub(crate) fn within(text: &str) -> Result<(Group, String)> {
    let (mut table, group) = read(text)?;
    let job = job(&mut table)?;
    if let Some(key) = table.keys().next() {
        bail!(
            "the settings have the key `{key}`, which the network's job file decides for all jobs of \
             a controller; remove it"
        );
    }
    ensure!(
        !job.contains_key("threads") && group.switch_threads.is_none(),
        "the settings have threads, and a rank at a controller has one port; remove them"
    );
    Ok((group, toml::to_string(&Table::from_iter([("job".to_owned(), Value::from(job))]))?))
}

/// Settings, complete.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Those that are not the job's.
    pub group: Group,
    /// The text of a job file with one job.
    pub job_file: String,
}

/// Number of ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ranks {
    /// Workers of the group's job: its members.
    pub all: usize,
    /// Those on the host of the switch.
    pub here: usize,
    /// Ranks there, which share its processors.
    pub sharing: usize,
}

impl Ranks {
    /// All on the same host.
    #[must_use]
    pub fn of_one_host(all: usize) -> Self {
        Self { all, here: all, sharing: all }
    }
}

impl Settings {
    /// Completes a user's settings for a group of these ranks. A rank is waited for at most `timeout`.
    ///
    /// # Errors
    /// If the settings are invalid.
    pub fn complete(text: &str, ranks: Ranks, timeout: Duration) -> Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self::complete_on(cores, text, ranks, timeout)
    }

    fn complete_on(cores: usize, text: &str, ranks: Ranks, timeout: Duration) -> Result<Self> {
        let (mut table, mut group) = read(text)?;
        for key in ["topology", "orchestrator", "name", "timeout", "worker_timeout"] {
            ensure!(
                !table.contains_key(key),
                "the settings have the key `{key}`, which follows from the group; remove it"
            );
        }
        // A group chooses its own packet size and slots; a paper's values do not fit them.
        ensure!(
            !table.contains_key("profile"),
            "the settings have the key `profile`, which is for job files; write its rules into [protocol]"
        );
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
        let on_one_host = ranks.here == ranks.all;
        let protocol = with_defaults(
            protocol,
            if on_one_host { defaults(2048, 32) } else { defaults(256, 128) },
        );
        let kind = protocol.get("kind").and_then(Value::as_str);
        let chosen = Threads::choose(cores, ranks, kind.unwrap_or_default());
        let switch_threads = *group.switch_threads.get_or_insert(chosen.switch);
        job.entry("threads").or_insert(i64::from(chosen.lanes).into());
        let is_p4inc = kind == Some("p4inc");
        job.insert("name".into(), "group".into());
        job.insert("workers".into(), Value::from(i64::try_from(ranks.all)?));
        table.insert("protocol".into(), protocol.into());
        table.insert("worker_timeout".into(), patience(timeout));
        table.insert("topology".into(), topology(ranks.all)?.into());
        let written = |job: Table| -> Result<Self> {
            let mut table = table.clone();
            table.insert("job".into(), vec![Value::from(job)].into());
            Ok(Self { group: group.clone(), job_file: toml::to_string(&table)? })
        };
        let mut settings = written(job.clone())?;
        let scenario = settings.scenario()?;
        let its = &scenario.jobs[JOB];
        if is_p4inc && switch_threads > 1 && !job.contains_key("segment") {
            let lanes = its.lane.count as u32;
            let size = segment(its.slots, lanes, switch_threads.into());
            // Otherwise some threads have less to do.
            if size * lanes <= scenario.network.switch.pool {
                job.insert("segment".into(), i64::from(size).into());
                settings = written(job)?;
                settings.scenario()?;
            }
        }
        Ok(settings)
    }

    /// The threads that pass packets.
    ///
    /// # Errors
    /// If the job file is invalid.
    pub fn threads(&self) -> Result<Threads> {
        let lanes = self.scenario()?.jobs[JOB].lane.count;
        let lanes = u16::try_from(lanes).context("a worker has at most 16 threads")?;
        Ok(Threads { lanes, switch: self.group.switch_threads.unwrap_or(1) })
    }

    /// The job.
    ///
    /// # Errors
    /// If the job file is invalid.
    pub fn scenario(&self) -> Result<Scenario> {
        Ok(tributary_model::jobfile::parse(&self.job_file, NAME)?)
    }
}

/// Threads that pass packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Threads {
    /// Of each rank: its lanes.
    pub lanes: u16,
    /// Of each switch.
    pub switch: u16,
}

impl Threads {
    /// Number of tunnels between a rank and its switch: each lane has one to each of the switch's
    /// threads.
    #[must_use]
    pub fn tunnels(self) -> usize {
        usize::from(self.lanes) * usize::from(self.switch)
    }

    /// The threads where the switch's host has this many cores: they leave some for the training
    /// itself. A switch handles the packets of all ranks, so that it comes first.
    fn choose(cores: usize, ranks: Ranks, protocol: &str) -> Self {
        let mut chosen = Self { lanes: 1, switch: 1 };
        if ranks.all > SWITCH {
            // There are several switches, each with a thread.
            return chosen;
        }
        let power = |number: usize, most: u16| {
            let number = u16::try_from(number).unwrap_or(u16::MAX).clamp(1, most);
            1 << number.ilog2()
        };
        // The partitions of SwitchML's jobs all begin at aggregators of the first thread.
        if protocol != "switchml" {
            chosen.switch = power(cores / 4, 4);
        }
        chosen.lanes = power(cores / (2 * ranks.sharing.max(1)), 4);
        // A process may have about a thousand files.
        while chosen.tunnels() * ranks.all > 256 && chosen.lanes > 1 {
            chosen.lanes /= 2;
        }
        chosen
    }
}

/// Size of each lane's segment (P4INC) with which the aggregators of all lanes together are as many at
/// each of a switch's threads. Threads share aggregators out in rows.
fn segment(slots: u32, lanes: u32, switch_threads: u32) -> u32 {
    // The smallest number of rows that, times the number of lanes, is a multiple of that of the threads.
    let mut unit = 1;
    while !(unit * lanes).is_multiple_of(switch_threads) {
        unit += 1;
    }
    slots.div_ceil(ROW).next_multiple_of(unit) * ROW
}

/// The settings, and those of `[group]`, which are taken out of them.
fn read(text: &str) -> Result<(Table, Group)> {
    let document = Document::parse(KIND, text, NAME)?;
    let mut table: Table = text.parse().context("the settings are TOML for one reader only")?;
    // Who reads the job file looks at the others.
    let keys: Vec<&str> = table.keys().map(String::as_str).collect();
    let own = ["nonfinite", "precision", "fragments_per_run", "switch_threads", "switch", "check"];
    let own = document.table(&keys)?.table("group", &own)?;
    let choices = [("propagate", NonFinite::Propagate), ("raise", NonFinite::Raise)];
    let precisions =
        [("single", Precision::Single), ("auto", Precision::Auto), ("double", Precision::Double)];
    let group = Group {
        nonfinite: own.or("nonfinite", NonFinite::default(), |item| item.choice(&choices))?,
        precision: own.or("precision", Precision::default(), |item| item.choice(&precisions))?,
        fragments_per_run: own
            .or("fragments_per_run", None, |item| item.integer32(1..=u32::MAX).map(Some))?,
        switch_threads: own.or("switch_threads", None, |item| {
            let threads = item.integer32(1..=MOST_SWITCH_THREADS.into())?;
            Ok(u16::try_from(threads).ok())
        })?,
        switch: own.or("switch", false, |item| item.boolean())?,
        check: own.or("check", false, |item| item.boolean())?,
    };
    table.remove("group");
    Ok((table, group))
}

/// The keys of the group's job.
fn job(table: &mut Table) -> Result<Table> {
    let job = match table.remove("job").unwrap_or_else(|| Table::new().into()) {
        Value::Table(job) => job,
        _ => bail!("the settings have several jobs; write one `[job]`, the group's"),
    };
    ensure!(
        !job.contains_key("on_death"),
        "[job] in the settings has the key `on_death`: a group ends with the first rank that dies, because the others \
         cannot know which gradients it has applied; remove it, and restart with torchrun from a checkpoint"
    );
    for key in ["workers", "workload", "ps", "agent", "straggler"] {
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
    use tributary_model::{Deployment, Protocol};

    use super::*;

    fn complete(text: &str, ranks: usize) -> Result<Scenario> {
        on_cores(2, text, Ranks::of_one_host(ranks))?.scenario()
    }

    fn on_cores(cores: usize, text: &str, ranks: Ranks) -> Result<Settings> {
        Settings::complete_on(cores, text, ranks, Duration::from_secs(60))
    }

    #[test]
    fn defaults_suit_one_host() {
        for ranks in [2, 32, 33, 200] {
            let scenario = complete("", ranks).unwrap();
            assert_eq!(scenario.jobs[0].workers.len(), ranks);
            assert_eq!(scenario.jobs[0].protocol, Protocol::P4inc);
            assert_eq!(scenario.network.switch.values_per_packet, 2048);
        }
    }

    #[test]
    fn settings_of_job_files_are_kept() {
        let text = "protocol = \"esa\"\n[faults]\nloss = 0.05\n[job]\nwindow = 4\nslots = 16\n";
        let scenario = complete(text, 3).unwrap();
        let job = &scenario.jobs[0];
        assert_eq!((job.protocol, job.window, job.slots), (Protocol::Esa, 4, 16));
        let text = "[protocol]\nkind = \"atp\"\nvalues_per_packet = 64\n";
        assert_eq!(complete(text, 3).unwrap().network.switch.values_per_packet, 64);
    }

    #[test]
    fn threads_follow_from_the_cores_and_the_ranks() {
        let one_host = Ranks::of_one_host;
        let cases = [
            (2, one_host(2), (1, 1)),
            (2, one_host(4), (1, 1)),
            (2, Ranks { all: 2, here: 1, sharing: 1 }, (1, 1)),
            (4, one_host(2), (1, 1)),
            (8, one_host(2), (2, 2)),
            (16, one_host(2), (4, 4)),
            (16, one_host(4), (2, 4)),
            (16, one_host(16), (1, 4)),
            (128, one_host(2), (4, 4)),
            (128, Ranks { all: 32, here: 1, sharing: 1 }, (2, 4)),
            // Each host is one worker for eight ranks.
            (128, Ranks { all: 2, here: 1, sharing: 8 }, (4, 4)),
            (16, Ranks { all: 2, here: 1, sharing: 8 }, (1, 4)),
            (128, one_host(33), (1, 1)),
        ];
        for (cores, ranks, (lanes, switch)) in cases {
            let threads = on_cores(cores, "", ranks).unwrap().threads().unwrap();
            assert_eq!(threads, Threads { lanes, switch }, "{cores} cores, {ranks:?}");
        }
        let set = "[job]\nthreads = 3\n[group]\nswitch_threads = 2\n";
        for cores in [1, 64] {
            let threads = on_cores(cores, set, one_host(2)).unwrap().threads().unwrap();
            assert_eq!(threads, Threads { lanes: 3, switch: 2 });
        }
        let switchml = on_cores(16, "protocol = \"switchml\"\n", one_host(2)).unwrap();
        assert_eq!(switchml.threads().unwrap(), Threads { lanes: 4, switch: 1 });
    }

    /// The threads of a switch share rows out by their number.
    #[test]
    fn each_thread_of_a_switch_has_as_many_aggregators() {
        for (lanes, threads) in (1..=16).flat_map(|lanes| (1..=16).map(move |k| (lanes, k))) {
            let text = format!("[job]\nthreads = {lanes}\n[group]\nswitch_threads = {threads}\n");
            let settings = on_cores(2, &text, Ranks::of_one_host(2)).unwrap();
            let deployment = Deployment::new(settings.scenario().unwrap()).unwrap();
            let mut aggregators = vec![0_u32; threads];
            for job in 0..deployment.scenario().jobs.len() {
                let segment = deployment.assignment(job).segment;
                for index in segment.offset.0..segment.end().unwrap().0 {
                    aggregators[(index >> ROW_BITS) as usize % threads] += 1;
                }
            }
            // Not all fit the pool with more threads.
            if threads > 1 && lanes * threads <= 64 {
                assert!(aggregators.iter().all(|n| *n == aggregators[0]), "{text}{aggregators:?}");
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_one_clear_line() {
        let cases = [
            ("x = [", "the group's settings:1:"),
            ("[topology]\n", "the key `topology`"),
            ("profile = \"esa-paper\"\n", "the key `profile`, which is for job files"),
            ("[job]\nworkers = 3\n", "the key `workers`"),
            (
                "[group]\nnonfinite = \"ignore\"\n",
                "the group's settings:2:13: `nonfinite` cannot be \"ignore\"",
            ),
            (
                "[group]\nnothing = 1\n",
                "the group's settings:2:1: unknown key `nothing` in [group]",
            ),
            ("[group]\nswitch_threads = 0\n", "the group's settings:2:18: "),
            ("[group]\nswitch_threads = 17\n", "16"),
            ("[group]\nfragments_per_run = 0\n", "the group's settings:2:21: "),
            ("[job]\nthreads = 0\n", "threads"),
            ("protocol = 3\n", "give a name or a table"),
            ("[protocol]\nslots = 3.5\n", "slots"),
            ("[[job]]\n[[job]]\n", "write one `[job]`"),
        ];
        for (text, expected) in cases {
            let error = tributary_base::one_line(complete(text, 2).unwrap_err().as_ref());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
