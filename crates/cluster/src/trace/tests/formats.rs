//! Readers of formats, named columns, packed files, and what traces tell of the work of jobs.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

const ELASTICFLOW: &str = "\
job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration
a,100,500,vgg16,900,64,4,250
b,40,20,mine,90,64,1,10
";

const RAW: &str = "job_id,submission_time,duration,num_gpu\na,100,250,4\nb,40,10,1\n";

const TASKS: &str = "\
j1,ps,2.0,Terminated,1000.0,1500.0,600.0,30.0,,MISC
j1,worker,3.0,Terminated,1010.0,1400.0,600.0,30.0,50.0,T4
j2,worker,2.0,Terminated,900.0,1000.0,600.0,30.0,200.0,T4
j3,worker,1.0,Running,950.0,,600.0,30.0,100.0,T4
j4,ps,1.0,Terminated,950.0,960.0,600.0,30.0,0.0,MISC
j1,evaluator,1.0,Terminated,1020.0,1600.0,600.0,30.0,100.0,T4
";

const LAUNCHES: &str = "\
j1,x1,ua,Terminated,990.0,1601.0
j2,x2,ub,Terminated,890.0,1001.0
";

const OPENB: &str = "\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p1,88000,327680,8,1000,,Burstable,Succeeded,1000,2500,1010
p2,4000,15258,1,220,,BE,Running,1020,1050,1020
p3,4000,15258,0,0,,LS,Running,1020,1050,1020
p4,4000,15258,1,1000,V1|V2,LS,Pending,1030,1050,
p5,4000,15258,1,1000,V1|V2,LS,Running,1040,1050,1045
";

const SACCT: &str = "\
JobID|User|Submit|Start|End|State|ReqTRES|AllocTRES|
7|ua|2024-03-01T10:00:00|2024-03-01T10:01:00|2024-03-01T10:03:00|NODE_FAIL|gres/gpu=4|billing=4,cpu=4,gres/gpu=4,gres/gpu:a100=4|
7.batch||2024-03-01T10:01:00|2024-03-01T10:01:00|2024-03-01T10:03:00|NODE_FAIL||cpu=4,gres/gpu=4|
8_1|ub|2024-03-01T10:00:30|2024-03-01T10:02:00|2024-03-01T10:02:30|COMPLETED|gres/gpu:a100=2|cpu=1,gres/gpu:a100=1,gres/gpu:h100=2|
9|ub|2024-03-01T10:00:40|Unknown|2024-03-01T10:02:30|CANCELLED by 0|gres/gpu=2||
10|ub|2024-03-01T10:00:50|2024-03-01T10:02:00|2024-03-01T10:02:30|COMPLETED|cpu=2|cpu=2|
7|ua|2024-03-01T10:04:00|2024-03-01T10:05:00|2024-03-01T10:06:00|COMPLETED|gres/gpu=8|gres/gpu=8|
7.extern|\"|2024-03-01T10:05:00|2024-03-01T10:05:00|2024-03-01T10:06:00|COMPLETED||gres/gpu=8|
11|uc|2024-03-01T10:04:10|2024-03-01T10:05:00|Unknown|RUNNING|gres/gpu=8|gres/gpu=8|
";

const SWF: &str = "\
; Version: 2.2
;  MaxNodes: 4
1 0 5 100 8 -1 -1 8 -1 -1 1 3 1 -1 1 -1 -1 -1
2 10 5 60 -1 -1 -1 4 -1 -1 1 -1 1 -1 1 -1 -1 -1
3 20 5 50 4 -1 -1 4 -1 -1 1 4 1 -1 1 -1 -1 -1
3 20 5 30 4 -1 -1 4 -1 -1 2 4 1 -1 1 -1 -1 -1
3 20 5 20 4 -1 -1 4 -1 -1 3 4 1 -1 1 -1 -1 -1
4 30 -1 -1 4 -1 -1 4 -1 -1 5 4 1 -1 1 -1 -1 -1
5 40 5 20 -1 -1 -1 -1 -1 -1 1 4 1 -1 1 -1 -1 -1
6 50 5 20
";

