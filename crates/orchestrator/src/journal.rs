//! Jobs in a database file, so that a controller that was killed goes on with them: those of the job scheduler, or
//! those that a controller admits from its job file.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use redb::{
    Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableHandle as _,
};
use serde::{Deserialize, Serialize};
use tributary_controller::entries::JobSlot;
use tributary_controller::plan::Placement;
use tributary_controller::scheduler::{Demand, Handover, Iteration, Journal, Record};
use tributary_crossconnect::{Circuits, Port};
use tributary_jobfile::{Aggregation, HostId, Limits, Topology};
use tributary_protocol::priority::Priority;
use tributary_protocol::{Assignment, Mode, Rate};
use tributary_wire::{AggregatorIndex, Epoch, JobId, Segment, Service, WorkerIndex, WorkerSet};

/// Jobs as JSON, by ID.
const JOBS: TableDefinition<'_, u16, &[u8]> = TableDefinition::new("jobs");

/// Of the network that the jobs run in, by name.
const NETWORK: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("network");

/// Names of all hosts and switches: jobs name hosts by their numbers.
const NAMES: &str = "names";

/// The circuits that switches routed over last.
const CIRCUITS: &str = "circuits";

/// Name of the version of the tables.
const LAYOUT: &str = "layout";

/// What a version begins with, which distinguishes our files from those of other programs.
const OURS: &str = "tributary orchestrator ";

/// The versions that this program reads. It writes the last one.
const VERSIONS: [&str; 3] = ["1", "2", "3"];

/// Why the journal is unusable.
#[derive(Debug, thiserror::Error)]
#[error("journal {path}: {what}")]
pub struct JournalError {
    path: PathBuf,
    what: String,
}

/// A journal in a file. Only one process may open it at a time.
#[derive(Debug)]
pub struct Redb {
    database: Database,
    path: PathBuf,
}

impl Redb {
    /// Opens or creates a file for this network. If the process or machine died while the file was
    /// open, it is repaired.
    ///
    /// # Errors
    /// If the file cannot be opened, another process has it open, it is not a journal, or it has jobs
    /// of another network.
    pub fn open(path: &Path, topology: &Topology) -> Result<Self, JournalError> {
        let path = path.to_owned();
        let opened = Database::create(&path).map_err(|error| {
            let what = match error {
                redb::DatabaseError::DatabaseAlreadyOpen => {
                    "another process has it open; end that one, or name another file".to_owned()
                }
                other => other.to_string(),
            };
            JournalError { path: path.clone(), what }
        });
        let mut store = Self { database: opened?, path };
        // Otherwise redb verifies checksums only where it reads.
        match store.database.check_integrity() {
            Ok(true) => {}
            Ok(false) => return Err(store.failure("it was damaged; restore it from a copy")),
            Err(error) => return Err(store.failure(format!("it is damaged: {error}"))),
        }
        let hosts = topology.hosts.iter().map(|host| host.name.as_str());
        let switches = topology.switches.iter().map(|switch| switch.name.as_str());
        let names = hosts.chain(switches).collect::<Vec<_>>().join(" ");
        match store.at(store.prepare(names.as_bytes()))? {
            Fit::Ours => Ok(store),
            Fit::Foreign => {
                Err(store.failure("it is the database of another program; name another file"))
            }
            Fit::Version(version) => {
                let (first, last) = (VERSIONS[0], VERSIONS[VERSIONS.len() - 1]);
                Err(store.failure(format!(
                    "it has version {version}, and this program reads versions {first} to {last}; use the \
                     program that wrote it, or remove it after its jobs are over"
                )))
            }
            Fit::Network => Err(store.failure(
                "it belongs to another network; name another file, or remove it after the jobs of \
                 that network are over",
            )),
        }
    }

    /// The jobs that the file has.
    ///
    /// # Errors
    /// If the file cannot be read, or a job does not fit the network.
    pub fn records(&self, topology: &Topology) -> Result<Vec<Record>, JournalError> {
        let all = self.at(self.read())?;
        all.into_iter()
            .map(|(id, text)| {
                let stored: Option<Stored> = serde_json::from_slice(&text).ok();
                let record = stored.and_then(|stored| stored.record(id));
                let fitting = record.filter(|record| record.fits(topology));
                fitting.ok_or_else(|| self.failure(format!("job {id} in it makes no sense")))
            })
            .collect()
    }

