//! Traces: the jobs submitted to a real cluster, with submission times, durations and numbers of
//! GPUs.
//!
//! [`Trace::open`] reads any [`Format`] below, detected by content, or any table whose [`Columns`] are
//! named. An invalid record becomes a [`Warning`] with its line, and reading continues. A file that is
//! not a trace is an [`Error`]. Reading holds one record at a time, so a file may be larger than memory.
//!
//! NetPack §6.1 takes start, end and number of GPUs from the logs and draws each job's model at
//! random; [`Trace::jobs`] does the same for what a trace does not tell.

mod columns;
mod demand;
mod error;
mod format;
mod generate;
mod json;
mod lines;
mod pai;
mod philly;
mod records;
mod swf;
mod table;
mod time;
mod unpack;
mod work;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;

use tributary_base::FileLimit;

use crate::job::Job;
use crate::model::Profile;
use crate::topology::Cluster;
use records::Records;
use unpack::Unpacked;

pub use columns::{Columns, Field};
pub use demand::Demand;
pub use error::{Error, Warning};
pub use format::{Format, Reading};
pub use generate::{Generator, class};
pub use philly::{DURATIONS, GAPS, GPUS, HOURS, JOBS, Marginal, PARTS};
pub use work::{Stream, Told};

/// Maximum number of jobs per trace: three times that of the largest published trace.
pub const MAX_JOBS: usize = 10_000_000;

/// Ten times the size of the largest published trace. It is read in pieces.
const FILE: FileLimit = FileLimit::new("trace", MAX_BYTES);
const MAX_BYTES: u64 = 4 << 30;

/// Some programs write this before UTF-8 text.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

const DAY_S: f64 = 86_400.0;

/// An index into a list of a [`Trace`], in 4 bytes even if there may be none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Index(NonZero<u32>);

impl Index {
    /// `None` if it is too large.
    const fn new(at: usize) -> Option<Self> {
        if at >= u32::MAX as usize {
            return None;
        }
        match NonZero::new(at as u32 + 1) {
            Some(next) => Some(Self(next)),
            None => None,
        }
    }

    /// The index, from 0.
    #[must_use]
    pub const fn at(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A job of a trace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Submission {
    /// Time of submission, in seconds from the first job of the trace.
    pub submit_s: f64,
    /// Time for which it held its GPUs, in seconds; positive.
    pub duration_s: f64,
    /// Its line in the file, from 1.
    pub line: u32,
    /// Number of GPUs, at least 1.
    pub gpus: u32,
    /// Index into [`Trace::groups`]: user, virtual cluster or kind of workload, if the trace has one.
    pub group: Option<Index>,
    /// Index into [`Trace::told`], if the trace tells of the job's work.
    pub told: Option<Index>,
}

/// The jobs of a trace, in the order of submission.
#[derive(Clone, PartialEq, Debug)]
pub struct Trace {
    /// The file as the caller named it.
    pub file: Arc<str>,
    /// Its jobs by time of submission, then by line.
    pub submissions: Vec<Submission>,
    /// Names of the groups of jobs, in the order of appearance.
    pub groups: Vec<String>,
    /// What the trace tells of the work of jobs.
    pub told: Vec<Told>,
    /// Names of models, in the order of appearance.
    pub models: Vec<String>,
    /// Time of day of the trace's second 0, in seconds from midnight UTC.
    pub time_of_day_s: f64,
    /// Omitted records with reasons, by line.
    pub warnings: Vec<Warning>,
}

impl Trace {
    /// Reads a trace, which gzip may have packed. `reading` is a [`Format`], [`Columns`], or `None` to
    /// detect the format by content.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, has no known format, repeats the number of a job, or has no valid
    /// job.
    pub fn open(path: impl AsRef<Path>, reading: impl Into<Reading>) -> Result<Self, Error> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let file =
            FILE.open(path).map_err(|source| Error::Read { file: name.as_str().into(), source })?;
        Self::read(BufReader::with_capacity(1 << 16, file), &name, reading)
    }

    /// [`open`](Self::open) for any reader. Messages call the file `name`.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    pub fn read(
        mut reader: impl BufRead,
        name: &str,
        reading: impl Into<Reading>,
    ) -> Result<Self, Error> {
        let (mut records, reading) = (Records::new(name), reading.into());
        let head = unpack::head(&mut reader).map_err(|source| records.unreadable(source))?;
        let packed = unpack::is_packed(&head);
        let reader = head.as_slice().chain(reader);
        if packed {
            let unpacked = BufReader::with_capacity(1 << 16, Unpacked::new(reader, MAX_BYTES));
            read_into(unpacked, &reading, &mut records)?;
        } else {
            read_into(reader, &reading, &mut records)?;
        }
        records.into_trace()
    }

