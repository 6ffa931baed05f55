//! Collects the records of a trace.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::Arc;

use super::error::{Error, Warning};
use super::work::Told;
use super::{DAY_S, Index, MAX_JOBS, Submission, Trace};

/// Maximum number of warnings kept with their line. Further warnings are only counted.
pub(super) const MAX_WARNINGS: usize = 10_000;

/// Longest time for which a job holds its GPUs, in seconds: ten years, fifty times the longest of the
/// published traces.
const DURATION_MAX_S: f64 = 10.0 * 365.0 * DAY_S;

/// Greatest distance of a submission from the trace's time 0, in seconds: three centuries.
const SUBMIT_MAX_S: f64 = 1e10;

/// Maximum number of different names of groups, and of models, and their maximum length in bytes.
const MAX_NAMES: usize = 1 << 16;
const MAX_NAME: usize = 256;

/// Most iterations, and most bytes of gradients: a thousand times those of the largest models.
const ITERATIONS_MAX: f64 = 1e12;
const GRADIENTS_MAX: f64 = 1e16;

/// A record, before times are made relative to the trace's first job.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record<'r> {
    pub(super) line: u64,
    pub(super) submit_s: f64,
    pub(super) duration_s: f64,
    pub(super) gpus: u32,
    pub(super) group: Option<&'r str>,
    /// The job's number, if it must not be repeated.
    pub(super) job: Option<&'r str>,
    pub(super) model: Option<&'r str>,
    pub(super) iterations: Option<f64>,
    pub(super) gradient_bytes: Option<f64>,
}

/// A job's number or name, in 12 bytes: that two of ten million differ and are equal here has a
/// probability of 10⁻¹⁵.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key([u32; 3]);

impl Key {
    pub(super) fn of(name: &str) -> Self {
        let hash = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, name).hash(&mut hasher);
            hasher.finish()
        };
        let (low, high) = (hash(0), hash(1));
        Self([low as u32, (low >> 32) as u32, high as u32])
    }
}

/// What two records with the same job number mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Repeats {
    /// A mistake.
    Refused,
    /// Attempts to run one job, which held GPUs during each of them.
    Attempts,
}

/// Names with their numbers.
#[derive(Debug, Default)]
struct Names {
    names: Vec<String>,
    numbers: HashMap<String, Index>,
}

impl Names {
    /// The number of a name; `None` if it is empty, too long, or one too many.
    fn number(&mut self, name: Option<&str>) -> Option<Index> {
        let name = name.filter(|name| (1..=MAX_NAME).contains(&name.len()))?;
        if let Some(&number) = self.numbers.get(name) {
            return Some(number);
        }
        let number = Index::new(self.names.len()).filter(|_| self.names.len() < MAX_NAMES)?;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        Some(number)
    }
}

/// The first line of some records, and their number.
type Counted = Option<(u64, u64)>;

fn count(counted: &mut Counted, line: u64) {
    let (first, count) = counted.get_or_insert((line, 0));
    *first = line.min(*first);
    *count += 1;
}

/// Collects records and warnings.
#[derive(Debug)]
pub(super) struct Records {
    pub(super) file: Arc<str>,
    pub(super) repeats: Repeats,
    submissions: Vec<Submission>,
    /// Job numbers, with the index of the submission.
    numbers: Vec<(Key, u32)>,
    told: Vec<Told>,
    groups: Names,
    models: Names,
    warnings: Vec<Warning>,
    left_out: u64,
    /// In formats with jobs without GPUs: these jobs.
    without_gpu: Counted,
    /// In formats with jobs that share a GPU: these jobs.
    shared: Counted,
}

impl Records {
    pub(super) fn new(file: &str) -> Self {
        Self {
            file: file.into(),
            repeats: Repeats::Refused,
            submissions: Vec::new(),
            numbers: Vec::new(),
            told: Vec::new(),
            groups: Names::default(),
            models: Names::default(),
            warnings: Vec::new(),
            left_out: 0,
            without_gpu: None,
            shared: None,
        }
    }

    /// The error for a file that cannot be read.
    pub(super) fn unreadable(&self, source: io::Error) -> Error {
        Error::Read { file: self.file.clone(), source }
    }

    /// The error for a file that is in no known format.
    pub(super) fn unknown(&self, line: u64, found: impl Into<String>) -> Error {
        Error::Unknown { file: self.file.clone(), line, found: found.into() }
    }

    /// Omits a record.
    pub(super) fn leave_out(&mut self, line: u64, what: impl fmt::Display) {
        self.left_out += 1;
        if self.warnings.len() < MAX_WARNINGS {
            self.warn(line, format!("{what}; the job is left out"));
        }
    }

    fn warn(&mut self, line: u64, what: String) {
        self.warnings.push(Warning { file: self.file.clone(), line, what });
    }

    /// Omits a job without GPUs. One warning counts all of them.
    pub(super) fn leave_out_without_gpu(&mut self, line: u64) {
        count(&mut self.without_gpu, line);
    }