const MAPPED: &str = "\
JobID;Submit;Start;End;GPUs;User;Model;Iters;Bytes
a;2024-03-01 10:00:00;2024-03-01 10:00:10;2024-03-01 10:01:50;2;ua;VGG16;50;4e6
b;2024-03-01 10:00:05;2024-03-01 10:00:10;2024-03-01 10:00:20;1;ub;;;
";

const COLUMNS: [&str; 9] = [
    "job=JobID",
    "submit=Submit",
    "start=Start",
    "end=End",
    "gpus=GPUs",
    "user=user",
    "model=Model",
    "iterations=Iters",
    "gradients=Bytes",
];

fn columns(pairs: &[&str]) -> Columns {
    Columns::parse(pairs.iter().copied()).unwrap()
}

fn with(text: &str, pairs: &[&str]) -> Trace {
    let trace = Trace::read(text.as_bytes(), "t", columns(pairs));
    trace.unwrap_or_else(|error| panic!("{error}"))
}

/// The group of every job.
fn groups(trace: &Trace) -> Vec<&str> {
    let name = |job: &Submission| job.group.map_or("", |group| &*trace.groups[group.at()]);
    trace.submissions.iter().map(name).collect()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut to = GzEncoder::new(Vec::new(), Compression::fast());
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}

#[test]
fn elasticflows_traces_have_models_and_iterations() {
    let trace = read(ELASTICFLOW);
    assert_eq!(jobs(&trace), [(0.0, 10.0, 1), (60.0, 250.0, 4)]);
    assert_eq!(warnings(&trace), [""; 0]);
    assert_eq!(jobs(&read(RAW)), jobs(&trace));
    let profiles = Profiles::netpack();
    for job in &trace.jobs(profiles.all(), 3)[1..] {
        let vgg16 = profiles.get("vgg16").unwrap();
        assert_eq!((job.iterations, job.compute_s), (500.0, 0.5));
        assert_eq!(job.gradient_bytes, vgg16.gradient_bytes());
    }
    let unknown = trace.unknown_models(profiles.all());
    assert_eq!(
        unknown.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "t:3: the model `mine` is not known, so another is drawn for each of its 1 jobs; describe \
          it in a file of models"
        ]
    );
}

#[test]
fn pai_jobs_have_the_gpus_of_all_their_tasks() {
    let trace = read(TASKS);
    // Three halves and one whole: 2.5 GPUs, from 1010 to 1600.
    assert_eq!(jobs(&trace), [(0.0, 100.0, 4), (110.0, 590.0, 3)]);
    assert_eq!(
        warnings(&trace),
        [
            "t:1: it asks for part of a GPU; 1 such jobs get whole ones",
            "t:4: `` is not the time of a start or an end; the job is left out",
            "t:5: it asks for no GPU; 1 such jobs are left out",
        ]
    );
    for joined in [format!("{LAUNCHES}{TASKS}"), format!("{TASKS}{LAUNCHES}")] {
        let trace = read(&joined);
        assert_eq!(jobs(&trace), [(0.0, 100.0, 4), (100.0, 590.0, 3)]);
        assert_eq!(groups(&trace), ["ub", "ua"]);
    }
}

#[test]
fn openb_pods_with_part_of_a_gpu_get_a_whole_one() {
    let trace = read(OPENB);
    assert_eq!(jobs(&trace), [(0.0, 1490.0, 8), (20.0, 30.0, 1), (40.0, 5.0, 1)]);
    assert_eq!(groups(&trace), ["Burstable", "BE", "LS"]);
    assert_eq!(
        warnings(&trace),
        [
            "t:3: it asks for part of a GPU; 1 such jobs get whole ones",
            "t:4: it asks for no GPU; 1 such jobs are left out",
            "t:5: `` is not a start; the job is left out",
        ]
    );
}