    /// The first `count` jobs only.
    #[must_use]
    pub fn first(mut self, count: usize) -> Self {
        self.submissions.truncate(count);
        self
    }

    /// A warning for each job that requests more GPUs than the cluster has.
    pub fn too_large(&self, cluster: &Cluster) -> impl Iterator<Item = Warning> + '_ {
        let gpus = cluster.gpus();
        let large = self.submissions.iter().filter(move |job| job.gpus > gpus);
        large.map(move |job| Warning {
            file: self.file.clone(),
            line: u64::from(job.line),
            what: format!(
                "the job wants {} GPUs, the cluster has {gpus}: it is rejected",
                job.gpus
            ),
        })
    }

    /// A warning for each model that is named in the trace, is not among `profiles`, and matters to
    /// a job.
    #[must_use]
    pub fn unknown_models(&self, profiles: &[Profile]) -> Vec<Warning> {
        work::unknown_models(self, profiles)
    }

    /// The jobs of [`jobs`](Self::jobs), one by one.
    ///
    /// # Panics
    ///
    /// If `profiles` is empty.
    #[must_use]
    pub fn stream<'t>(&'t self, profiles: &'t [Profile], seed: u64) -> Stream<'t> {
        Stream::new(self, profiles, seed)
    }

    /// Jobs that take as long as the trace's if they run undisturbed. What the trace does not tell of a
    /// job's work comes from a model drawn from `profiles` (NetPack §6.1). Submission n is job n.
    ///
    /// # Panics
    ///
    /// If `profiles` is empty.
    #[must_use]
    pub fn jobs(&self, profiles: &[Profile], seed: u64) -> Vec<Job> {
        self.stream(profiles, seed).collect()
    }

    /// Writes the trace in our own format.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn write(&self, to: impl Write) -> io::Result<()> {
        const COLUMNS: [&str; 7] =
            ["submit_s", "duration_s", "gpus", "group", "model", "iterations", "gradient_bytes"];
        let grouped = self.submissions.iter().any(|job| job.group.is_some());
        let told = self.submissions.iter().any(|job| job.told.is_some());
        let columns = if told { COLUMNS.len() } else { 3 + usize::from(grouped) };
        let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let mut table = csv::Writer::from_writer(to);
        table.write_record(&COLUMNS[..columns])?;
        for job in &self.submissions {
            let told = job.told.map(|told| self.told[told.at()]).unwrap_or_default();
            let row = [
                &*(self.time_of_day_s + job.submit_s).to_string(),
                &job.duration_s.to_string(),
                &job.gpus.to_string(),
                job.group.map_or("", |group| &self.groups[group.at()]),
                told.model.map_or("", |model| &self.models[model.at()]),
                &number(told.iterations),
                &number(told.gradient_bytes),
            ];
            table.write_record(&row[..columns])?;
        }
        table.flush()
    }
}

/// Reads unpacked content.
fn read_into(
    mut reader: impl BufRead,
    reading: &Reading,
    records: &mut Records,
) -> Result<(), Error> {
    let mut head = Vec::new();
    let log = match reading {
        Reading::As(format) => *format == Format::PhillyLog,
        Reading::With(_) => false,
        Reading::Detected => {
            let first = first_byte(&mut reader, &mut head);
            let first = first.map_err(|source| records.unreadable(source))?;
            matches!(first, Some(b'[' | b'{'))
        }
    };
    // Lines are counted from the start of the file.
    let reader = head.as_slice().chain(reader);
    if log { json::read(reader, records) } else { lines::read(reader, reading, records) }
}

/// The first byte that is neither white space nor part of a byte-order mark. The bytes before it
/// are appended to `head`.
fn first_byte(reader: &mut impl BufRead, head: &mut Vec<u8>) -> io::Result<Option<u8>> {
    loop {
        let held = reader.fill_buf()?;
        if held.is_empty() {
            return Ok(None);
        }
        let skipped = |byte: &u8| byte.is_ascii_whitespace() || BYTE_ORDER_MARK.contains(byte);
        if let Some(byte) = held.iter().find(|byte| !skipped(byte)) {
            return Ok(Some(*byte));
        }
        head.extend_from_slice(held);
        let length = held.len();
        reader.consume(length);
    }
}

#[cfg(test)]
mod tests;
