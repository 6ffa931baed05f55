//! Jobs in a database file, so that a controller that was killed goes on with them: those that
//! clients have admitted, and those that it admits from its job file.

use std::collections::BTreeSet;
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redb::{Database, ReadableTable as _, StorageBackend, TableHandle as _};
use serde::{Deserialize, Serialize};
use tributary_controller::entries::JobSlot;
use tributary_controller::service::{Demand, Described, Journal, Record};
use tributary_model::job::{Handover, Iteration};
use tributary_model::{
    Aggregation, HostId, JobSpec, Limits, SwitchId, Topology,
    circuits::{Circuits, Port},
    plan::Placement,
};
use tributary_protocol::priority::Priority;
use tributary_protocol::{Assignment, Mode, Rate};
use tributary_wire::channel::Token;
use tributary_wire::{AggregatorIndex, Epoch, JobId, Segment, Service, WorkerIndex, WorkerSet};

use crate::orchestrator::store::{self, Change, Disk, JOBS, NETWORK, Store};

/// Names of all hosts and switches: jobs name hosts by their numbers.
const NAMES: &str = "names";

/// The circuits that switches routed over last.
const CIRCUITS: &str = "circuits";

/// Name of the version of the tables.
const LAYOUT: &str = "layout";

/// What a version begins with, which distinguishes our files from those of other programs.
const OURS: &str = "tributary orchestrator ";

/// The versions that this program reads. It writes the last one.
const VERSIONS: [&str; 8] = ["1", "2", "3", "4", "5", "6", "7", "8"];

/// Why the journal is unusable.
#[derive(Debug, thiserror::Error)]
#[error("journal {path}: {what}")]
pub struct JournalError {
    path: PathBuf,
    what: String,
}

/// A journal in a file. Only one process may open it at a time.
///
/// A change that cannot be written is refused, and has not happened. The first one, and the end of such a time,
/// are logged.
#[derive(Debug)]
pub struct Redb<B = Disk> {
    store: Mutex<Store<B>>,
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
        let what = match Disk::open(path) {
            Ok(Some(disk)) => return Self::on(disk, path, topology),
            Ok(None) => {
                "another process has it open; end that one, or name another file".to_owned()
            }
            Err(error) => problem(redb::Error::Io(error)),
        };
        Err(JournalError { path: path.to_owned(), what })
    }
}

impl<B: StorageBackend + Clone> Redb<B> {
    /// The same on a device that has the file.
    fn on(disk: B, path: &Path, topology: &Topology) -> Result<Self, JournalError> {
        let failure = |what: String| JournalError { path: path.to_owned(), what };
        let failed = |error: redb::Error| failure(problem(error));
        let mut database = store::open(&disk).map_err(|error| failed(error.into()))?;
        // Otherwise redb verifies checksums only where it reads.
        match database.check_integrity() {
            Ok(true) => {}
            Ok(false) => return Err(failure("it was damaged; restore it from a copy".into())),
            Err(error) => return Err(failure(format!("it is damaged: {error}"))),
        }
        let hosts = topology.hosts.iter().map(|host| host.name.as_str());
        let switches = topology.switches.iter().map(|switch| switch.name.as_str());
        let names = hosts.chain(switches).collect::<Vec<_>>().join(" ");
        let what = match prepare(&database, names.as_bytes()).map_err(failed)? {
            Fit::Ours => {
                let store = Mutex::new(Store::new(disk, database).map_err(failed)?);
                return Ok(Self { store, path: path.to_owned() });
            }
            Fit::Foreign => "it is the database of another program; name another file".to_owned(),
            Fit::Version(version) => {
                let (first, last) = (VERSIONS[0], VERSIONS[VERSIONS.len() - 1]);
                format!(
                    "it has version {version}, and this program reads versions {first} to {last}; use the \
                     program that wrote it, or remove it after its jobs are over"
                )
            }
            Fit::Network => {
                "it belongs to another network; name another file, or remove it after the \
                             jobs of that network are over"
                    .to_owned()
            }
        };
        Err(failure(what))
    }

