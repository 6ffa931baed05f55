mod formats;

use std::io::BufReader;

use proptest::prelude::*;

use super::records::MAX_WARNINGS;
use super::*;
use crate::model::Profiles;
use crate::topology::Shape;

const TABLE: &str = "\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 06:13:03,2951.0,8,23608.0,6214e9
2017-10-09 07:01:55,10.0,2,20.0,11cb48
";

const HELIOS: &str = "\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
71,ua,vcX,4,16,1,COMPLETED,2020-06-09 18:41:27,2020-06-09 18:42:00,2020-06-09 18:45:36,216,33
72,ub,vcY,0,16,1,FAILED,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-09 18:41:38,10,0
73,ub,vcY,16,64,2,CANCELLED,2020-06-09 18:41:29,,,0,
74,ub,vcY,0,1,1,FAILED,2020-06-09 18:41:30,2020-06-09 18:41:30,2020-06-09 18:41:40,10,0
75,uc,vcX,1,4,1,TIMEOUT,2020-06-09 18:41:31,,,500,
";

const KALOS: &str = "\
job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,fail_time,stop_time,duration,queue,gpu_time
d1,ua,8,64,960,1000,100.0,\"Other, or not\",FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00,,,18,10.0,1152.0
d2,ua,1,8.0,120,100,10.0,Pretrain,COMPLETED,2023-05-17 19:00:00+08:00,2023-05-17 19:00:00+08:00,2023-05-17 19:10:00+08:00,,,600,0.0,4800.0
";