    /// The circuits that were [kept](Self::keep_circuits) last.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn circuits(&self) -> Result<Circuits, JournalError> {
        let bytes = self.at(self.value(CIRCUITS))?;
        let pairs: Vec<(u16, u16)> = match bytes {
            Some(bytes) => serde_json::from_slice(&bytes)
                .map_err(|_| self.failure("its circuits make no sense"))?,
            None => Vec::new(),
        };
        Circuits::new(pairs.into_iter().map(|(a, b)| (Port(a), Port(b))))
            .map_err(|error| self.failure(format!("its circuits make no sense: {error}")))
    }

    /// Keeps the circuits that switches route over.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn keep_circuits(&self, circuits: &Circuits) -> Result<(), JournalError> {
        let pairs: Vec<(u16, u16)> = circuits.pairs().map(|(a, b)| (a.0, b.0)).collect();
        let text = serde_json::to_vec(&pairs).expect("pairs of numbers");
        self.at(self.set(CIRCUITS, &text))
    }

    fn at<T>(&self, result: Result<T, redb::Error>) -> Result<T, JournalError> {
        result.map_err(|error| self.failure(error.to_string()))
    }

    fn failure(&self, what: impl Into<String>) -> JournalError {
        JournalError { path: self.path.clone(), what: what.into() }
    }

    /// Creates missing tables. An empty file becomes one of this version and network, and an earlier
    /// version becomes this one.
    fn prepare(&self, names: &[u8]) -> Result<Fit, redb::Error> {
        let transaction = self.database.begin_write()?;
        if transaction.list_tables()?.next().is_some()
            && !transaction.list_tables()?.any(|table| table.name() == NETWORK.name())
        {
            return Ok(Fit::Foreign);
        }
        let fit = {
            let empty = transaction.open_table(JOBS)?.iter()?.next().is_none();
            let mut network = transaction.open_table(NETWORK)?;
            let text = |name: &str| -> Result<Option<Vec<u8>>, redb::Error> {
                Ok(network.get(name)?.map(|kept| kept.value().to_vec()))
            };
            let fresh = network.iter()?.next().is_none() && empty;
            let layout = text(LAYOUT)?.map(|text| String::from_utf8_lossy(&text).into_owned());
            let version = layout.as_deref().and_then(|layout| layout.strip_prefix(OURS));
            let same = text(NAMES)?.is_none_or(|known| known == names);
            match version {
                None if !fresh => Fit::Foreign,
                Some(version) if !VERSIONS.contains(&version) => Fit::Version(version.to_owned()),
                _ if !same && !empty => Fit::Network,
                _ => {
                    let version = format!("{OURS}{}", VERSIONS[VERSIONS.len() - 1]);
                    network.insert(LAYOUT, version.as_bytes())?;
                    network.insert(NAMES, names)?;
                    if !same {
                        network.remove(CIRCUITS)?;
                    }
                    Fit::Ours
                }
            }
        };
        transaction.commit()?;
        Ok(fit)
    }

    fn read(&self) -> Result<Vec<(u16, Vec<u8>)>, redb::Error> {
        let jobs = self.database.begin_read()?.open_table(JOBS)?;
        let mut all = Vec::new();
        for entry in jobs.iter()? {
            let (id, text) = entry?;
            all.push((id.value(), text.value().to_vec()));
        }
        Ok(all)
    }

    fn value(&self, name: &str) -> Result<Option<Vec<u8>>, redb::Error> {
        let network = self.database.begin_read()?.open_table(NETWORK)?;
        Ok(network.get(name)?.map(|value| value.value().to_vec()))
    }

    fn set(&self, name: &str, value: &[u8]) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        transaction.open_table(NETWORK)?.insert(name, value)?;
        transaction.commit()?;
        Ok(())
    }

    fn change(&self, job: JobId, text: Option<&[u8]>) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        {
            let mut jobs = transaction.open_table(JOBS)?;
            match text {
                Some(text) => drop(jobs.insert(job.get(), text)?),
                None => drop(jobs.remove(job.get())?),
            }
        }
        transaction.commit()?;
        Ok(())
    }
}

