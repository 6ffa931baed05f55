//! Renders what an attempt sums, as in a job file.

use toml::{Table, Value};

use crate::job::{Record, Request, Run};

/// The longest run that a job file allows: a job takes as long as it takes.
const LONGEST: &str = "86400000s";

fn text(text: &str) -> Value {
    Value::String(text.into())
}

fn table<const N: usize>(pairs: [(&str, Value); N]) -> Table {
    pairs.map(|(key, value)| (key.to_owned(), value)).into_iter().collect()
}

/// A job to test a network file with: its worker and its parameter server on these hosts, or on any.
pub(crate) fn probe(hosts: &[&str]) -> Table {
    match hosts {
        [worker, ps] => table([("workers", Value::Array(vec![text(worker)])), ("ps", text(ps))]),
        [worker] => table([("workers", Value::Array(vec![text(worker)]))]),
        _ => table([("workers", Value::Integer(1))]),
    }
}

/// The settings of an attempt at the controller. A command may sum what it likes: it gets the sums of a job without one if
/// they `fit`.
pub(crate) fn settings(record: &Record, run: &Run, fit: bool) -> String {
    let mut job = if fit { sums(record, run.tasks.len()) } else { Table::new() };
    if let Some(adding) = run.adding.as_ref().filter(|adding| !adding.is_empty()) {
        let switches = adding.iter().map(|switch| text(switch)).collect();
        job.insert("switches".into(), Value::Array(switches));
    }
    render(table([("job", Value::Table(job))]))
}

/// The job file of an attempt on one server, which needs no network but that of a process.
pub(crate) fn alone(record: &Record, values_per_packet: u16) -> String {
    let network = table([("kind", text("star")), ("workers", Value::Integer(1))]);
    let values = Value::Integer(values_per_packet.into());
    let protocol = table([("kind", text("atp")), ("values_per_packet", values)]);
    render(table([
        ("timeout", text(LONGEST)),
        ("topology", Value::Table(network)),
        ("protocol", Value::Table(protocol)),
        ("job", Value::Array(vec![Value::Table(sums(record, 1))])),
    ]))
}

/// What workers sum that have no command, and how long they compute.
fn sums(record: &Record, workers: usize) -> Table {
    let Request { iterations, compute_us, gradient_bytes, .. } = record.request;
    let pause = |worker: usize| {
        let worker = Value::Integer(i64::try_from(worker).expect("at most 32 workers"));
        Value::Table(table([("worker", worker), ("delay", text(&format!("{compute_us}us")))]))
    };
    let workload = table([
        ("kind", text("random")),
        ("tensors", Value::Integer(iterations.into())),
        ("bytes", text(&format!("{gradient_bytes}B"))),
        // Every attempt sums the same values.
        ("seed", Value::Integer(record.id.into())),
    ]);
    table([
        ("workload", Value::Table(workload)),
        ("straggler", Value::Array((0..workers).map(pause).collect())),
    ])
}

/// A table as TOML.
pub(crate) fn render(table: Table) -> String {
    toml::to_string(&table).expect("plain tables can be written as TOML")
}

#[cfg(test)]
mod tests {
    use tributary_model::jobfile::{Place, Site};
    use tributary_model::{HostId, JobSpec, SwitchId, Workload};
    use tributary_wire::JobId;
    use tributary_wire::channel::{TOKEN_LEN, Token};

    use super::*;
    use crate::job::{Phase, Task};

    fn record(workers: u8) -> (Record, Run) {
        let task = |worker: u8| {
            let server = format!("w{}", worker + 1);
            Task { worker, server, incarnation: 1, gpus: 2, exit: None }
        };
        let run = Run {
            attempt: 2,
            since_ms: 5,
            wire: None,
            epoch: None,
            adding: Some(vec!["s1".into()]),
            ps: None,
            key: Token([0; TOKEN_LEN]),
            tasks: (0..workers).map(task).collect(),
        };
        let request = Request {
            key: String::new(),
            name: "job-1".into(),
            model: String::new(),
            gpus: 2 * u32::from(workers),
            value: 1.0,
            iterations: 7,
            compute_us: 1_500,
            gradient_bytes: 4_000,
            retries: 0,
            command: Vec::new(),
            directory: String::new(),
            tenant: None,
            max_rate: None,
        };
        let record = Record {
            id: 9,
            request,
            submitted_ms: 4,
            attempts: 2,
            failures: 0,
            setback: None,
            phase: Phase::Waiting,
            servers: Vec::new(),
            history: Vec::new(),
        };
        (record, run)
    }

    fn check(job: &JobSpec, workers: usize) {
        let Workload::Random(random) = &job.workload else { panic!("{:?}", job.workload) };
        assert_eq!((random.tensors, random.elements, random.seed), (7, 1_000, 9));
        assert_eq!(job.stragglers.len(), workers);
        assert!(job.stragglers.iter().all(|own| own.delay.as_micros() == 1_500));
    }

    #[test]
    fn the_controller_takes_the_settings_of_an_attempt() {
        let (record, run) = record(2);
        let network = "[topology]\nkind = \"star\"\nworkers = 3\nps_hosts = 1\n[[job]]\n";
        let site = Site::of(network, "network.toml").unwrap();
        let workers = vec![HostId(2), HostId(0)];
        let place =
            Place { id: JobId::new(7).unwrap(), name: "job-1#7".into(), workers, group: false };
        let job = |fit| {
            let settings = settings(&record, &run, fit);
            site.job(place.clone(), &settings, || Some(HostId(0))).unwrap()
        };
        check(&job(true), 2);
        let job = job(false);
        assert!(job.stragglers.is_empty());
        assert_eq!(job.adding, Some([SwitchId(0)].into()));
    }

    #[test]
    fn a_job_on_one_server_is_a_whole_job_file() {
        let scenario =
            tributary_model::jobfile::parse(&alone(&record(1).0, 256), "job-9-2.toml").unwrap();
        assert_eq!(scenario.network.switch.values_per_packet, 256);
        check(&scenario.jobs[0], 1);
    }
}
