//! Traces: the jobs submitted to a real cluster, with submission times, durations and numbers of
//! GPUs.
//!
//! [`Trace::open`] reads any [`Format`] below, detected by content. An invalid record becomes a
//! [`Warning`] with its line, and reading continues. A file that is not a trace is an [`Error`].
//! Reading holds one record at a time, so a file may be larger than memory.
//!
//! NetPack §6.1 takes start, end and number of GPUs from the logs and draws each job's model at
//! random; [`Trace::jobs`] does the same.

mod demand;
mod generate;
mod json;
mod philly;
mod table;
mod time;

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_base::FileLimit;

use crate::job::{Job, JobId};
use crate::model::Profile;
use crate::topology::Cluster;

pub use demand::Demand;
pub use generate::{Generator, class};
pub use philly::{DURATIONS, GAPS, GPUS, HOURS, JOBS, Marginal, PARTS};

/// Maximum number of warnings kept with their line. Further warnings are only counted.
const MAX_WARNINGS: usize = 10_000;

/// Maximum number of jobs per trace: three times that of the largest published trace.
pub const MAX_JOBS: usize = 10_000_000;

/// Longest time for which a job holds its GPUs, in seconds: ten years, fifty times the longest of the
/// published traces.
const DURATION_MAX_S: f64 = 10.0 * 365.0 * DAY_S;

/// Greatest distance of a submission from the trace's time 0, in seconds: three centuries.
const SUBMIT_MAX_S: f64 = 1e10;

/// Ten times the size of the largest published trace. It is read in pieces.
const FILE: FileLimit = FileLimit::new("trace", 4 << 30);

/// Some programs write this before UTF-8 text.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

const DAY_S: f64 = 86_400.0;

/// The format of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// The Philly trace as one table: `timestamp,duration,num_gpus,gpu_time,cluster`.
    PhillyTable,
    /// The Philly trace as Microsoft published it: `cluster_job_log`, a list of jobs with attempts.
    PhillyLog,
    /// `cluster_log.csv` of SenseTime's Helios.
    Helios,
    /// `trace_seren.csv` and `trace_kalos.csv` of Shanghai AI Lab's Acme.
    Acme,
    /// Our own: `submit_s,duration_s,gpus` and optionally `group`; times count from a midnight.
    Compact,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 5] =
        [Self::PhillyTable, Self::PhillyLog, Self::Helios, Self::Acme, Self::Compact];

    /// The name on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PhillyTable => "philly-csv",
            Self::PhillyLog => "philly-json",
            Self::Helios => "helios",
            Self::Acme => "acme",
            Self::Compact => "compact",
        }
    }

    /// The format with this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a file is not a valid trace.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("{file}: cannot read the trace: {source}")]
    Read {
        /// The file as the caller named it.
        file: Arc<str>,
        /// The error of the operating system.
        source: io::Error,
    },
    /// No format matches.
    #[error(
        "{file}:{line}: this is not a known trace ({found}); give one of philly-csv, \
         philly-json, helios, acme or compact"
    )]
    Unknown {
        /// The file.
        file: Arc<str>,
        /// Line, from 1.
        line: u64,
        /// The text found there.
        found: String,
    },
    /// A table lacks a column that its format has.
    #[error(
        "{file}:{line}: a {format} trace has a column `{column}`, this table has none; add it or \
         name the format that the table has"
    )]
    NoColumn {
        /// The file.
        file: Arc<str>,
        /// Line of the header, from 1.
        line: u64,
        /// The format.
        format: Format,
        /// The column's name.
        column: &'static str,
    },
    /// There was no record, or every record was omitted.
    #[error("{file}: no job of this trace can run ({left_out} records were left out{why})")]
    NoJob {
        /// The file.
        file: Arc<str>,
        /// Number of omitted records.
        left_out: u64,
        /// The reason for the first omission.
        why: String,
    },
}

