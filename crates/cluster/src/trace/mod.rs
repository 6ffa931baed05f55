//! Traces: which jobs were submitted to a real cluster, when, for how long and on how many GPUs.
//!
//! [`Trace::open`] reads any of the [`Format`]s below, told apart by their content. A record that
//! makes no sense becomes a [`Warning`] with its line, and reading goes on; a file that is no trace
//! at all is an [`Error`]. Reading holds one record at a time: a file may be larger than memory.
//!
//! NetPack §6.1 takes start, end and number of GPUs from the logs and draws each job's model at
//! random; [`Trace::jobs`] does that.

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
use tributary_limits::FileLimit;

use crate::job::{Job, JobId};
use crate::model::Profile;
use crate::topology::Cluster;

pub use demand::Demand;
pub use generate::{Generator, Marginal, class};
pub use philly::{DURATIONS, GAPS, GPUS, HOURS, JOBS, PARTS};

/// Warnings kept with their line; the ones after that are only counted.
const MAX_WARNINGS: usize = 10_000;

/// Jobs of a trace at most: three times those of the largest that is published.
pub const MAX_JOBS: usize = 10_000_000;

/// Ten times the largest trace that is published. It is read piece by piece.
const FILE: FileLimit = FileLimit::new("trace", 4 << 30);

/// What some programs put in front of UTF-8.
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

const DAY_S: f64 = 86_400.0;

/// A trace's layout.
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
    /// Our own: `submit_s,duration_s,gpus` and, if wanted, `group`; times from a midnight.
    Compact,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 5] =
        [Self::PhillyTable, Self::PhillyLog, Self::Helios, Self::Acme, Self::Compact];

    /// What a command line calls it.
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

    /// The format of that name.
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

/// Why a file gives no trace.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file could not be read.
    #[error("{file}: cannot read the trace: {source}")]
    Read {
        /// The file as the caller named it.
        file: Arc<str>,
        /// What the operating system said.
        source: io::Error,
    },
    /// None of the formats fits.
    #[error(
        "{file}:{line}: this is no trace that is known ({found}); give one of philly-csv, \
         philly-json, helios, acme or compact"
    )]
    Unknown {
        /// The file.
        file: Arc<str>,
        /// Line, from 1.
        line: u64,
        /// What stands there.
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
        /// Line of the head, from 1.
        line: u64,
        /// The format.
        format: Format,
        /// The column's name.
        column: &'static str,
    },
    /// There was no record, or every record was left out.
    #[error("{file}: no job of this trace can run ({left_out} records were left out{why})")]
    NoJob {
        /// The file.
        file: Arc<str>,
        /// Records left out.
        left_out: u64,
        /// The first of them.
        why: String,
    },
}

/// A record that was left out of a trace, or something else worth telling.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// The file as the caller named it.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u64,
    /// What is wrong, and what was done about it.
    pub what: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// A job as a trace has it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Submission {
    /// Its line in the file, from 1.
    pub line: u64,
    /// When it was submitted, seconds from the first job of the trace.
    pub submit_s: f64,
    /// How long it held its GPUs, seconds, above 0.
    pub duration_s: f64,
    /// GPUs, at least 1.
    pub gpus: u32,
    /// Index into [`Trace::groups`]: virtual cluster or kind of work, if the format has one.
    pub group: Option<u32>,
}

/// The jobs of a trace, in the order of submission.
#[derive(Clone, PartialEq, Debug)]
pub struct Trace {
    /// The file as the caller named it.
    pub file: Arc<str>,
    /// Its jobs by time of submission, those of one time by line.
    pub submissions: Vec<Submission>,
    /// Names of the groups that jobs belong to, in the order in which they appear.
    pub groups: Vec<String>,
    /// Time of day of the trace's second 0, seconds from midnight UTC.
    pub time_of_day_s: f64,
    /// What was left out and why, by line.
    pub warnings: Vec<Warning>,
}

impl Trace {
    /// Reads a trace; without a format it is told by the content.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is in no known format, or has no job that can run.
    pub fn open(path: impl AsRef<Path>, format: Option<Format>) -> Result<Self, Error> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let file =
            FILE.open(path).map_err(|source| Error::Read { file: name.as_str().into(), source })?;
        Self::read(BufReader::with_capacity(1 << 16, file), &name, format)
    }

    /// [`open`](Self::open) for anything that can be read; messages call it `name`.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
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
        // Lines are counted from the very start.
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

    /// Only the jobs of one group; none if the trace has no such group.
    #[must_use]
    pub fn of_group(mut self, name: &str) -> Self {
        let group = self.groups.iter().position(|group| group == name).map(|at| at as u32);
        self.submissions.retain(|job| group.is_some() && job.group == group);
        self
    }

    /// A warning for each job that wants more GPUs than the cluster has.
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

    /// Jobs that take as long as the trace's once they run undisturbed, each of a model drawn from
    /// `profiles` (NetPack §6.1). The n-th submission is job n.
    ///
    /// # Panics
    ///
    /// If there is no profile.
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
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        let grouped = self.submissions.iter().any(|job| job.group.is_some());
        writeln!(to, "submit_s,duration_s,gpus{}", if grouped { ",group" } else { "" })?;
        for job in &self.submissions {
            let submit_s = self.time_of_day_s + job.submit_s;
            write!(to, "{submit_s},{},{}", job.duration_s, job.gpus)?;
            if grouped {
                let group = job.group.map_or("", |group| &self.groups[group as usize]);
                // A name with a comma or a quote in it would break the table.
                write!(to, ",{}", group.replace([',', '"', '\r', '\n'], "_"))?;
            }
            writeln!(to)?;
        }
        Ok(())
    }
}

/// The first byte that is neither white space nor of a byte-order mark; `head` gets what came
/// before it.
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

/// What a record says, before times start at the trace's first job.
#[derive(Clone, Copy, Debug)]
struct Record<'r> {
    line: u64,
    submit_s: f64,
    duration_s: f64,
    gpus: u32,
    group: Option<&'r str>,
}

/// Gathers records and warnings.
#[derive(Debug)]
struct Records {
    file: Arc<str>,
    submissions: Vec<Submission>,
    groups: Vec<String>,
    group_numbers: HashMap<String, u32>,
    warnings: Vec<Warning>,
    left_out: u64,
    /// Jobs without GPUs where a format has such jobs on purpose, and the line of the first.
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

    /// Leaves a record out.
    fn leave_out(&mut self, line: u64, what: impl fmt::Display) {
        self.left_out += 1;
        if self.warnings.len() < MAX_WARNINGS {
            let what = format!("{what}; the job is left out");
            self.warnings.push(Warning { file: self.file.clone(), line, what });
        }
    }

    /// Leaves a job without GPUs out: one warning says how many there were.
    fn leave_out_without_gpu(&mut self, line: u64) {
        let (_, count) = self.without_gpu.get_or_insert((line, 0));
        *count += 1;
    }

    /// Takes a record whose fields could be read; leaves it out if they make no sense.
    fn take(&mut self, record: Record<'_>) {
        let Record { line, submit_s, duration_s, gpus, group } = record;
        if duration_s.is_nan() || duration_s <= 0.0 || duration_s.is_infinite() {
            return self.leave_out(line, format_args!("it ran for {duration_s} s"));
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
