//! The Standard Workload Format of the Parallel Workloads Archive: lines of 18 numbers, of which -1
//! stands for an unknown one, and comments that begin with a semicolon.
//!
//! Its processors become GPUs.

use tributary_base::{EXCERPT, shortened};

use super::records::{Record, Records};
use super::table::whole;

/// Number of fields of a line.
const FIELDS: usize = 18;

/// Positions of fields.
const JOB: usize = 0;
const SUBMIT: usize = 1;
const RUN: usize = 3;
const ALLOCATED: usize = 4;
const REQUESTED: usize = 7;
const STATUS: usize = 10;
const USER: usize = 11;

/// States of lines that are parts of a job, which has a line for the whole as well.
const PARTS: [&str; 3] = ["2", "3", "4"];

/// Whether a file may begin with this line.
pub(super) fn fits(first: &str) -> bool {
    let number = |field: &str| field.parse::<f64>().is_ok();
    first.starts_with(';')
        || first.split_whitespace().count() == FIELDS && first.split_whitespace().all(number)
}

/// Adds a line to the records, or omits it.
pub(super) fn take(text: &str, line: u64, records: &mut Records) {
    if text.starts_with(';') {
        return;
    }
    let mut fields = [""; FIELDS];
    let mut found = 0;
    for field in text.split_whitespace() {
        if let Some(place) = fields.get_mut(found) {
            *place = field;
        }
        found += 1;
    }
    if found != FIELDS {
        let what = format!("the line has {found} fields in place of {FIELDS}");
        return records.leave_out(line, what);
    }
    if PARTS.contains(&fields[STATUS]) {
        return;
    }
    let number = |at: usize| fields[at].parse::<f64>().ok().filter(|value| value.is_finite());
    let bad = |what: &str, at: usize| format!("`{}` is not {what}", shortened(fields[at], EXCERPT));
    let Some(submit_s) = number(SUBMIT) else {
        return records.leave_out(line, bad("a time of submission", SUBMIT));
    };
    let Some(duration_s) = number(RUN) else {
        return records.leave_out(line, bad("a run time", RUN));
    };
    let at = if fields[ALLOCATED] == "-1" { REQUESTED } else { ALLOCATED };
    let Some(gpus) = whole(fields[at]) else {
        return records.leave_out(line, bad("a number of processors", at));
    };
    let group = Some(fields[USER]).filter(|user| *user != "-1");
    let job = Some(fields[JOB]);
    records.take(Record { line, submit_s, duration_s, gpus, group, job, ..Record::default() });
}