/// An omitted record, or another remark about a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// The file as the caller named it.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u64,
    /// The problem, and how it was handled.
    pub what: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// A job of a trace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Submission {
    /// Its line in the file, from 1.
    pub line: u64,
    /// Time of submission, in seconds from the first job of the trace.
    pub submit_s: f64,
    /// Time for which it held its GPUs, in seconds; positive.
    pub duration_s: f64,
    /// Number of GPUs, at least 1.
    pub gpus: u32,
    /// Index into [`Trace::groups`]: virtual cluster or kind of workload, if the format has one.
    pub group: Option<u32>,
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
    /// Time of day of the trace's second 0, in seconds from midnight UTC.
    pub time_of_day_s: f64,
    /// Omitted records with reasons, by line.
    pub warnings: Vec<Warning>,
}

impl Trace {
    /// Reads a trace. If `format` is `None`, the format is detected by content.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, has no known format, or has no valid job.
    pub fn open(path: impl AsRef<Path>, format: Option<Format>) -> Result<Self, Error> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let file =
            FILE.open(path).map_err(|source| Error::Read { file: name.as_str().into(), source })?;
        Self::read(BufReader::with_capacity(1 << 16, file), &name, format)
    }

    /// [`open`](Self::open) for any reader. Messages call the file `name`.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    pub fn read(
        mut reader: impl BufRead,
        name: &str,
        format: Option<Format>,
    ) -> Result<Self, Error> {
        let mut records = Records::new(name);
        let read = |source| Error::Read { file: name.into(), source };
        let mut head = Vec::new();
        let log = match format {
            Some(format) => format == Format::PhillyLog,
            None => matches!(first_byte(&mut reader, &mut head).map_err(read)?, Some(b'[' | b'{')),
        };
        // Lines are counted from the start of the file.
        let reader = head.as_slice().chain(reader);
        if log {
            json::read(reader, &mut records)?;
        } else {
            table::read(reader, format, &mut records)?;
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
    #[must_use]
    pub fn too_large(&self, cluster: &Cluster) -> Vec<Warning> {
        let gpus = cluster.gpus();
        let large = self.submissions.iter().filter(|job| job.gpus > gpus);
        large
            .map(|job| Warning {
                file: self.file.clone(),
                line: job.line,
                what: format!(
                    "the job wants {} GPUs, the cluster has {gpus}: it is rejected",
                    job.gpus
                ),
            })
            .collect()
    }

    /// Jobs that take as long as the trace's if they run undisturbed. The model of each job is
    /// drawn from `profiles` (NetPack §6.1). Submission n is job n.
    ///
    /// # Panics
    ///
    /// If `profiles` is empty.
    #[must_use]
    pub fn jobs(&self, profiles: &[Profile], seed: u64) -> Vec<Job> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let submissions = self.submissions.iter().zip(0..);
        submissions
            .map(|(from, id)| {
                let profile = &profiles[rng.random_range(0..profiles.len())];
                profile.job(JobId(id), from.submit_s, from.gpus, from.duration_s)
            })
            .collect()
    }

    /// Writes the trace in our own format.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn write(&self, to: impl Write) -> io::Result<()> {
        let grouped = self.submissions.iter().any(|job| job.group.is_some());
        let columns = if grouped { 4 } else { 3 };
        let mut table = csv::Writer::from_writer(to);
        table.write_record(&["submit_s", "duration_s", "gpus", "group"][..columns])?;
        for job in &self.submissions {
            let submit_s = (self.time_of_day_s + job.submit_s).to_string();
            let group = job.group.map_or("", |group| &self.groups[group as usize]);
            let row = [&submit_s, &job.duration_s.to_string(), &job.gpus.to_string(), group];
            table.write_record(&row[..columns])?;
        }
        table.flush()
    }
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

/// A record, before times are made relative to the trace's first job.
#[derive(Clone, Copy, Debug)]
struct Record<'r> {
    line: u64,
    submit_s: f64,
    duration_s: f64,
    gpus: u32,
    group: Option<&'r str>,
}

