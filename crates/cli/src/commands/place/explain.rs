//! `tributary place explain`: why a job is where it is.

use anyhow::Result;
use clap::Args;
use tributary_api::placement::v1;
use tributary_api::placement::v1::job::State;
use tributary_run::report;

use crate::commands::job::ManagerArgs;
use crate::commands::job::manager::{job_json, refused, word};

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The job's number.
    job: u32,
    #[command(flatten)]
    manager: ManagerArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// # Errors
/// One line that describes the problem.
pub(crate) fn run(args: &ExplainArgs) -> Result<()> {
    let request = v1::ExplainRequest { job_id: args.job };
    let explained = args
        .manager
        .ask(async |client| Ok(client.explain(request).await.map_err(refused)?.into_inner()))?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&json(&explained))?,
        false => text(&explained),
    };
    tributary_base::program::print(text.trim_end())
}

/// Workers with their GPUs, and the parameter server.
fn place(place: Option<&v1::Place>) -> String {
    let Some(v1::Place { workers, parameter_server }) = place else { return String::new() };
    let workers = workers.iter().map(|worker| format!("{}×{}", worker.server, worker.gpus));
    let ps = (!parameter_server.is_empty()).then(|| format!("{parameter_server} (PS)"));
    workers.chain(ps).collect::<Vec<_>>().join(" ")
}

fn gbps(gbps: f64) -> String {
    format!("{gbps:.3}")
}

fn text(explained: &v1::ExplainResponse) -> String {
    let job = explained.job.clone().unwrap_or_default();
    let workers = job
        .tasks
        .iter()
        .map(|task| v1::PlannedWorker { server: task.server.clone(), gpus: task.gpus });
    let now = v1::Place { workers: workers.collect(), parameter_server: job.server.clone() };
    let mut lines = Vec::new();
    let mut line = |line: String| lines.push(line);
    let name = job.request.as_ref().map_or("", |request| &request.name);
    let reason = if job.reason.is_empty() { String::new() } else { format!(": {}", job.reason) };
    line(format!("job {} ({name}) is {}{reason}", job.job_id, word(job.state())));
    line(format!("policy {}, value {:.3}", explained.policy, explained.value));
    if !now.workers.is_empty() {
        line(format!("on {}", place(Some(&now))));
    }
    if let Some(rate) = explained.rate_gbps {
        line(format!("each worker sends {} Gb/s in the steady state", gbps(rate)));
        let mut switches = report::table(&["switch", "aggregates, Gb/s", "left", "of"]);
        for at in &explained.switches {
            let rates = [at.aggregated_gbps, at.left_gbps, at.pat_gbps].map(gbps);
            switches.add_row([at.switch.clone()].into_iter().chain(rates));
        }
        let mut links = report::table(&["link", "flows", "of all", "left, Gb/s", "of"]);
        for at in &explained.links {
            let link = match at.server.is_empty() {
                true => format!("uplinks of {}", at.uplinks_of),
                false => at.server.clone(),
            };
            let flows = [at.flows, at.all_flows].map(|flows| flows.to_string());
            let rates = [at.left_gbps, at.link_gbps].map(gbps);
            links.add_row([link].into_iter().chain(flows).chain(rates));
        }
        match explained.switches.is_empty() {
            true => line("no switch aggregates for it: its parameter server adds".to_owned()),
            false => line(format!("{switches}")),
        }
        line(format!("{links}"));
    }
    if !matches!(job.state(), State::Finished | State::Failed | State::Cancelled) {
        line(weighed(explained));
    }
    if let Some(distance) = &explained.distance {
        line(describe(distance));
    }
    lines.join("\n")
}

/// The plans that the policy weighed.
fn weighed(explained: &v1::ExplainResponse) -> String {
    if explained.plans.is_empty() {
        return "the policy weighed no plans: one server takes the whole job, no place has enough free \
                GPUs, or the policy ranks servers instead"
            .to_owned();
    }
    let when = match explained.decided {
        true => "plans that the policy weighed when it placed the job",
        false => "plans that the policy would weigh now, if no other job waited",
    };
    let header = ["worth, Gb/s", "workers", "parameter server", "hot spot", "plan"];
    let mut plans = report::table(&header);
    for plan in &explained.plans {
        let terms = [plan.worth_gbps, plan.workers_gbps, plan.ps_gbps, plan.hot_spot_gbps];
        plans.add_row(terms.map(gbps).into_iter().chain([place(plan.place.as_ref())]));
    }
    format!("{when}, best first:\n{plans}")
}