#[test]
fn attempts_of_sacct_are_added_up_and_steps_skipped() {
    let trace = read(SACCT);
    assert_eq!(jobs(&trace), [(0.0, 180.0, 8), (30.0, 30.0, 3)]);
    assert_eq!(groups(&trace), ["ua", "ub"]);
    assert_eq!(
        warnings(&trace),
        [
            "t:5: `Unknown` is not a start; the job is left out",
            "t:6: it asks for no GPU; 1 such jobs are left out",
            "t:9: `Unknown` is not an end; the job is left out",
        ]
    );
    // --parsable2 has no bar at the end of lines.
    assert_eq!(jobs(&read(&SACCT.replace("|\n", "\n"))), jobs(&trace));
}

#[test]
fn processors_of_swf_are_gpus() {
    let trace = read(SWF);
    assert_eq!(jobs(&trace), [(0.0, 100.0, 8), (10.0, 60.0, 4), (20.0, 50.0, 4)]);
    assert_eq!(groups(&trace), ["3", "", "4"]);
    assert_eq!(
        warnings(&trace),
        [
            "t:8: it ran for -1 s; the job is left out",
            "t:9: `-1` is not a number of processors; the job is left out",
            "t:10: the line has 4 fields in place of 18; the job is left out",
        ]
    );
}

#[test]
fn named_columns_replace_what_is_drawn() {
    let trace = with(MAPPED, &COLUMNS);
    assert_eq!(jobs(&trace), [(0.0, 100.0, 2), (5.0, 10.0, 1)]);
    assert_eq!(groups(&trace), ["ua", "ub"]);
    let profiles = Profiles::netpack();
    let made = trace.jobs(profiles.all(), 1);
    let told = (made[0].iterations, made[0].compute_s, made[0].gradient_bytes);
    assert_eq!(told, (50.0, 2.0, 4e6));
    // The other job is drawn as if the first told nothing.
    let plain = with(MAPPED, &COLUMNS[..6]);
    assert_eq!(plain.told, []);
    assert_eq!(plain.jobs(profiles.all(), 1)[1], made[1]);
    // Our own format keeps all of it.
    let mut written = Vec::new();
    trace.write(&mut written).unwrap();
    let again = read(std::str::from_utf8(&written).unwrap());
    assert_eq!(again.jobs(profiles.all(), 1), made);
}

#[test]
fn times_of_named_columns_are_seconds_or_dates() {
    let pairs = ["submit=at", "gpus=n", "duration=s"];
    assert_eq!(jobs(&with("n,at,s\n1,5,3\n2,7.5,4\n", &pairs)), [(0.0, 3.0, 1), (2.5, 4.0, 2)]);
    let mixed = with("n,at,s\n1,2024-03-01 10:00:00,3\n2,7.5,4\n", &pairs);
    assert_eq!(warnings(&mixed), ["t:3: `7.5` is not a time of submission; the job is left out"]);
}

#[test]
fn wrong_columns_are_named_with_what_the_table_has() {
    let read = |text: &str, pairs: &[&str]| error(text, columns(pairs));
    let pairs = ["submit=at", "gpus=gpu", "duration=s"];
    assert_eq!(
        read("n,at,s\n", &pairs),
        "t:1: there is no column `gpu`; correct `gpus=gpu`: the table has n, at, s"
    );
    assert_eq!(
        read("gpus,at,s\n", &pairs),
        "t:1: there is no column `gpu`; correct `gpus=gpu`: did you mean `gpus`?"
    );
    assert_eq!(read("gpu,at,GPU,s\n", &pairs), "t:1: two columns are called `gpu`; rename one");
}

#[test]
fn repeated_job_numbers_are_refused_with_both_lines() {
    let expected = |first: u32, second: u32| {
        format!(
            "t:{second}: the job has the number of the job in line {first}; remove one of the two, or \
             give them different numbers"
        )
    };
    let twice =
        |text: &str, line: usize| format!("{text}{}\n", text.lines().nth(line - 1).unwrap());
    assert_eq!(error(&twice(ELASTICFLOW, 2), None), expected(2, 4));
    assert_eq!(error(&twice(&twice(RAW, 3), 2), None), expected(3, 4), "the first repetition");
    assert_eq!(error(&twice(OPENB, 6), None), expected(6, 7));
    assert_eq!(error(&twice(SWF, 4), None), expected(4, 11));
    let mapped = Trace::read(twice(MAPPED, 2).as_bytes(), "t", columns(&COLUMNS)).unwrap_err();
    assert_eq!(mapped.to_string(), expected(2, 4));
    // Without the column of job numbers, both are jobs.
    let jobs = with(&twice(MAPPED, 2), &COLUMNS[1..]).submissions;
    assert_eq!(jobs.len(), 3);
}