/// Collects records and warnings.
#[derive(Debug)]
struct Records {
    file: Arc<str>,
    submissions: Vec<Submission>,
    groups: Vec<String>,
    group_numbers: HashMap<String, u32>,
    warnings: Vec<Warning>,
    left_out: u64,
    /// In formats with jobs without GPUs: the line of the first such job and their number.
    without_gpu: Option<(u64, u64)>,
}

impl Records {
    fn new(file: &str) -> Self {
        Self {
            file: file.into(),
            submissions: Vec::new(),
            groups: Vec::new(),
            group_numbers: HashMap::new(),
            warnings: Vec::new(),
            left_out: 0,
            without_gpu: None,
        }
    }

    /// Omits a record.
    fn leave_out(&mut self, line: u64, what: impl fmt::Display) {
        self.left_out += 1;
        if self.warnings.len() < MAX_WARNINGS {
            let what = format!("{what}; the job is left out");
            self.warnings.push(Warning { file: self.file.clone(), line, what });
        }
    }

    /// Omits a job without GPUs. One warning counts all of them.
    fn leave_out_without_gpu(&mut self, line: u64) {
        let (_, count) = self.without_gpu.get_or_insert((line, 0));
        *count += 1;
    }

    /// Adds a record whose fields were parsed, or omits it if they are invalid.
    fn take(&mut self, record: Record<'_>) {
        let Record { line, submit_s, duration_s, gpus, group } = record;
        if duration_s.is_nan() || duration_s <= 0.0 || duration_s.is_infinite() {
            return self.leave_out(line, format_args!("it ran for {duration_s} s"));
        }
        if duration_s > DURATION_MAX_S {
            let what = format_args!("it ran for {duration_s:e} s, more than ten years");
            return self.leave_out(line, what);
        }
        if submit_s.abs() > SUBMIT_MAX_S {
            let what = format_args!("it was submitted {submit_s:e} s from the trace's time 0");
            return self.leave_out(line, what);
        }
        if gpus == 0 {
            return self.leave_out(line, "it asks for 0 GPUs");
        }
        if self.submissions.len() == MAX_JOBS {
            return self.leave_out(line, format_args!("there are more than {MAX_JOBS} jobs"));
        }
        let group = group.filter(|name| !name.is_empty()).map(|name| self.group(name));
        self.submissions.push(Submission { line, submit_s, duration_s, gpus, group });
    }

    fn group(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.group_numbers.get(name) {
            return number;
        }
        let number = self.groups.len() as u32;
        self.groups.push(name.to_owned());
        self.group_numbers.insert(name.to_owned(), number);
        number
    }

    fn into_trace(mut self) -> Result<Trace, Error> {
        if self.left_out > self.warnings.len() as u64 {
            let more = self.left_out - self.warnings.len() as u64;
            let last = self.warnings.last().map_or(0, |last| last.line);
            let what = format!("{more} more records after this line were left out");
            self.warnings.push(Warning { file: self.file.clone(), line: last, what });
        }
        if let Some((line, count)) = self.without_gpu {
            let what = format!("it asks for no GPU; {count} such jobs are left out");
            let at = self.warnings.partition_point(|warning| warning.line <= line);
            self.warnings.insert(at, Warning { file: self.file.clone(), line, what });
            self.left_out += count;
        }
        let submissions = &mut self.submissions;
        submissions.sort_by(|a, b| a.submit_s.total_cmp(&b.submit_s).then(a.line.cmp(&b.line)));
        let Some(first) = submissions.first().copied() else {
            let why = self
                .warnings
                .first()
                .map(|warning| format!("; line {}: {}", warning.line, warning.what));
            return Err(Error::NoJob {
                file: self.file,
                left_out: self.left_out,
                why: why.unwrap_or_default(),
            });
        };
        for job in submissions.iter_mut() {
            job.submit_s -= first.submit_s;
        }
        Ok(Trace {
            file: self.file,
            submissions: self.submissions,
            groups: self.groups,
            time_of_day_s: first.submit_s.rem_euclid(DAY_S),
            warnings: self.warnings,
        })
    }
}

#[cfg(test)]
mod tests;