const LOG: &str = r#"[
  {"status": "Pass", "vc": "ee9e8c", "jobid": "application_1_1", "user": "u",
   "submitted_time": "2017-10-07 01:11:39",
   "attempts": [
     {"start_time": "2017-10-07 01:12:00", "end_time": "2017-10-07 01:13:00",
      "detail": [{"ip": "m47", "gpus": ["gpu0", "gpu1"]}, {"ip": "m48", "gpus": ["gpu0"]}]},
     {"start_time": "2017-10-07 01:20:00", "end_time": "2017-10-07 02:20:00",
      "detail": [{"ip": "m47", "gpus": ["gpu0", "gpu1", "gpu2"]}, {"ip": "m48", "gpus": ["gpu0"]}]}
   ]},
  {"status": "Killed", "vc": "ee9e8c", "jobid": "}{\"[", "user": "u\\",
   "submitted_time": "2017-10-07 01:11:40", "attempts": []},
  {"status": "Pass", "vc": "ed69ec", "jobid": "c", "user": "u",
   "submitted_time": "2017-10-07 01:11:00",
   "attempts": [{"start_time": null, "end_time": "2017-10-07 01:30:00", "detail": []},
     {"start_time": "2017-10-07 01:30:00", "end_time": "2017-10-07 01:30:10",
      "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]},
  {"status": "Pass", "vc": "x", "submitted_time": "2017-10-07 01:11:00",
   "attempts": [{"start_time": "2017-10-07 01:30:00", "end_time": null,
                 "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}]},
  {"status": "Pass", "submitted_time": 7},
  {"submitted_time": "2017-10-07 25:00:00", "attempts": []}
]
"#;

fn read(text: &str) -> Trace {
    Trace::read(text.as_bytes(), "t", None).unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str, reading: impl Into<Reading>) -> String {
    let error = Trace::read(text.as_bytes(), "t", reading).expect_err("no trace").to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

/// Submission time, duration and GPUs of every job.
fn jobs(trace: &Trace) -> Vec<(f64, f64, u32)> {
    trace.submissions.iter().map(|job| (job.submit_s, job.duration_s, job.gpus)).collect()
}

fn warnings(trace: &Trace) -> Vec<String> {
    trace.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn philly_as_a_table() {
    let trace = read(TABLE);
    assert_eq!(jobs(&trace), [(0.0, 2951.0, 8), (2932.0, 66.0, 1), (2932.0, 10.0, 2)]);
    assert_eq!(trace.submissions.iter().map(|job| job.line).collect::<Vec<_>>(), [3, 2, 4]);
    assert_eq!(trace.time_of_day_s, 6.0 * 3600.0 + 13.0 * 60.0 + 3.0);
    assert_eq!(trace.groups, ["11cb48", "6214e9"]);
    assert_eq!(trace.first(1).submissions.len(), 1);
}

#[test]
fn columns_may_stand_in_any_order_and_among_others() {
    let text = "\u{feff}x,NUM_GPUS, duration ,timestamp\r\n,1,66,2017-10-09 07:01:55\r\n";
    assert_eq!(jobs(&read(text)), [(0.0, 66.0, 1)]);
}

#[test]
fn helios_has_jobs_without_gpus_and_jobs_that_never_started() {
    let trace = read(HELIOS);
    assert_eq!(jobs(&trace), [(0.0, 216.0, 4), (4.0, 500.0, 1)]);
    assert_eq!(
        warnings(&trace),
        [
            "t:3: it asks for no GPU; 2 such jobs are left out",
            "t:4: it ran for 0 s; the job is left out"
        ]
    );
}

#[test]
fn acme_durations_are_from_start_to_end() {
    let trace = read(KALOS);
    // The table's duration is 18 s, including 10 s in the queue.
    assert_eq!(jobs(&trace), [(0.0, 600.0, 8), (58.0, 8.0, 64)]);
    assert_eq!(trace.groups, ["Other, or not", "Pretrain"]);
    assert_eq!(warnings(&trace), [""; 0]);
}

#[test]
fn philly_as_published() {
    let trace = read(LOG);
    assert_eq!(jobs(&trace), [(0.0, 10.0, 1), (39.0, 3660.0, 4)]);
    assert_eq!(
        warnings(&trace),
        [
            "t:10: no attempt to run it is recorded; the job is left out",
            "t:17: its last attempt has no end; the job is left out",
            "t:20: the record is not a job: invalid type: integer `7`, expected a string; the job is \
             left out",
            "t:21: `2017-10-07 25:00:00` is not a time of submission; the job is left out",
        ]
    );
}

#[test]
fn a_log_is_the_same_however_it_is_read() {
    let whole = read(LOG);
    for capacity in [1, 2, 3, 7, 64, 1000] {
        let reader = BufReader::with_capacity(capacity, LOG.as_bytes());
        assert_eq!(Trace::read(reader, "t", Some(Format::PhillyLog)).unwrap(), whole);
    }
    let later = format!("\u{feff}\n\n{LOG}");
    let reader = BufReader::with_capacity(2, later.as_bytes());
    let later = Trace::read(reader, "t", None).unwrap();
    let lines = |trace: &Trace| trace.submissions.iter().map(|job| job.line).collect::<Vec<_>>();
    assert_eq!((lines(&later), lines(&whole)), (vec![14, 4], vec![12, 2]));
}

#[test]
fn a_log_that_is_cut_off_keeps_what_is_whole() {
    let end = LOG.find("application_1_1").unwrap();
    let cut = LOG.find("\"jobid\": \"c\"").unwrap();
    let trace = read(&LOG[..cut]);
    assert_eq!(trace.submissions.len(), 1);
    assert_eq!(
        warnings(&trace).last().unwrap(),
        "t:12: the file ends within this record; the job is left out"
    );
    let nothing = error(&LOG[..end], None);
    assert_eq!(
        nothing,
        "t: no job of this trace can run (1 records were left out; line 2: the file ends within \
         this record; the job is left out)"
    );
}

#[test]
fn invalid_rows_are_omitted_with_their_line() {
    let text = "timestamp,duration,num_gpus\n\
        2017-10-09 07:00:00,-5,1\n\
        2017-10-09 07:00:00,5,0\n\
        yesterday,5,1\n\
        2017-10-09 07:00:00,5\n\
        2017-10-09 07:00:00,soon,1\n\
        2017-10-09 07:00:00,5,1.5\n\
        2017-10-09 07:00:00,inf,1\n\
        \n\
        2017-10-09 07:00:01,NaN,1\n\
        2017-10-09 07:00:02,5,-1\n\
        2017-10-09 07:00:03,5,1\n";
    let trace = read(text);
    assert_eq!(jobs(&trace), [(0.0, 5.0, 1)]);
    let expected = [
        "t:2: it ran for -5 s",
        "t:3: it asks for 0 GPUs",
        "t:4: `yesterday` is not a time of submission",
        "t:5: the row has 2 fields and no `num_gpus` among them",
        "t:6: `soon` is not a duration",
        "t:7: `1.5` is not a number of GPUs",
        "t:8: it ran for inf s",
        "t:10: it ran for NaN s",
        "t:11: `-1` is not a number of GPUs",
    ];
    let found = warnings(&trace);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(*found, format!("{expected}; the job is left out"));
    }
}

#[test]
fn times_that_no_cluster_has_are_left_out() {
    let trace = read("submit_s,duration_s,gpus\n0,1e20,1\n1e300,5,1\n-1e12,5,1\n7,315360000,1\n");
    assert_eq!(jobs(&trace), [(0.0, 315_360_000.0, 1)]);
    assert_eq!(
        warnings(&trace),
        [
            "t:2: it ran for 1e20 s, more than ten years; the job is left out",
            "t:3: it was submitted 1e300 s from the trace's time 0; the job is left out",
            "t:4: it was submitted -1e12 s from the trace's time 0; the job is left out",
        ]
    );
}

#[test]
fn long_values_are_shortened() {
    let found = error(&format!("submit_s,duration_s,gpus\n0,{},1\n", "x".repeat(200_000)), None);
    assert!(found.len() < 300, "{}", found.len());
}

#[test]
fn rows_that_are_not_text_are_left_out() {
    let text = b"submit_s,duration_s,gpus\n0,5,1\n\xff\xfe,5,1\n".as_slice();
    let trace = Trace::read(text, "t", None).unwrap();
    assert_eq!(warnings(&trace), ["t:3: the row is not text; the job is left out"]);
}

#[test]
fn excess_warnings_are_only_counted() {
    let mut text = "submit_s,duration_s,gpus\n0,5,1\n".to_owned();
    text.push_str(&"0,0,1\n".repeat(MAX_WARNINGS + 5));
    let trace = read(&text);
    assert_eq!(trace.warnings.len(), MAX_WARNINGS + 1);
    let last = warnings(&trace).pop().unwrap();
    assert!(last.ends_with(": 5 more records after this line were left out"), "{last}");
}

#[test]
fn an_invalid_trace_gives_one_clear_line() {
    assert_eq!(
        error("a,b,c\n1,2,3\n", None),
        "t:1: this is not a known trace (it begins with `a,b,c`); give one of philly-csv, \
         philly-json, helios, acme, elasticflow, pai, openb, sacct, swf, compact, or name the \
         columns of a table"
    );
    assert!(error("", None).starts_with("t:1: this is not a known trace (it is empty)"));
    assert!(error("\n \n", None).contains("it is empty"));
    assert!(error("\u{1}\u{2}", None).starts_with("t:1: this is not a known trace"));
    assert!(error("[1, 2]", None).contains("there is something else between its records"));
    assert_eq!(
        error("timestamp,num_gpus\n", Some(Format::PhillyTable)),
        "t:1: a philly-csv trace has a column `duration`, this table has none; add it or name the \
         format that the table has"
    );
    assert!(
        error("submit_s,duration_s,gpus\n", None)
            .starts_with("t: no job of this trace can run (0 ")
    );
    let missing = Trace::open("no/such.csv", None).unwrap_err().to_string();
    assert!(missing.starts_with("no/such.csv: cannot read the trace: "), "{missing}");
}

#[test]
fn a_job_of_a_long_trace_takes_32_bytes() {
    assert_eq!(size_of::<Submission>(), 32);
}

#[test]
fn formats_have_names() {
    for format in Format::ALL {
        assert_eq!(Format::by_name(&format.to_string()), Some(format));
    }
    assert_eq!(Format::by_name("csv"), None);
}

#[test]
fn jobs_take_as_long_as_in_the_trace_and_are_drawn_from_the_pool() {
    let trace = Generator::trace(2000, 3);
    let profiles = Profiles::netpack();
    let jobs = trace.jobs(profiles.all(), 1);
    for (job, from) in jobs.iter().zip(&trace.submissions) {
        assert!((job.ideal_s() / from.duration_s - 1.0).abs() < 1e-12);
        assert_eq!((job.gpus, job.submit_s), (from.gpus, from.submit_s));
    }
    for profile in profiles.all() {
        let of = jobs.iter().filter(|job| job.compute_s == profile.compute_s).count();
        assert!((250..420).contains(&of), "{} of 2000 are {}", of, profile.name);
    }
    assert_eq!(jobs, trace.jobs(profiles.all(), 1));
    assert_ne!(jobs, trace.jobs(profiles.all(), 2));
}

#[test]
fn jobs_larger_than_the_cluster_are_named_with_their_line() {
    let cluster = Cluster::uniform(&Shape { racks: 1, servers_per_rack: 1, ..Shape::default() });
    let trace = read(TABLE);
    let large: Vec<_> = trace.too_large(&cluster).map(|warning| warning.to_string()).collect();
    assert_eq!(large, ["t:3: the job wants 8 GPUs, the cluster has 4: it is rejected"]);
}

#[test]
fn our_own_format_keeps_what_a_trace_says() {
    for text in [TABLE, HELIOS, KALOS] {
        let trace = read(text);
        let mut written = Vec::new();
        trace.write(&mut written).unwrap();
        let again = Trace::read(written.as_slice(), "t", None).unwrap();
        assert_eq!(jobs(&again), jobs(&trace));
        assert_eq!(again.time_of_day_s, trace.time_of_day_s);
        let groups = |trace: &Trace| -> Vec<_> {
            let name = |group: Index| trace.groups[group.at()].clone();
            trace.submissions.iter().map(|job| job.group.map(name)).collect()
        };
        assert_eq!(groups(&again), groups(&trace));
    }
}

#[test]
fn the_sample_equals_the_generators_output() {
    let sample = include_str!("../../../../examples/placement/sample.csv");
    let mut made = Vec::new();
    Generator::trace(400, 1).write(&mut made).unwrap();
    assert_eq!(sample, String::from_utf8(made).unwrap());
}

#[test]
fn synthetic_demand_replaces_only_the_gpus() {
    let trace = Generator::trace(500, 1);
    let mut changed = trace.clone();
    Demand::Poisson { mean: 6.0 }.apply(&mut changed, 9);
    assert!(changed.submissions.iter().any(|job| job.gpus == 5));
    for job in &mut changed.submissions {
        job.gpus = 1;
    }
    let mut plain = trace;
    plain.submissions.iter_mut().for_each(|job| job.gpus = 1);
    assert_eq!(changed, plain);
}

/// The maximum distance of two empirical distributions (Kolmogorov–Smirnov).
fn distance(a: &mut [f64], b: &mut [f64]) -> f64 {
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let share = |of: &[f64], up_to: f64| {
        of.partition_point(|&value| value <= up_to) as f64 / of.len() as f64
    };
    let apart = |&at: &f64| (share(a, at) - share(b, at)).abs();
    a.iter().chain(b.iter()).map(apart).fold(0.0, f64::max)
}

/// The maximum distance of values from a distribution with known quantiles.
fn distance_to(values: &mut [f64], marginal: &Marginal) -> f64 {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let apart = |(&part, &(quantile, _)): (&f64, &(f64, f64))| {
        let below = values.partition_point(|&value| value < quantile) as f64 / count;
        let up_to = values.partition_point(|&value| value <= quantile) as f64 / count;
        (part - up_to).max(below - part).max(0.0)
    };
    PARTS.iter().zip(marginal).map(apart).fold(0.0, f64::max)
}

fn gaps(trace: &Trace) -> Vec<f64> {
    trace.submissions.windows(2).map(|pair| pair[1].submit_s - pair[0].submit_s).collect()
}

fn column(trace: &Trace, of: impl Fn(&Submission) -> f64) -> Vec<f64> {
    trace.submissions.iter().map(of).collect()
}

fn hour(trace: &Trace) -> Vec<f64> {
    column(trace, |job| ((trace.time_of_day_s + job.submit_s) / 3600.0).floor() % 24.0)
}

/// Expands values with their counts.
fn repeat(counts: impl Iterator<Item = (f64, u32)>) -> Vec<f64> {
    counts.flat_map(|(value, count)| std::iter::repeat_n(value, count as usize)).collect()
}

/// Tolerance for the distance of two samples of this many hours, in runs as long as a trace's.
const CLOSE: f64 = 0.02;

#[test]
fn generated_marginals_are_those_of_the_constants() {
    for seed in [1, 2, 3] {
        let trace = Generator::trace(JOBS, seed);
        let apart = distance_to(&mut gaps(&trace), &GAPS);
        assert!(apart < CLOSE, "gaps: {apart}");
        let apart = distance_to(&mut column(&trace, |job| job.duration_s), &DURATIONS);
        assert!(apart < CLOSE, "durations: {apart}");
        let mut gpus = repeat(GPUS.into_iter().map(|(gpus, jobs)| (f64::from(gpus), jobs)));
        let apart = distance(&mut column(&trace, |job| f64::from(job.gpus)), &mut gpus);
        assert!(apart < CLOSE, "GPUs: {apart}");
        let mut hours = repeat((0..24).map(f64::from).zip(HOURS));
        let apart = distance(&mut hour(&trace), &mut hours);
        assert!(apart < 0.03, "hours: {apart}");
        // Most of the time is in the tails, and load depends on the means.
        let mean_s = column(&trace, |job| job.duration_s).iter().sum::<f64>() / JOBS as f64;
        assert!((mean_s / 13_135.9 - 1.0).abs() < 0.05, "durations: mean {mean_s}");
        let span_s = trace.submissions[JOBS - 1].submit_s;
        assert!((span_s / 9_408_690.0 - 1.0).abs() < 0.15, "span {span_s}");
    }
}

#[test]
fn generated_marginals_are_those_of_the_trace() {
    let Some(path) = std::env::var_os("TRIBUTARY_PHILLY_CSV") else {
        eprintln!("TRIBUTARY_PHILLY_CSV does not name the trace: nothing to compare with");
        return;
    };
    let real = Trace::open(path, None).unwrap();
    assert_eq!((real.submissions.len(), real.warnings.len()), (JOBS, 0));
    let made = Generator::trace(JOBS, 1);
    for (name, mut made, mut real) in [
        ("gaps", gaps(&made), gaps(&real)),
        ("durations", column(&made, |job| job.duration_s), column(&real, |job| job.duration_s)),
        (
            "GPUs",
            column(&made, |job| f64::from(job.gpus)),
            column(&real, |job| f64::from(job.gpus)),
        ),
        ("hours", hour(&made), hour(&real)),
    ] {
        let apart = distance(&mut made, &mut real);
        println!("{name}: {apart:.4}");
        assert!(apart < 0.03, "{name}: {apart}");
    }
    let gpu_s = |trace: &Trace| {
        column(trace, |job| job.duration_s * f64::from(job.gpus)).iter().sum::<f64>()
    };
    let load = gpu_s(&made) / gpu_s(&real);
    println!("GPU time: {load:.3}");
    assert!((0.8..1.25).contains(&load), "GPU time: {load}");
}

#[test]
fn statistical_distances_are_computed() {
    let mut low: Vec<f64> = (0..100).map(f64::from).collect();
    let mut high: Vec<f64> = (50..150).map(f64::from).collect();
    assert!((distance(&mut low, &mut high) - 0.5).abs() < 1e-9);
    let mut gaps: Vec<f64> =
        gaps(&Generator::trace(5000, 1)).iter().map(|gap| gap + 20.0).collect();
    assert!(distance_to(&mut gaps, &GAPS) > 0.5, "a shift is seen");
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>, which in 0..=Format::ALL.len()) {
        let _ = Trace::read(bytes.as_slice(), "t", Format::ALL.get(which).copied());
    }

    #[test]
    fn mutated_traces_are_read_or_refused(
        which in 0..4_usize,
        at: prop::sample::Index,
        with in prop::collection::vec(any::<u8>(), 0..4),
        length in 0..5_usize,
    ) {
        let mut bytes = [TABLE, HELIOS, KALOS, LOG][which].as_bytes().to_vec();
        let at = at.index(bytes.len());
        let end = (at + length).min(bytes.len());
        bytes.splice(at..end, with);
        if let Ok(trace) = Trace::read(bytes.as_slice(), "t", None) {
            prop_assert!(trace.submissions.is_sorted_by_key(|job| job.submit_s));
            prop_assert!(trace.submissions.iter().all(|job| job.gpus > 0 && job.duration_s > 0.0));
        }
    }

    #[test]
    fn a_written_trace_can_be_read(
        rows in prop::collection::vec((0.0..1e7_f64, 0.001..1e6_f64, 1..2000_u32), 1..50),
    ) {
        let mut text = "submit_s,duration_s,gpus\n".to_owned();
        for (submit_s, duration_s, gpus) in &rows {
            text.push_str(&format!("{submit_s},{duration_s},{gpus}\n"));
        }
        let trace = read(&text);
        prop_assert_eq!(trace.submissions.len(), rows.len());
        let mut written = Vec::new();
        trace.write(&mut written).unwrap();
        let again = Trace::read(written.as_slice(), "t", None).unwrap();
        for (a, b) in trace.submissions.iter().zip(&again.submissions) {
            prop_assert!((a.submit_s - b.submit_s).abs() < 1e-6);
            prop_assert_eq!((a.duration_s, a.gpus), (b.duration_s, b.gpus));
        }
    }
}