    /// The jobs that the file has.
    ///
    /// # Errors
    /// If a job does not fit the network.
    pub fn records(&self, topology: &Topology) -> Result<Vec<Record>, JournalError> {
        let store = self.store();
        let all = store.tables().jobs.iter();
        all.map(|(&id, text)| {
            let stored: Option<Stored> = serde_json::from_slice(text).ok();
            let record = stored.and_then(|stored| stored.record(id));
            let fitting = record.filter(|record| record.fits(topology));
            fitting.ok_or_else(|| self.failure(format!("job {id} in it makes no sense")))
        })
        .collect()
    }

    /// The circuits that were [kept](Self::keep_circuits) last.
    ///
    /// # Errors
    /// If the file has none that make sense.
    pub fn circuits(&self) -> Result<Circuits, JournalError> {
        let store = self.store();
        let pairs: Vec<(u16, u16)> = match store.tables().network.get(CIRCUITS) {
            Some(bytes) => serde_json::from_slice(bytes)
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
        self.write(Change::Network(CIRCUITS, text))
    }

    fn write(&self, change: Change) -> Result<(), JournalError> {
        let mut store = self.store();
        let failed = store.has_failed();
        let written = store.write(change).map_err(|error| self.failure(problem(error)));
        match &written {
            Ok(()) if failed => {
                tracing::warn!("journal {}: it can be written again", self.path.display());
            }
            Err(error) if !failed => {
                tracing::error!("{error}; jobs stay as they are until it can be written");
            }
            _ => {}
        }
        written
    }

    fn store(&self) -> MutexGuard<'_, Store<B>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self, what: impl Into<String>) -> JournalError {
        JournalError { path: self.path.clone(), what: what.into() }
    }
}

/// What is wrong with a file, and how to fix it.
fn problem(error: redb::Error) -> String {
    match error {
        redb::Error::Io(error) => match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                format!("{error}; free some space on its file system")
            }
            _ => error.to_string(),
        },
        other => other.to_string(),
    }
}

