//! The trace of Alibaba's PAI (2020): tables without headers.
//!
//! `pai_task_table.csv` has ten columns: `job_name,task_name,inst_num,status,start_time,end_time,
//! plan_cpu,plan_mem,plan_gpu,gpu_type`. A job has the GPUs of all instances of all its tasks, from
//! the start of the first of them to the end of the last. Rows of `pai_job_table.csv`, which has
//! six columns, `job_name,inst_id,user,status,start_time,end_time`, may stand before or after them;
//! they have the job's submission and user.

use tributary_base::{EXCERPT, shortened};

use super::MAX_JOBS;
use super::records::{Key, Record, Records};

const TASK_FIELDS: usize = 10;
const JOB_FIELDS: usize = 6;

/// Positions of fields. Those of jobs and tasks agree but for the user.
const NAME: usize = 0;
const INSTANCES: usize = 2;
const USER: usize = 2;
const STATUS: usize = 3;
const START: usize = 4;
const END: usize = 5;
const GPUS: usize = 8;

const STATES: [&str; 4] = ["Terminated", "Failed", "Running", "Waiting"];

/// A task, in the order of its job and its line.
#[derive(Debug)]
struct Task {
    job: Key,
    line: u64,
    start_s: f64,
    end_s: f64,
    /// GPUs of all instances, in hundredths.
    percent: f64,
}

/// A row of the table of jobs.
#[derive(Debug)]
struct Launch {
    job: Key,
    line: u64,
    submit_s: f64,
    user: String,
}

/// The rows so far.
#[derive(Debug, Default)]
pub(super) struct Pai {
    tasks: Vec<Task>,
    launches: Vec<Launch>,
}

/// The fields of a row, and their number.
fn fields(text: &str) -> ([&str; TASK_FIELDS], usize) {
    let mut fields = [""; TASK_FIELDS];
    let mut found = 0;
    for field in text.split(',') {
        if let Some(place) = fields.get_mut(found) {
            *place = field.trim();
        }
        found += 1;
    }
    (fields, found)
}

fn seconds(field: &str) -> Option<f64> {
    field.parse().ok().filter(|value: &f64| value.is_finite())
}

impl Pai {
    /// Whether a file may begin with this line.
    pub(super) fn fits(first: &str) -> bool {
        let (fields, found) = fields(first);
        let named = fields[NAME] == "job_name" && fields[STATUS] == "status";
        (found == TASK_FIELDS || found == JOB_FIELDS) && (named || STATES.contains(&fields[STATUS]))
    }

    /// Adds a row.
    pub(super) fn take(&mut self, text: &str, line: u64, records: &mut Records) {
        let (fields, found) = fields(text);
        if fields[NAME] == "job_name" {
            return;
        }
        if self.tasks.len().max(self.launches.len()) == MAX_JOBS {
            return records.leave_out(line, format_args!("there are more than {MAX_JOBS} rows"));
        }
        let bad =
            |what: &str, at: usize| format!("`{}` is not {what}", shortened(fields[at], EXCERPT));
        let job = Key::of(fields[NAME]);
        match found {
            TASK_FIELDS => {}
            JOB_FIELDS => {
                let Some(submit_s) = seconds(fields[START]) else {
                    return records.leave_out(line, bad("a time of submission", START));
                };
                let user = fields[USER].to_owned();
                return self.launches.push(Launch { job, line, submit_s, user });
            }
            _ => {
                let what =
                    format!("the row has {found} fields in place of {TASK_FIELDS} or {JOB_FIELDS}");
                return records.leave_out(line, what);
            }
        }
        let gpus = if fields[GPUS].is_empty() { Some(0.0) } else { seconds(fields[GPUS]) };
        let percent =
            gpus.zip(seconds(fields[INSTANCES])).map(|(gpus, instances)| gpus * instances);
        let Some(percent) = percent.filter(|percent| (0.0..=1e12).contains(percent)) else {
            return records.leave_out(line, bad("a share of GPUs for each instance", GPUS));
        };
        let times = seconds(fields[START]).zip(seconds(fields[END]));
        // Tasks without GPUs only matter if their job has no others.
        let Some((start_s, end_s)) = times.or((percent == 0.0).then_some((0.0, 0.0))) else {
            let at = if seconds(fields[START]).is_none() { START } else { END };
            return records.leave_out(line, bad("the time of a start or an end", at));
        };
        self.tasks.push(Task { job, line, start_s, end_s, percent });
    }

    /// Makes jobs of the tasks.
    pub(super) fn finish(mut self, records: &mut Records) {
        self.tasks.sort_unstable_by_key(|task| (task.job, task.line));
        self.launches.sort_unstable_by_key(|launch| (launch.job, launch.line));
        for tasks in self.tasks.chunk_by(|a, b| a.job == b.job) {
            let line = tasks[0].line;
            let with_gpus = || tasks.iter().filter(|task| task.percent > 0.0);
            if with_gpus().next().is_none() {
                records.leave_out_without_gpu(line);
                continue;
            }
            if with_gpus().any(|task| task.percent % 100.0 != 0.0) {
                records.note_shared(line);
            }
            let start_s = with_gpus().map(|task| task.start_s).fold(f64::INFINITY, f64::min);
            let end_s = with_gpus().map(|task| task.end_s).fold(f64::NEG_INFINITY, f64::max);
            let gpus = with_gpus().map(|task| task.percent).sum::<f64>() / 100.0;
            let launch = self.launches.binary_search_by_key(&tasks[0].job, |launch| launch.job);
            let launch = launch.ok().map(|at| &self.launches[at]);
            records.take(Record {
                line,
                submit_s: launch.map_or(start_s, |launch| launch.submit_s),
                duration_s: end_s - start_s,
                gpus: gpus.ceil() as u32,
                group: launch.map(|launch| launch.user.as_str()),
                ..Record::default()
            });
        }
    }
}