impl Journal for Redb {
    fn lasts(&self) -> bool {
        true
    }

    fn keep(&self, record: &Record) -> Result<(), String> {
        let text = serde_json::to_vec(&Stored::of(record)).expect("records are plain data");
        let kept = self.at(self.change(record.placement.job, Some(&text)));
        kept.map_err(|error| error.to_string())
    }

    fn forget(&self, job: JobId) -> Result<(), String> {
        self.at(self.change(job, None)).map_err(|error| error.to_string())
    }
}

/// Whether a file is a journal for this program and network.
enum Fit {
    Ours,
    /// It is another program's.
    Foreign,
    /// Of another version.
    Version(String),
    /// It has jobs of another network.
    Network,
}

/// A [`Record`] as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    epoch: u32,
    slot: u8,
    workers: Vec<usize>,
    server: Option<usize>,
    at_server: bool,
    two_levels: bool,
    service: u8,
    offset: u32,
    size: u32,
    /// 0: local, 1: partial, 2: forwarded.
    mode: u8,
    /// Bits of a worker per iteration, iterations (0: not known), and aggregators.
    demand: Option<(u64, u64, u32)>,
    iteration: u64,
    unfinished: Vec<u16>,
    /// 0: no limit.
    rate: u64,
    /// Files of version 1 may lack what follows.
    #[serde(default)]
    name: String,
    /// 0: none.
    #[serde(default)]
    lease: u32,
    #[serde(default)]
    tenant: Option<String>,
    /// The rate that switches enforce (0: none), and the highest priority.
    #[serde(default)]
    max_rate: u64,
    #[serde(default = "highest")]
    max_priority: u8,
    /// The host of the reminder agent.
    #[serde(default)]
    agent: Option<usize>,
    #[serde(default)]
    last_service: u8,
    /// The run before (0: none), whose remaining workers go on, and the rounds whose sums stay. Files of
    /// version 2 lack both.
    #[serde(default)]
    before: u32,
    #[serde(default)]
    rounds: u64,
}

const fn highest() -> u8 {
    Priority::HIGHEST.get()
}

const MODES: [Mode; 3] = [Mode::Local, Mode::Partial, Mode::Forwarded];

impl Stored {
    fn of(record: &Record) -> Self {
        let Record { placement, slot, last_service, .. } = record;
        let Record { demand, iteration, rate, name, lease, tenant, handover, .. } = record;
        let Placement { epoch, workers, ps, agent, aggregation, assignment, .. } = placement;
        let Placement { two_levels, limits, .. } = placement;
        let mode = MODES.iter().position(|mode| *mode == assignment.mode).expect("all are there");
        Self {
            epoch: epoch.get(),
            slot: slot.get(),
            workers: workers.iter().map(|host| host.0).collect(),
            server: ps.map(|host| host.0),
            at_server: *aggregation == Aggregation::Server,
            two_levels: *two_levels,
            service: assignment.service.get(),
            offset: assignment.segment.offset.0,
            size: assignment.segment.size,
            mode: mode as u8,
            demand: demand.map(|Demand { bits, iterations, aggregators }| {
                (bits.get(), iterations.map_or(0, NonZeroU64::get), aggregators)
            }),
            iteration: iteration.number,
            unfinished: iteration.unfinished.iter().map(WorkerIndex::get).collect(),
            rate: rate.map_or(0, Rate::get),
            name: name.clone(),
            lease: lease.map_or(0, Epoch::get),
            tenant: tenant.clone(),
            max_rate: limits.rate.map_or(0, Rate::get),
            max_priority: limits.priority.get(),
            agent: agent.map(|host| host.0),
            last_service: last_service.get(),
            before: handover.map_or(0, |handover| handover.before.get()),
            rounds: handover.map_or(0, |handover| handover.rounds),
        }
    }