/// Creates missing tables. An empty file becomes one of this version and network, and an earlier
/// version becomes this one.
fn prepare(database: &Database, names: &[u8]) -> Result<Fit, redb::Error> {
    let transaction = database.begin_write()?;
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

impl<B: StorageBackend + Clone> Journal for Redb<B> {
    fn lasts(&self) -> bool {
        true
    }

    fn keep(&self, record: &Record) -> Result<(), String> {
        let text = serde_json::to_vec(&Stored::of(record)).expect("records are plain data");
        let kept = self.write(Change::Job(record.placement.job.get(), text));
        kept.map_err(|error| error.to_string())
    }

    fn forget(&self, job: JobId) -> Result<(), String> {
        self.write(Change::Forget(job.get())).map_err(|error| error.to_string())
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
    /// 0: no lease. Up to version 5, the first run of a job with one.
    #[serde(default)]
    lease: u32,
    #[serde(default)]
    tenant: Option<String>,
    /// The rates that switches enforce (0: none), and the highest priority.
    #[serde(default)]
    max_rate: u64,
    #[serde(default)]
    max_preemption: u64,
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
    /// Whether the run has ended. Files of version 3 lack it.
    #[serde(default)]
    ended: bool,
    /// Whether workers may take part in the run already, and whether a client lets each round begin. Files of version 4
    /// lack both.
    #[serde(default = "yes")]
    begun: bool,
    #[serde(default)]
    stepped: Option<bool>,
    /// All workers, also those that have died.
    #[serde(default)]
    all: Vec<usize>,
    /// What endpoints need to know, if the job is not in the controller's file. Files of version 5 lack it.
    #[serde(default)]
    described: Option<Description>,
    /// The token of a job of the controller's file (ESA), and the switches that add for a job of ATP or P4INC. Files of
    /// version 6 lack both.
    #[serde(default)]
    token: Option<Token>,
    #[serde(default)]
    adding: Option<BTreeSet<usize>>,
    /// Of the demand, in microseconds. Files of version 7 lack it.
    #[serde(default)]
    update: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    spec: JobSpec,
    /// ESA's.
    token: Option<Token>,
    key: Vec<u8>,
}

impl From<&Described> for Description {
    fn from(described: &Described) -> Self {
        let (spec, token) = (described.spec().clone(), described.token());
        Self { spec, token, key: described.key().to_vec() }
    }
}

impl From<Description> for Described {
    fn from(Description { spec, token, key }: Description) -> Self {
        Self::new(spec, token, key)
    }
}

const fn yes() -> bool {
    true
}

const fn highest() -> u8 {
    Priority::HIGHEST.get()
}

const MODES: [Mode; 3] = [Mode::Local, Mode::Partial, Mode::Forwarded];

impl Stored {
    fn of(record: &Record) -> Self {
        let Record { placement, slot, last_service, .. } = record;
        let Record { demand, iteration, rate, name, lease, tenant, handover, .. } = record;
        let Record { begun, ended, stepped, .. } = *record;
        let Placement { epoch, workers, ps, agent, aggregation, assignment, .. } = placement;
        let Placement { two_levels, limits, adding, .. } = placement;
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
            demand: demand.map(|Demand { bits, iterations, aggregators, .. }| {
                (bits.get(), iterations.map_or(0, NonZeroU64::get), aggregators)
            }),
            update: demand.map_or(0, |demand| demand.update.as_micros() as u64),
            iteration: iteration.number,
            unfinished: iteration.unfinished.iter().map(WorkerIndex::get).collect(),
            rate: rate.map_or(0, Rate::get),
            name: name.clone(),
            lease: u32::from(*lease),
            tenant: tenant.clone(),
            max_rate: limits.rate.map_or(0, Rate::get),
            max_preemption: limits.preemption.map_or(0, Rate::get),
            max_priority: limits.priority.get(),
            agent: agent.map(|host| host.0),
            last_service: last_service.get(),
            before: handover.map_or(0, |handover| handover.before.get()),
            rounds: handover.map_or(0, |handover| handover.rounds),
            ended,
            begun,
            stepped: Some(stepped),
            all: record.all.iter().map(|host| host.0).collect(),
            described: record.described.as_ref().map(Into::into),
            token: record.token,
            adding: adding.as_ref().map(|adding| adding.iter().map(|switch| switch.0).collect()),
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
                update: Duration::from_micros(self.update),
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
                adding: self.adding.map(|adding| adding.into_iter().map(SwitchId).collect()),
                assignment: Assignment {
                    service: Service::new(self.service),
                    segment,
                    mode: *MODES.get(usize::from(self.mode))?,
                },
                two_levels: self.two_levels,
                limits: Limits {
                    rate: Rate::new(self.max_rate),
                    preemption: Rate::new(self.max_preemption),
                    priority: Priority::new(self.max_priority)?,
                },
            },
            all: self.all.into_iter().map(HostId).collect(),
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
            lease: self.lease != 0,
            described: self.described.map(Into::into),
            token: self.token,
            tenant: self.tenant,
            handover: Epoch::new(self.before)
                .map(|before| Handover { before, rounds: self.rounds }),
            ended: self.ended,
            begun: self.begun,
            // Earlier, a job had iterations if it was admitted by a client that stepped it.
            stepped: self.stepped.unwrap_or(demand.is_some() || self.iteration > 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicI64;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    fn topology(units: u32) -> Topology {
        let text = format!(
            "protocol = \"p4inc\"\n[topology]\nunits = {units}\n[[job]]\nworkers = [\"w1\"]\n"
        );
        tributary_model::jobfile::parse(&text, "units")
            .unwrap_or_else(|error| panic!("{error}"))
            .network
            .topology
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
        let mut records = records;
        records[2].demand.as_mut().unwrap().update = Duration::from_millis(50);
        records.iter().for_each(|record| journal.keep(record).unwrap());
        let (name, tenant) = ("resnet".to_owned(), Some("blue".to_owned()));
        let handover = Some(Handover { before: Epoch::new(8).unwrap(), rounds: 17 });
        let other = Record { rate: None, demand: None, handover, ..records[1].clone() };
        let text = "protocol = \"p4inc\"\n[[job]]\nid = 2\nworkers = 2\n";
        let spec = tributary_model::jobfile::parse(text, "job").unwrap().jobs.remove(0);
        let described = Some(Described::new(spec, Some(Token([7; 16])), b"key".to_vec()));
        let mut other = Record { name, lease: true, described, tenant, ..other };
        other.placement.adding = Some([SwitchId(1), SwitchId(3)].into());
        other.token = Some(Token([5; 16]));
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
            journal.write(Change::Network(LAYOUT, format!("{OURS}{version}").into())).unwrap();
        };
        for version in ["1", "2", "3", "4", "5", "6", "7"] {
            written(version);
            let journal = Redb::open(&path, &topology).unwrap();
            assert_eq!(journal.records(&topology).unwrap(), [record(1, Mode::Local)]);
            assert_eq!(journal.store().tables().network[LAYOUT], b"tributary orchestrator 8");
        }
        written("9");
        let error = Redb::open(&path, &topology).unwrap_err().to_string();
        assert!(error.contains("has version 9, and this program reads versions 1 to 8"), "{error}");
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
        transaction.open_table(redb::TableDefinition::<u32, u32>::new("theirs")).unwrap();
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
            ("\"unfinished\":[1]", "\"unfinished\":[0,1,5]"),
            ("\"mode\":2", "\"mode\":3"),
            ("\"epoch\":9", "\"epoch\":0"),
            ("\"rate\":1000", "\"rate\":-1"),
            ("\"workers\":[0,1]", "\"workers\":[]"),
            ("\"adding\":null", "\"adding\":[2]"),
            ("\"token\":null", "\"token\":\"07\""),
        ] {
            let good = serde_json::to_string(&Stored::of(&record(1, Mode::Forwarded))).unwrap();
            assert!(good.contains(field), "{good}");
            let text = good.replace(field, value);
            journal.write(Change::Job(1, text.into())).unwrap();
            let error = journal.records(&topology).unwrap_err().to_string();
            assert!(error.ends_with("job 1 in it makes no sense"), "{value}: {error}");
        }
    }

    /// A disk that can be full: the pieces that it takes until it is, and what is written of the next one.
    #[derive(Clone, Debug)]
    struct Full {
        disk: Disk,
        room: Arc<AtomicI64>,
    }

    impl Full {
        const NEVER: i64 = i64::MAX;

        fn take(&self) -> io::Result<()> {
            match self
                .room
                .fetch_update(Relaxed, Relaxed, |room| Some(room.saturating_sub(1).max(-1)))
            {
                Ok(1..) => Ok(()),
                _ => Err(io::Error::from(io::ErrorKind::StorageFull)),
            }
        }
    }

    impl StorageBackend for Full {
        fn len(&self) -> io::Result<u64> {
            self.disk.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.disk.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.take()?;
            self.disk.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            // The data may have reached the disk.
            self.disk.sync_data()?;
            self.take()
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            let taken = self.take();
            let end = if taken.is_ok() { data.len() } else { data.len() / 2 };
            self.disk.write(offset, &data[..end])?;
            taken
        }
    }

    /// Whatever piece of a change, or of what follows it, does not fit.
    #[test]
    fn a_change_that_fails_has_not_happened_and_the_next_one_is_written() {
        let topology = topology(4);
        let directory = tempfile::tempdir().unwrap();
        let [one, two, four] = [1, 2, 4].map(|job| record(job, Mode::Local));
        let three = Record { rate: Rate::new(5), ..record(1, Mode::Local) };
        let mut failures = 0;
        for (pieces, again) in (0..).map(|n| (n / 3, n % 3)) {
            let path = directory.path().join(format!("{pieces}-{again}.redb"));
            let disk = Disk::open(&path).unwrap().unwrap();
            let full = Full { disk, room: Arc::new(AtomicI64::new(Full::NEVER)) };
            let journal = Redb::on(full.clone(), &path, &topology).unwrap();
            journal.keep(&one).unwrap();
            journal.keep(&two).unwrap();
            full.room.store(pieces, Relaxed);
            if journal.keep(&three).is_ok() {
                break;
            }
            failures += 1;
            for pieces in 0..again {
                full.room.store(3 * pieces, Relaxed);
                let error = journal.forget(one.placement.job).unwrap_err();
                assert!(
                    error.contains("free some space") && !error.contains("Previous"),
                    "{error}"
                );
            }
            // Nobody else gets it meanwhile.
            let busy = Redb::open(&path, &topology).unwrap_err().to_string();
            assert!(busy.contains("another process has it open"), "{busy}");
            full.room.store(Full::NEVER, Relaxed);
            journal.forget(two.placement.job).unwrap();
            journal.keep(&four).unwrap();
            let kept = [one.clone(), four.clone()];
            assert_eq!(journal.records(&topology).unwrap(), kept);
            drop((journal, full));
            let journal = Redb::open(&path, &topology).unwrap();
            assert_eq!(journal.records(&topology).unwrap(), kept);
        }
        assert!(failures > 6, "{failures}");
    }
}
