//! The database file.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};

use crate::durable::{Change, Counters, Durable, Store};

/// Jobs as JSON, by number.
const JOBS: TableDefinition<'_, u32, &[u8]> = TableDefinition::new("jobs");

/// Other values, by name.
const NUMBERS: TableDefinition<'_, &str, u32> = TableDefinition::new("numbers");

/// The version of the tables, which also distinguishes our files from those of other programs.
const LAYOUT: (&str, u32) = ("layout", 2);
const LAST_JOB: &str = "last_job";
const LAST_WIRE: &str = "last_wire";

/// Why the database is unusable.
#[derive(Debug, thiserror::Error)]
#[error("database {path}: {what}")]
pub struct DatabaseError {
    path: PathBuf,
    what: String,
}

/// A database in a file. Only one process may open it at a time.
#[derive(Debug)]
pub struct Redb {
    database: Database,
    path: PathBuf,
}

impl Redb {
    /// Opens or creates a file. If the process or machine died while the file was open, it is
    /// repaired. The whole file is read once, because redb verifies checksums only on reading.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened, another process has it open, or it is not one of our
    /// databases.
    pub fn open(path: &Path) -> Result<Self, DatabaseError> {
        let path = path.to_owned();
        // It has the keys of jobs.
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path);
        drop(file.map_err(|error| DatabaseError { path: path.clone(), what: error.to_string() })?);
        let opened = Database::create(&path).map_err(|error| {
            let what = match error {
                redb::DatabaseError::DatabaseAlreadyOpen => {
                    "another manager has it open; end that one, or name another file".to_owned()
                }
                other => other.to_string(),
            };
            DatabaseError { path: path.clone(), what }
        });
        let mut store = Self { database: opened?, path };
        match store.database.check_integrity() {
            Ok(true) => {}
            Ok(false) => return Err(store.failure("it was damaged; restore it from a copy")),
            Err(error) => return Err(store.failure(format!("it is damaged: {error}"))),
        }
        store.at(store.prepare())?;
        Ok(store)
    }

    fn at<T>(&self, result: Result<T, redb::Error>) -> Result<T, DatabaseError> {
        result.map_err(|error| self.failure(error.to_string()))
    }

    fn failure(&self, what: impl Into<String>) -> DatabaseError {
        DatabaseError { path: self.path.clone(), what: what.into() }
    }

    /// Creates missing tables.
    fn prepare(&self) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        {
            transaction.open_table(JOBS)?;
            let mut numbers = transaction.open_table(NUMBERS)?;
            let known = numbers.get(LAYOUT.0)?.is_some();
            if !known {
                numbers.insert(LAYOUT.0, LAYOUT.1)?;
            }
        }
        transaction.commit()?;
        Ok(())
    }

    fn number(&self, name: &str) -> Result<u32, redb::Error> {
        let numbers = self.database.begin_read()?.open_table(NUMBERS)?;
        Ok(numbers.get(name)?.map_or(0, |number| number.value()))
    }

    fn jobs(&self) -> Result<Vec<(u32, Vec<u8>)>, redb::Error> {
        let jobs = self.database.begin_read()?.open_table(JOBS)?;
        let mut all = Vec::new();
        for entry in jobs.iter()? {
            let (id, text) = entry?;
            all.push((id.value(), text.value().to_vec()));
        }
        Ok(all)
    }

    fn write(&mut self, changes: &[Change]) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        {
            let mut jobs = transaction.open_table(JOBS)?;
            let mut numbers = transaction.open_table(NUMBERS)?;
            for change in changes {
                match change {
                    Change::Job(record) => {
                        let text = serde_json::to_vec(record).expect("records are plain data");
                        jobs.insert(record.id, text.as_slice())?;
                    }
                    Change::Forget(job) => drop(jobs.remove(job)?),
                    Change::Counters(Counters { job, wire }) => {
                        numbers.insert(LAST_JOB, job)?;
                        numbers.insert(LAST_WIRE, u32::from(*wire))?;
                    }
                }
            }
        }
        // The data is on disk when this returns: redb's default durability is `Immediate`.
        transaction.commit()?;
        Ok(())
    }
}

impl Store for Redb {
    type Error = DatabaseError;

    fn load(&self) -> Result<Durable, DatabaseError> {
        let layout = self.at(self.number(LAYOUT.0))?;
        if layout != LAYOUT.1 {
            return Err(self.failure(format!(
                "its layout is {layout}, and this program knows layout {}; let the program that wrote it end its \
                 jobs, and begin with a new file",
                LAYOUT.1
            )));
        }
        let mut durable = Durable::default();
        for (id, text) in self.at(self.jobs())? {
            let record = serde_json::from_slice(&text)
                .map_err(|error| self.failure(format!("job {id} cannot be read: {error}")))?;
            durable.jobs.insert(id, record);
        }
        let wire = self.at(self.number(LAST_WIRE))?;
        let wire = u16::try_from(wire).map_err(|_| self.failure("its numbers are no good"))?;
        durable.counters = Counters { job: self.at(self.number(LAST_JOB))?, wire };
        Ok(durable)
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), DatabaseError> {
        let written = self.write(changes);
        self.at(written)
    }
}