    /// `None` if a number is impossible.
    fn record(self, job: u16) -> Option<Record> {
        let unfinished = self.unfinished.iter().map(|&worker| WorkerIndex::new(worker));
        let unfinished = unfinished.collect::<Option<Vec<_>>>()?.into_iter();
        let demand = match self.demand {
            Some((bits, iterations, aggregators)) => Some(Demand {
                bits: NonZeroU64::new(bits)?,
                iterations: NonZeroU64::new(iterations),
                aggregators,
            }),
            None => None,
        };
        let segment = Segment { offset: AggregatorIndex(self.offset), size: self.size };
        Some(Record {
            placement: Placement {
                job: JobId::new(job)?,
                epoch: Epoch::new(self.epoch)?,
                workers: self.workers.into_iter().map(HostId).collect(),
                ps: self.server.map(HostId),
                agent: self.agent.map(HostId),
                aggregation: if self.at_server {
                    Aggregation::Server
                } else {
                    Aggregation::Network
                },
                assignment: Assignment {
                    service: Service::new(self.service),
                    segment,
                    mode: *MODES.get(usize::from(self.mode))?,
                },
                two_levels: self.two_levels,
                limits: Limits {
                    rate: Rate::new(self.max_rate),
                    priority: Priority::new(self.max_priority)?,
                },
            },
            slot: JobSlot::new(self.slot)?,
            // Version 1 has only that of the assignment.
            last_service: Service::new(self.last_service.max(self.service)),
            demand,
            iteration: Iteration {
                number: self.iteration,
                unfinished: unfinished
                    .map(WorkerSet::of)
                    .fold(WorkerSet::EMPTY, |all, one| all | one),
            },
            rate: Rate::new(self.rate),
            name: self.name,
            lease: Epoch::new(self.lease),
            tenant: self.tenant,
            handover: Epoch::new(self.before)
                .map(|before| Handover { before, rounds: self.rounds }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(units: u32) -> Topology {
        let text = format!(
            "protocol = \"p4inc\"\n[topology]\nunits = {units}\n[[job]]\nworkers = [\"w1\"]\n"
        );
        tributary_jobfile::parse(&text, "units").unwrap_or_else(|error| panic!("{error}")).topology
    }

    fn record(job: u16, mode: Mode) -> Record {
        let forwarded = mode == Mode::Forwarded;
        let segment = Segment { offset: AggregatorIndex(7), size: 32 };
        let assignment = Assignment { service: Service::new(3), segment, mode };
        let text = format!(
            "{{\"epoch\":9,\"slot\":{},\"workers\":[0,1],\"server\":2,\
            \"at_server\":false,\"two_levels\":true,\"service\":0,\"offset\":0,\"size\":0,\"mode\":2,\
            \"demand\":[640,0,32],\"iteration\":5,\"unfinished\":[1],\"rate\":1000}}",
            job + 1
        );
        let stored: Stored = serde_json::from_str(&text).unwrap();
        let mut record = stored.record(job).unwrap();
        record.placement.assignment = if forwarded { Assignment::NONE } else { assignment };
        record.last_service = record.placement.assignment.service;
        record
    }

    #[test]
    fn records_come_back_as_they_were() {
        let directory = tempfile::tempdir().unwrap();
        let (path, topology) = (directory.path().join("journal.redb"), topology(4));
        let journal = Redb::open(&path, &topology).unwrap();
        let records =
            [record(1, Mode::Local), record(2, Mode::Partial), record(9, Mode::Forwarded)];
        records.iter().for_each(|record| journal.keep(record).unwrap());
        let (name, lease, tenant) = ("resnet".to_owned(), Epoch::new(77), Some("blue".to_owned()));
        let handover = Some(Handover { before: Epoch::new(8).unwrap(), rounds: 17 });
        let other = Record { rate: None, demand: None, handover, ..records[1].clone() };
        let other = Record { name, lease, tenant, ..other };
        journal.keep(&other).unwrap();
        let circuits = Circuits::new([(Port(1), Port(4))]).unwrap();
        journal.keep_circuits(&circuits).unwrap();
        drop(journal);
        let journal = Redb::open(&path, &topology).unwrap();
        let [one, _, nine] = records;
        assert_eq!(journal.records(&topology).unwrap(), [one, other, nine.clone()]);
        assert_eq!(journal.circuits().unwrap(), circuits);
        journal.forget(JobId::new(1).unwrap()).unwrap();
        journal.forget(JobId::new(2).unwrap()).unwrap();
        assert_eq!(journal.records(&topology).unwrap(), [nine]);
    }

    #[test]
    fn a_journal_of_another_network_is_refused_unless_it_is_empty() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.redb");
        let journal = Redb::open(&path, &topology(4)).unwrap();
        journal.keep(&record(1, Mode::Local)).unwrap();
        let busy = Redb::open(&path, &topology(4)).unwrap_err().to_string();
        assert!(busy.contains("another process has it open"), "{busy}");
        drop(journal);
        let refused = Redb::open(&path, &topology(3)).unwrap_err().to_string();
        assert!(refused.contains("it belongs to another network"), "{refused}");
        let journal = Redb::open(&path, &topology(4)).unwrap();
        journal.forget(JobId::new(1).unwrap()).unwrap();
        drop(journal);
        assert_eq!(Redb::open(&path, &topology(3)).unwrap().records(&topology(3)).unwrap(), []);
    }

    #[test]
    fn a_journal_of_an_earlier_version_is_taken_over_and_one_of_a_later_version_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (path, topology) = (directory.path().join("journal.redb"), topology(4));
        Redb::open(&path, &topology).unwrap().keep(&record(1, Mode::Local)).unwrap();
        let written = |version: &str| {
            let journal = Redb::open(&path, &topology).unwrap();
            journal.at(journal.set(LAYOUT, format!("{OURS}{version}").as_bytes())).unwrap();
        };
        for version in ["1", "2"] {
            written(version);
            let journal = Redb::open(&path, &topology).unwrap();
            assert_eq!(journal.records(&topology).unwrap(), [record(1, Mode::Local)]);
            assert_eq!(
                journal.at(journal.value(LAYOUT)).unwrap().unwrap(),
                b"tributary orchestrator 3"
            );
        }
        written("4");
        let error = Redb::open(&path, &topology).unwrap_err().to_string();
        assert!(error.contains("has version 4, and this program reads versions 1 to 3"), "{error}");
    }

    #[test]
    fn other_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal.redb");
        std::fs::write(&path, vec![7; 4096]).unwrap();
        let error = Redb::open(&path, &topology(2)).unwrap_err().to_string();
        assert!(error.starts_with("journal ") && error.lines().count() == 1, "{error}");
        std::fs::remove_file(&path).unwrap();
        let other = Database::create(&path).unwrap();
        let transaction = other.begin_write().unwrap();
        transaction.open_table(TableDefinition::<u32, u32>::new("theirs")).unwrap();
        transaction.commit().unwrap();
        drop(other);
        let error = Redb::open(&path, &topology(2)).unwrap_err().to_string();
        assert!(error.contains("the database of another program"), "{error}");
    }

    #[test]
    fn records_that_make_no_sense_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (path, topology) = (directory.path().join("journal.redb"), topology(2));
        let journal = Redb::open(&path, &topology).unwrap();
        for (field, value) in [
            ("\"workers\":[0,1]", "\"workers\":[0,99]"),
            ("\"slot\":2", "\"slot\":0"),
            ("\"unfinished\":[1]", "\"unfinished\":[5]"),
            ("\"mode\":2", "\"mode\":3"),
            ("\"epoch\":9", "\"epoch\":0"),
            ("\"rate\":1000", "\"rate\":-1"),
            ("\"workers\":[0,1]", "\"workers\":[]"),
        ] {
            let good = serde_json::to_string(&Stored::of(&record(1, Mode::Forwarded))).unwrap();
            assert!(good.contains(field), "{good}");
            let text = good.replace(field, value);
            journal.at(journal.change(JobId::new(1).unwrap(), Some(text.as_bytes()))).unwrap();
            let error = journal.records(&topology).unwrap_err().to_string();
            assert!(error.ends_with("job 1 in it makes no sense"), "{value}: {error}");
        }
    }
}
