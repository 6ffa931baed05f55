//! `tributary job show`: one job of the placement manager, and what happened to it.

use anyhow::{Context, Result};
use jiff::Timestamp;
use tributary_api::placement::v1;
use tributary_base::printable;
use tributary_run::report;

use super::ShowArgs;
use super::manager::{ended, job_json, number, places, refused, word};

/// # Errors
/// One line that describes the problem.
pub(super) fn run(args: &ShowArgs) -> Result<()> {
    let request = v1::WatchRequest { job_id: args.job, history: true };
    let job = args.manager.ask(async |client| {
        let mut states = client.watch(request).await.map_err(refused)?.into_inner();
        let first = states.message().await.map_err(refused)?;
        first.and_then(|first| first.job).context("the manager ended")
    })?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&json(&job))?,
        false => text(&job),
    };
    tributary_base::program::print(text.trim_end())
}

/// A time of the manager's clock, in UTC.
fn time(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|at| Timestamp::from_millisecond(at).ok());
    at.map_or_else(|| at_ms.to_string(), |at| format!("{at:.3}"))
}

fn text(job: &v1::Job) -> String {
    let request = job.request.clone().unwrap_or_default();
    let mut lines = Vec::new();
    // Users' commands and their output have any characters.
    let reason = match job.reason.is_empty() {
        true => String::new(),
        false => format!(": {}", printable(&job.reason)),
    };
    lines.push(format!("job {} ({}) is {}{reason}", number(job), request.name, word(job.state())));
    let mut wish = vec![format!("GPUs {}", request.gpus), format!("value {}", request.value)];
    wish.extend((!job.tenant.is_empty()).then(|| format!("tenant {}", job.tenant)));
    wish.extend((!request.command.is_empty()).then(|| printable(&request.command.join(" "))));
    lines.push(wish.join(", "));
    if !job.tasks.is_empty() {
        lines.push(format!("on {}", places(job)));
    }
    let over: Vec<_> = job.tasks.iter().filter(|task| task.exit.is_some()).collect();
    if !over.is_empty() {
        let mut tasks = report::table(&["worker", "server", "end", "detail"]);
        for task in over {
            let worker = task.id.map_or(0, |id| id.worker);
            let exit = task.exit.clone().unwrap_or_default();
            let detail = printable(&exit.detail);
            tasks.add_row([worker.to_string(), task.server.clone(), ended(&exit).into(), detail]);
        }
        lines.push(tasks.to_string());
    }
    if job.history.is_empty() {
        lines.push("an older manager recorded it, without its history".to_owned());
    }
    let moment =
        |moment: &v1::Moment| format!("{}  {}", time(moment.at_ms), printable(&moment.what));
    lines.extend(job.history.iter().map(moment));
    lines.join("\n")
}

fn json(job: &v1::Job) -> serde_json::Value {
    let moment =
        |moment: &v1::Moment| serde_json::json!({ "at": time(moment.at_ms), "what": moment.what });
    let mut json = job_json(job);
    json["history"] = job.history.iter().map(moment).collect();
    json
}

#[cfg(test)]
mod tests {
    use tributary_api::placement::v1::exit::Outcome;
    use tributary_api::placement::v1::job::State;

    use super::*;

    fn job() -> v1::Job {
        let task = |worker, exit| v1::Task {
            id: Some(v1::TaskId { job_id: 7, attempt: 2, worker }),
            server: format!("w{}", worker + 1),
            gpus: 2,
            exit,
        };
        let failed = v1::Exit {
            outcome: Outcome::Failure.into(),
            detail: "it ended with exit status: 1; output in /var/log/job-7-2-1.log".into(),
            ..v1::Exit::default()
        };
        let moment = |at_ms, what: &str| v1::Moment { at_ms, what: what.into() };
        v1::Job {
            job_id: 7,
            request: Some(v1::SubmitRequest {
                name: "big".into(),
                gpus: 4,
                value: 1.0,
                command: vec!["torchrun".into(), "train.py".into()],
                ..v1::SubmitRequest::default()
            }),
            state: State::Ending.into(),
            tasks: vec![task(0, None), task(1, Some(failed))],
            server: "w3".into(),
            tenant: "a".into(),
            packet_id: 9,
            reason: "worker 1 on w2: it ended".into(),
            history: vec![
                moment(1_795_000_000_000, "accepted: 4 GPUs, value 1"),
                moment(1_795_000_005_250, "attempt 2 on w1×2 w2×2, parameter server on w3"),
            ],
            ..v1::Job::default()
        }
    }

    #[test]
    fn a_job_is_shown_with_its_processes_and_its_history() {
        let shown = text(&job());
        for line in [
            "job 7 (9 in packets) (big) is ending: worker 1 on w2: it ended",
            "GPUs 4, value 1, tenant a, torchrun train.py",
            "on w1×2 w2×2 w3 (PS)",
            "failure",
            "2026-11-18T11:06:40.000Z",
            "accepted: 4 GPUs, value 1",
            "2026-11-18T11:06:45.250Z",
        ] {
            assert!(shown.contains(line), "{line}\n{shown}");
        }
        let json = json(&job());
        assert_eq!(json["history"][1]["at"], "2026-11-18T11:06:45.250Z");
        assert_eq!(json["tasks"][1]["outcome"], "failure");
    }

    #[test]
    fn a_job_of_an_older_manager_has_no_history() {
        let shown = text(&v1::Job { history: Vec::new(), tasks: Vec::new(), ..job() });
        assert!(shown.ends_with("without its history"), "{shown}");
    }
}
