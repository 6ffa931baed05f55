//! Tables in a database file that can be written again after a write has failed.
//!
//! redb refuses everything after the first error of its file. So a [`Store`] has in memory what the file must
//! have. After a failed write, the next one opens the file again, and writes all of that with its own change in
//! one transaction. Nothing is left of the change that failed, also if it has reached the disk.
//!
//! The lock of the file belongs to its [`Disk`], not to the database, so that no other process gets it in between.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use redb::{
    Database, ReadableDatabase as _, ReadableTable as _, StorageBackend, TableDefinition,
    WriteTransaction,
};

/// Jobs as JSON, by ID.
pub(crate) const JOBS: TableDefinition<'_, u16, &[u8]> = TableDefinition::new("jobs");

/// Of the network that the jobs run in, by name.
pub(crate) const NETWORK: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("network");

/// Only the owner may read and write.
const OWNER: u32 = 0o600;

/// Permissions of users other than the owner.
const OTHERS: u32 = 0o077;

/// A locked file. Clones share it.
#[derive(Clone, Debug)]
pub struct Disk(Arc<File>);

impl Disk {
    /// Opens or creates a file, and locks it; `None` if another process has the lock. It has keys of jobs, so only its
    /// owner may read it.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(OWNER);
        let file = options.open(path)?;
        if file.metadata()?.permissions().mode() & OTHERS != 0 {
            file.set_permissions(Permissions::from_mode(OWNER))?;
        }
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(Arc::new(file)))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
}

/// The contents of all tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    pub(crate) jobs: BTreeMap<u16, Vec<u8>>,
    pub(crate) network: BTreeMap<String, Vec<u8>>,
}

/// A change of one entry.
#[derive(Debug)]
pub(crate) enum Change {
    Job(u16, Vec<u8>),
    Forget(u16),
    Network(&'static str, Vec<u8>),
}

impl Tables {
    fn read(database: &Database) -> Result<Self, redb::Error> {
        let transaction = database.begin_read()?;
        let mut all = Self::default();
        for entry in transaction.open_table(JOBS)?.iter()? {
            let (id, text) = entry?;
            all.jobs.insert(id.value(), text.value().to_vec());
        }
        for entry in transaction.open_table(NETWORK)?.iter()? {
            let (name, value) = entry?;
            all.network.insert(name.value().to_owned(), value.value().to_vec());
        }
        Ok(all)
    }

    /// Replaces what the file has.
    fn write(&self, transaction: &WriteTransaction) -> Result<(), redb::Error> {
        transaction.delete_table(JOBS)?;
        let mut jobs = transaction.open_table(JOBS)?;
        for (id, text) in &self.jobs {
            jobs.insert(id, text.as_slice())?;
        }
        transaction.delete_table(NETWORK)?;
        let mut network = transaction.open_table(NETWORK)?;
        for (name, value) in &self.network {
            network.insert(name.as_str(), value.as_slice())?;
        }
        Ok(())
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Job(id, text) => drop(self.jobs.insert(id, text)),
            Change::Forget(id) => drop(self.jobs.remove(&id)),
            Change::Network(name, value) => drop(self.network.insert(name.to_owned(), value)),
        }
    }
}

impl Change {
    fn write(&self, transaction: &WriteTransaction) -> Result<(), redb::Error> {
        match self {
            Self::Job(id, text) => {
                drop(transaction.open_table(JOBS)?.insert(id, text.as_slice())?);
            }
            Self::Forget(id) => drop(transaction.open_table(JOBS)?.remove(id)?),
            Self::Network(name, value) => {
                drop(transaction.open_table(NETWORK)?.insert(name, value.as_slice())?);
            }
        }
        Ok(())
    }
}

/// The tables, in memory and in a file.
#[derive(Debug)]
pub(crate) struct Store<B> {
    backend: B,
    /// `None` after a write that failed.
    database: Option<Database>,
    tables: Tables,
}

/// Opens a database, or makes one of an empty file.
pub(crate) fn open(
    backend: &(impl StorageBackend + Clone),
) -> Result<Database, redb::DatabaseError> {
    Database::builder().create_with_backend(backend.clone())
}

impl<B: StorageBackend + Clone> Store<B> {
    /// The tables of a database, which must have them.
    pub(crate) fn new(backend: B, database: Database) -> Result<Self, redb::Error> {
        let tables = Tables::read(&database)?;
        Ok(Self { backend, database: Some(database), tables })
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Whether the last write has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.database.is_none()
    }

    /// Makes a change. It is on disk when this returns, or has not happened.
    pub(crate) fn write(&mut self, change: Change) -> Result<(), redb::Error> {
        // Dropped after an error, with what it has in memory of the file.
        self.database = Some(self.written(&change)?);
        self.tables.apply(change);
        Ok(())
    }

    fn written(&mut self, change: &Change) -> Result<Database, redb::Error> {
        let before = self.database.take();
        let whole = before.is_none();
        let database = before.map_or_else(|| open(&self.backend), Ok)?;
        let transaction = database.begin_write()?;
        if whole {
            self.tables.write(&transaction)?;
        }
        change.write(&transaction)?;
        // The data is on disk when this returns: redb's default durability is `Immediate`.
        transaction.commit()?;
        Ok(database)
    }
}