    /// Notes a job that asked for a part of a GPU. One warning counts all of them.
    pub(super) fn note_shared(&mut self, line: u64) {
        count(&mut self.shared, line);
    }

    /// Adds a record whose fields were parsed, or omits it if they are invalid.
    pub(super) fn take(&mut self, record: Record<'_>) {
        let Record { line, submit_s, duration_s, gpus, .. } = record;
        if duration_s.is_nan() || duration_s <= 0.0 || duration_s.is_infinite() {
            return self.leave_out(line, format_args!("it ran for {duration_s} s"));
        }
        if duration_s > DURATION_MAX_S {
            let what = format_args!("it ran for {duration_s:e} s, more than ten years");
            return self.leave_out(line, what);
        }
        if submit_s.is_nan() || submit_s.abs() > SUBMIT_MAX_S {
            let what = format_args!("it was submitted {submit_s:e} s from the trace's time 0");
            return self.leave_out(line, what);
        }
        if gpus == 0 {
            return self.leave_out(line, "it asks for 0 GPUs");
        }
        if record.iterations.is_some_and(|n| !(1.0..=ITERATIONS_MAX).contains(&n)) {
            let what = format_args!("it has no iteration, or more than {ITERATIONS_MAX:e}");
            return self.leave_out(line, what);
        }
        if record.gradient_bytes.is_some_and(|n| !(0.0..=GRADIENTS_MAX).contains(&n)) {
            let what = format_args!(
                "its gradients have a negative size, or more than {GRADIENTS_MAX:e} B"
            );
            return self.leave_out(line, what);
        }
        if self.submissions.len() == MAX_JOBS {
            return self.leave_out(line, format_args!("there are more than {MAX_JOBS} jobs"));
        }
        if let Some(job) = record.job {
            self.numbers.push((Key::of(job), self.submissions.len() as u32));
        }
        let group = self.groups.number(record.group);
        let told = self.told(&record);
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        self.submissions.push(Submission { submit_s, duration_s, line, gpus, group, told });
    }

    /// Stores what a record tells of the job's work.
    fn told(&mut self, record: &Record<'_>) -> Option<Index> {
        let Record { iterations, gradient_bytes, .. } = *record;
        let told = Told { model: self.models.number(record.model), iterations, gradient_bytes };
        if told == Told::default() {
            return None;
        }
        // Jobs one after the other are often alike.
        if self.told.last() != Some(&told) {
            self.told.push(told);
        }
        Index::new(self.told.len() - 1)
    }

    /// Refuses or adds up records with the same number.
    fn resolve_repeats(&mut self) -> Result<(), Error> {
        self.numbers.sort_unstable();
        let mut repeated: Option<(u32, u32)> = None;
        for same in self.numbers.chunk_by(|(a, _), (b, _)| a == b).filter(|same| same.len() > 1) {
            let at = |index: usize| same[index].1 as usize;
            if self.repeats == Repeats::Refused {
                let (first, line) = (self.submissions[at(0)].line, self.submissions[at(1)].line);
                if repeated.is_none_or(|(_, earliest)| line < earliest) {
                    repeated = Some((first, line));
                }
                continue;
            }
            for index in 1..same.len() {
                let attempt = self.submissions[at(index)];
                let job = &mut self.submissions[at(0)];
                job.submit_s = job.submit_s.min(attempt.submit_s);
                job.duration_s = (job.duration_s + attempt.duration_s).min(DURATION_MAX_S);
                job.gpus = job.gpus.max(attempt.gpus);
                self.submissions[at(index)].gpus = 0;
            }
        }
        // They are not needed any more, and are many.
        self.numbers = Vec::new();
        self.submissions.retain(|job| job.gpus > 0);
        repeated.map_or(Ok(()), |(first, line)| {
            Err(Error::Repeated { file: self.file.clone(), line, first })
        })
    }

    /// Adds the warnings that count records, and puts all in the order of lines.
    fn finish_warnings(&mut self) {
        if self.left_out > self.warnings.len() as u64 {
            let more = self.left_out - self.warnings.len() as u64;
            let last = self.warnings.last().map_or(0, |last| last.line);
            self.warn(last, format!("{more} more records after this line were left out"));
        }
        if let Some((line, count)) = self.without_gpu {
            self.warn(line, format!("it asks for no GPU; {count} such jobs are left out"));
            self.left_out += count;
        }
        if let Some((line, count)) = self.shared {
            let what = format!("it asks for part of a GPU; {count} such jobs get whole ones");
            self.warn(line, what);
        }
        self.warnings.sort_by_key(|warning| warning.line);
    }

    pub(super) fn into_trace(mut self) -> Result<Trace, Error> {
        self.resolve_repeats()?;
        self.finish_warnings();
        let submissions = &mut self.submissions;
        submissions
            .sort_unstable_by(|a, b| a.submit_s.total_cmp(&b.submit_s).then(a.line.cmp(&b.line)));
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
            groups: self.groups.names,
            told: self.told,
            models: self.models.names,
            time_of_day_s: first.submit_s.rem_euclid(DAY_S),
            warnings: self.warnings,
        })
    }
}
