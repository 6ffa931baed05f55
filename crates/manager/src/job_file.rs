//! Renders an attempt as a job of a job file.

use toml::{Table, Value};

use crate::job::{Record, Request, Run};

fn text(text: &str) -> Value {
    Value::String(text.into())
}

fn table<const N: usize>(pairs: [(&str, Value); N]) -> Table {
    pairs.map(|(key, value)| (key.to_owned(), value)).into_iter().collect()
}

/// A job to test a network file with, on a given host or on any.
pub(crate) fn probe(host: Option<&str>) -> Table {
    match host {
        Some(host) => table([("workers", Value::Array(vec![text(host)])), ("ps", text(host))]),
        None => table([("workers", Value::Integer(1))]),
    }
}

/// An attempt at a job.
pub(crate) fn job(record: &Record, run: &Run) -> Table {
    let Request { ref name, iterations, compute_us, gradient_bytes, .. } = record.request;
    let hosts: Vec<&str> = run.workers().map(|task| task.server.as_str()).collect();
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
    // A job on one server is its own parameter server.
    let ps = run.ps().map_or(hosts[0], |task| task.server.as_str());
    let mut job = table([
        ("name", text(name)),
        ("id", Value::Integer(run.wire.unwrap_or(1).into())),
        ("workers", Value::Array(hosts.iter().map(|host| text(host)).collect())),
        ("ps", text(ps)),
        ("workload", Value::Table(workload)),
        ("straggler", Value::Array((0..hosts.len()).map(pause).collect())),
    ]);
    if let Some(rate) = record.request.max_rate {
        job.insert("max_rate".into(), text(&format!("{rate}b/s")));
    }
    job
}