/// The distance to the best place.
fn describe(distance: &v1::Distance) -> String {
    let v1::Distance { skipped, cost_s, least_s, ref best } = *distance;
    if skipped > 0 {
        return format!(
            "distance to the best place: skipped, there are about {skipped} places to try"
        );
    }
    let sums = format!("all running jobs together sum an iteration each in {cost_s:.6} s");
    if cost_s == least_s {
        return format!("{sums}; no other place for this job makes that shorter");
    }
    let best = place(best.as_ref());
    format!(
        "{sums}; with this job on {best} in {least_s:.6} s, {:.1} % less",
        100.0 * (1.0 - least_s / cost_s)
    )
}

fn json(explained: &v1::ExplainResponse) -> serde_json::Value {
    let place = |place: &v1::Place| {
        let workers = place.workers.iter();
        let workers = workers.map(|at| serde_json::json!({ "server": at.server, "gpus": at.gpus }));
        let ps = Some(&place.parameter_server).filter(|ps| !ps.is_empty());
        serde_json::json!({ "workers": workers.collect::<Vec<_>>(), "parameter_server": ps })
    };
    let switch = |at: &v1::SwitchShare| {
        serde_json::json!({
            "switch": at.switch,
            "aggregated_gbps": at.aggregated_gbps,
            "left_gbps": at.left_gbps,
            "pat_gbps": at.pat_gbps,
        })
    };
    let link = |at: &v1::LinkShare| {
        serde_json::json!({
            "server": Some(&at.server).filter(|name| !name.is_empty()),
            "uplinks_of": Some(&at.uplinks_of).filter(|name| !name.is_empty()),
            "flows": at.flows,
            "all_flows": at.all_flows,
            "left_gbps": at.left_gbps,
            "link_gbps": at.link_gbps,
        })
    };
    let plan = |plan: &v1::WeighedPlan| {
        serde_json::json!({
            "place": plan.place.as_ref().map(place),
            "worth_gbps": plan.worth_gbps,
            "workers_gbps": plan.workers_gbps,
            "ps_gbps": plan.ps_gbps,
            "hot_spot_gbps": plan.hot_spot_gbps,
        })
    };
    let distance = |distance: &v1::Distance| match distance.skipped {
        0 => serde_json::json!({
            "cost_s": distance.cost_s,
            "least_s": distance.least_s,
            "best": distance.best.as_ref().map(place),
        }),
        places => serde_json::json!({ "skipped": places }),
    };
    serde_json::json!({
        "job": explained.job.as_ref().map(job_json),
        "policy": explained.policy,
        "value": explained.value,
        "rate_gbps": explained.rate_gbps,
        "switches": explained.switches.iter().map(switch).collect::<Vec<_>>(),
        "links": explained.links.iter().map(link).collect::<Vec<_>>(),
        "decided": explained.decided,
        "plans": explained.plans.iter().map(plan).collect::<Vec<_>>(),
        "distance": explained.distance.as_ref().map(distance),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(servers: &[&str], parameter_server: &str) -> v1::Place {
        let worker = |server: &&str| v1::PlannedWorker { server: (*server).into(), gpus: 2 };
        let workers = servers.iter().map(worker).collect();
        v1::Place { workers, parameter_server: parameter_server.into() }
    }

    fn explained() -> v1::ExplainResponse {
        let task =
            |server: &str| v1::Task { server: server.into(), gpus: 2, ..v1::Task::default() };
        let request = v1::SubmitRequest { name: "big".into(), ..v1::SubmitRequest::default() };
        let job = v1::Job {
            job_id: 7,
            request: Some(request),
            state: State::Running.into(),
            tasks: ["w1", "w2"].map(task).to_vec(),
            server: "w2".into(),
            ..v1::Job::default()
        };
        let link = |server: &str, uplinks_of: &str| v1::LinkShare {
            server: server.into(),
            uplinks_of: uplinks_of.into(),
            flows: 1,
            all_flows: 3,
            left_gbps: 5.0,
            link_gbps: 10.0,
        };
        let plan = v1::WeighedPlan {
            place: Some(placed(&["w1", "w2"], "w3")),
            worth_gbps: 40.0,
            workers_gbps: 20.0,
            ps_gbps: 10.0,
            hot_spot_gbps: 10.0,
        };
        let switch = v1::SwitchShare {
            switch: "s1".into(),
            aggregated_gbps: 5.0,
            left_gbps: 15.0,
            pat_gbps: 20.0,
        };
        v1::ExplainResponse {
            job: Some(job),
            policy: "netpack".into(),
            value: 2.0,
            rate_gbps: Some(5.0),
            switches: vec![switch],
            links: vec![link("w1", ""), link("", "s1")],
            plans: vec![plan],
            decided: true,
            distance: Some(v1::Distance {
                skipped: 0,
                cost_s: 0.004,
                least_s: 0.001,
                best: Some(placed(&["w1", "w2"], "w3")),
            }),
        }
    }

    /// Words, since columns have widths.
    fn has(text: &str, words: &str) -> bool {
        let cells = |line: &str| {
            line.replace(['│', '┆'], " ").split_whitespace().collect::<Vec<_>>().join(" ")
        };
        text.lines().any(|line| cells(line).contains(words))
    }

    #[test]
    fn a_running_job_has_its_share_of_the_network_and_the_plans_weighed() {
        let text = text(&explained());
        for line in [
            "job 7 (big) is running",
            "policy netpack, value 2.000",
            "on w1×2 w2×2 w2 (PS)",
            "each worker sends 5.000 Gb/s in the steady state",
            "s1 5.000 15.000 20.000",
            "w1 1 3 5.000 10.000",
            "uplinks of s1 1 3 5.000 10.000",
            "plans that the policy weighed when it placed the job, best first:",
            "40.000 20.000 10.000 10.000 w1×2 w2×2 w3 (PS)",
            "sum an iteration each in 0.004000 s; with this job on w1×2 w2×2 w3 (PS) in 0.001000 s, 75.0 % less",
        ] {
            assert!(has(&text, line), "{line}\n{text}");
        }
        let json = json(&explained());
        assert_eq!(json["plans"][0]["place"]["parameter_server"], "w3");
        assert_eq!(json["links"][1]["server"], serde_json::Value::Null);
        assert_eq!(json["distance"]["least_s"], 0.001);
    }

    #[test]
    fn a_job_that_waits_has_the_reason() {
        let v1::ExplainResponse { job, policy, value, .. } = explained();
        let job = job.map(|job| v1::Job {
            state: State::Waiting.into(),
            reason: "it wants 4 GPUs, and 1 is free".into(),
            tasks: Vec::new(),
            ..job
        });
        let waiting = v1::ExplainResponse { job, policy, value, ..v1::ExplainResponse::default() };
        let text = text(&waiting);
        assert!(has(&text, "job 7 (big) is waiting: it wants 4 GPUs, and 1 is free"), "{text}");
        assert!(has(&text, "the policy weighed no plans"), "{text}");
        assert!(!text.contains("Gb/s"), "{text}");
        assert_eq!(json(&waiting)["rate_gbps"], serde_json::Value::Null);
    }

    #[test]
    fn the_distance_of_a_job_in_the_best_place_is_none() {
        let best = v1::Distance { skipped: 0, cost_s: 0.5, least_s: 0.5, best: None };
        assert!(describe(&best).ends_with("no other place for this job makes that shorter"));
        let skipped = v1::Distance { skipped: 6_000, ..v1::Distance::default() };
        assert!(describe(&skipped).contains("skipped, there are about 6000 places"));
        assert_eq!(
            json(&v1::ExplainResponse { distance: Some(skipped), ..explained() })["distance"]["skipped"],
            6_000
        );
    }
}
