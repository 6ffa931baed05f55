//! The Philly trace as published: a JSON list of jobs, each with the attempts to run it.
//!
//! The list is split into jobs while it is read. Memory holds one job at a time, each job knows its
//! line, and a malformed job does not affect the others.

use std::io::BufRead;

use serde::Deserialize;
use serde::de::IgnoredAny;
use tributary_base::{EXCERPT, shortened};

use super::error::Error;
use super::records::{Record, Records};
use super::time;

/// Maximum length of a record in bytes: more than a thousand attempts on a thousand servers need.
const MAX_RECORD: usize = 16 << 20;

#[derive(Deserialize)]
struct Entry {
    submitted_time: Option<String>,
    vc: Option<String>,
    #[serde(default)]
    attempts: Vec<Attempt>,
}

#[derive(Deserialize)]
struct Attempt {
    start_time: Option<String>,
    end_time: Option<String>,
    #[serde(default)]
    detail: Vec<Detail>,
}

#[derive(Deserialize)]
struct Detail {
    /// Only their number matters, not their names.
    #[serde(default)]
    gpus: Vec<IgnoredAny>,
}

impl Attempt {
    fn gpus(&self) -> usize {
        self.detail.iter().map(|detail| detail.gpus.len()).sum()
    }

    /// Start and end, if recorded.
    fn times(&self) -> (Option<f64>, Option<f64>) {
        let at = |text: &Option<String>| text.as_deref().and_then(time::parse);
        (at(&self.start_time), at(&self.end_time))
    }
}

/// Reads the list.
pub(super) fn read(mut reader: impl BufRead, records: &mut Records) -> Result<(), Error> {
    let mut cutter = Cutter { line: 1, ..Cutter::default() };
    loop {
        let held = reader.fill_buf();
        let held = held.map_err(|source| records.unreadable(source))?;
        if held.is_empty() {
            break;
        }
        let length = held.len();
        cutter.feed(held, records)?;
        reader.consume(length);
    }
    if cutter.depth > 0 {
        records.leave_out(cutter.started, "the file ends within this record");
    }
    Ok(())
}

/// Finds the start and end of records.
#[derive(Debug, Default)]
struct Cutter {
    /// The record so far.
    record: Vec<u8>,
    /// Line of its opening brace.
    started: u64,
    line: u64,
    depth: u32,
    in_string: bool,
    escaped: bool,
}

impl Cutter {
    fn feed(&mut self, bytes: &[u8], records: &mut Records) -> Result<(), Error> {
        // Start of the part of the record that is not copied yet.
        let mut from = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            if byte == b'\n' {
                self.line += 1;
            }
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' if self.depth > 0 => self.in_string = true,
                b'{' => {
                    if self.depth == 0 {
                        (self.started, from) = (self.line, at);
                    }
                    self.depth += 1;
                }
                b'}' if self.depth > 0 => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        self.record.extend_from_slice(&bytes[from..=at]);
                        take(&self.record, self.started, records);
                        self.record.clear();
                    }
                }
                b'[' | b']' | b',' => {}
                _ if byte.is_ascii_whitespace() || self.depth > 0 => {}
                _ if super::BYTE_ORDER_MARK.contains(&byte) => {}
                _ => {
                    let file = records.file.clone();
                    let found = "there is something else between its records".to_owned();
                    return Err(Error::Unknown { file, line: self.line, found });
                }
            }
        }
        if self.depth > 0 {
            self.record.extend_from_slice(&bytes[from..]);
        }
        if self.record.len() > MAX_RECORD {
            let file = records.file.clone();
            let found = format!("one record is longer than {} MB", MAX_RECORD >> 20);
            return Err(Error::Unknown { file, line: self.started, found });
        }
        Ok(())
    }
}

/// Adds one job to the records, or omits it.
fn take(json: &[u8], line: u64, records: &mut Records) {
    let entry: Entry = match serde_json::from_slice(json) {
        Ok(entry) => entry,
        Err(error) => {
            let at = line + (error.line() as u64).saturating_sub(1);
            let what = error.to_string();
            // The position in the parser's message is relative to the record.
            let what = what.split(" at line ").next().unwrap_or_default();
            return records.leave_out(
                at,
                format_args!("the record is not a job: {}", shortened(what, EXCERPT)),
            );
        }
    };
    let Some(submit_s) = entry.submitted_time.as_deref().and_then(time::parse) else {
        let time = entry.submitted_time.as_deref().unwrap_or("");
        return records.leave_out(
            line,
            format_args!("`{}` is not a time of submission", shortened(time, EXCERPT)),
        );
    };
    let Some(last) = entry.attempts.last() else {
        return records.leave_out(line, "no attempt to run it is recorded");
    };
    if last.times().1.is_none() {
        return records.leave_out(line, "its last attempt has no end");
    }
    // The job held GPUs during all its attempts. Attempts without a start or end time cannot be
    // counted.
    let lengths = entry.attempts.iter().filter_map(|attempt| {
        let (start_s, end_s) = attempt.times();
        Some(end_s? - start_s?)
    });
    let (attempts, duration_s) =
        lengths.fold((0, 0.0), |(count, sum), length| (count + 1, sum + length));
    if attempts == 0 {
        return records.leave_out(line, "no attempt has both a start and an end");
    }
    let gpus = entry.attempts.iter().map(Attempt::gpus).max().unwrap_or(0);
    let gpus = u32::try_from(gpus).unwrap_or(u32::MAX);
    let group = entry.vc.as_deref();
    records.take(Record { line, submit_s, duration_s, gpus, group, ..Record::default() });
}