#[test]
fn packed_files_are_read_whatever_their_name() {
    for text in [TABLE, LOG, SWF, TASKS] {
        let plain = read(text);
        let both = packed(text.as_bytes());
        assert_eq!(Trace::read(both.as_slice(), "t", None).unwrap(), plain);
        let slow = BufReader::with_capacity(1, both.as_slice());
        assert_eq!(Trace::read(slow, "t", None).unwrap(), plain);
        // gzip can be applied to parts.
        let (head, tail) = text.split_at(text.len() / 2);
        let parts = [packed(head.as_bytes()), packed(tail.as_bytes())].concat();
        assert_eq!(Trace::read(parts.as_slice(), "t", None).unwrap(), plain);
        let cut = Trace::read(&both[..both.len() - 9], "t", None).unwrap_err().to_string();
        assert!(cut.starts_with("t: cannot read the trace: "), "{cut}");
    }
}

#[test]
fn values_that_no_job_has_are_left_out() {
    let pairs = ["submit=at", "gpus=n", "duration=s", "iterations=i", "gradients=g"];
    let text = "n,at,s,i,g\n1,0,5,,\n1,0,5,0,\n1,0,5,1e308,\n1,0,5,NaN,\n1,0,5,-3,\n1,0,5,x,\n\
                1,0,5,,-1\n1,0,5,,1e308\n1,0,5,,inf\n1,1e308,5,,\n1,0,1e308,,\n99999999999,0,5,,\n";
    let trace = with(text, &pairs);
    assert_eq!(jobs(&trace), [(0.0, 5.0, 1)]);
    let lines: Vec<_> = trace.warnings.iter().map(|warning| warning.line).collect();
    assert_eq!(lines, (3..=13).collect::<Vec<_>>());
}

#[test]
fn long_names_and_many_names_are_not_kept() {
    let mut text = "submit_s,duration_s,gpus,group\n".to_owned();
    for at in 0..70_000 {
        text.push_str(&format!("{at},1,1,g{at}\n"));
    }
    text.push_str(&format!("70000,1,1,{}\n", "x".repeat(1000)));
    let trace = read(&text);
    assert_eq!((trace.groups.len(), trace.submissions.len()), (1 << 16, 70_001));
    assert!(trace.submissions[70_000].group.is_none());
}

fn any_reading() -> impl Strategy<Value = Reading> {
    let formats = Format::ALL.map(Reading::As);
    let readings = formats.into_iter().chain([Reading::Detected, columns(&COLUMNS).into()]);
    prop::sample::select(readings.collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn changed_traces_are_read_or_refused(
        which in 0..8_usize,
        reading in any_reading(),
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..6), 0..5_usize),
            0..4,
        ),
        pack: bool,
    ) {
        let texts = [ELASTICFLOW, TASKS, LAUNCHES, OPENB, SACCT, SWF, MAPPED, LOG];
        let mut bytes = texts[which].as_bytes().to_vec();
        for (at, with, length) in changes {
            let at = at.index(bytes.len());
            let end = (at + length).min(bytes.len());
            bytes.splice(at..end, with);
        }
        if pack {
            bytes = packed(&bytes);
        }
        match Trace::read(bytes.as_slice(), "t", reading) {
            Ok(trace) => {
                prop_assert!(trace.submissions.is_sorted_by_key(|job| job.submit_s));
                for job in trace.jobs(Profiles::netpack().all(), 0) {
                    prop_assert!(job.gpus > 0 && job.iterations > 0.0 && job.compute_s > 0.0);
                    prop_assert!((0.0..1e17).contains(&job.gradient_bytes), "{job:?}");
                }
            }
            Err(error) => prop_assert_eq!(error.to_string().lines().count(), 1),
        }
    }
}
