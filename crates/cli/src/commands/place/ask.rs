//! `tributary place submit`, `list` and `cancel`: requests to the manager.

use std::error::Error as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tributary_access::remote;
use tributary_api::placement::v1;
use tributary_api::placement::v1::exit::Outcome;
use tributary_api::placement::v1::job::State;
use tributary_api::placement::v1::placement_manager_client::PlacementManagerClient;
use tributary_cluster::model::Profiles;

use super::ManagerArgs;
use tributary_run::report;

/// Maximum length of an answer: a list of about 100 000 jobs.
const LONGEST_ANSWER: usize = 64 << 20;

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    manager: ManagerArgs,
    /// Name of the job.
    #[arg(long, value_name = "NAME", default_value = "job")]
    name: String,
    /// Number of requested GPUs.
    #[arg(long, value_name = "N")]
    gpus: u32,
    /// Value of running the job.
    #[arg(long, value_name = "VALUE", default_value_t = 1.0)]
    value: f64,
    /// Number of iterations.
    #[arg(long, value_name = "N", required_unless_present = "command")]
    iterations: Option<u32>,
    /// Name of the model. A known model (vgg16, …) sets defaults for --compute and --gradients.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Computing time of an iteration on each GPU, in microseconds.
    #[arg(long, value_name = "US")]
    compute: Option<u64>,
    /// Gradients that an iteration sums, in bytes per worker: a multiple of 4.
    #[arg(long, value_name = "BYTES")]
    gradients: Option<u64>,
    /// Number of retries after one of the job's processes has failed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    retries: u32,
    /// Key of the request: repeating it with the same key does not submit another job.
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Wait until the job is over; fail if it fails.
    #[arg(long)]
    wait: bool,
    /// Working directory of the command on the servers; by default this one.
    #[arg(long, value_name = "DIR", requires = "command")]
    chdir: Option<PathBuf>,
    /// A command for each server of the job to run, such as `torchrun train.py`, after `--`. Without
    /// one, workers sum random numbers.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The model of a command that names none, and its number of iterations, as far as policies are
/// concerned.
const USUAL: (&str, u32) = ("resnet50", 1000);

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    manager: ManagerArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    manager: ManagerArgs,
    /// The job's number.
    job: u32,
}

type Client = PlacementManagerClient<Channel>;

/// Sends a request to the manager.
fn ask<T>(
    manager: &ManagerArgs,
    question: impl AsyncFnOnce(&mut Client) -> Result<T>,
) -> Result<T> {
    let remote = manager.remote()?;
    tributary_endpoint::runtime()?.block_on(async {
        let channel = remote
            .connect()
            .await
            .with_context(|| format!("the manager at {} cannot be reached", manager.manager))?;
        question(&mut Client::new(channel).max_decoding_message_size(LONGEST_ANSWER)).await
    })
}

fn refused(status: Status) -> anyhow::Error {
    match status.code() {
        _ if status.source().is_some() => {
            anyhow!("the manager cannot be reached: {}", remote::reason(&status))
        }
        Code::Unavailable => anyhow!("the manager ended: {}", status.message()),
        _ => anyhow!("the manager refused: {}", status.message()),
    }
}

/// # Errors
/// One line that describes the problem.
pub(super) fn submit(args: &SubmitArgs) -> Result<()> {
    let models = Profiles::known();
    let is_command = !args.command.is_empty();
    let known = args
        .model
        .as_ref()
        .and_then(|name| models.get(name))
        .or(models.get(USUAL.0).filter(|_| is_command));
    let gradients = args.gradients.or(known.map(|model| model.gradient_bytes() as u64));
    let gradients = gradients
        .context("say how much an iteration sums with --gradients BYTES, or name a known model")?;
    let compute = args.compute.or(known.map(|model| (model.compute_s * 1e6) as u64));
    let request = v1::SubmitRequest {
        key: args.key.clone().unwrap_or_default(),
        name: args.name.clone(),
        model: args.model.clone().unwrap_or_default(),
        gpus: args.gpus,
        value: args.value,
        iterations: args.iterations.unwrap_or(USUAL.1),
        compute_us: compute.unwrap_or(0),
        gradient_bytes: gradients,
        retries: args.retries,
        command: args.command.clone(),
        directory: directory(args)?,
    };
    ask(&args.manager, async |client| {
        let job_id = client.submit(request).await.map_err(refused)?.into_inner().job_id;
        tributary_base::say!("job {job_id}");
        if args.wait { wait(client, job_id).await } else { Ok(()) }
    })
}

/// The working directory of the command, if there is one.
fn directory(args: &SubmitArgs) -> Result<String> {
    if args.command.is_empty() {
        return Ok(String::new());
    }
    let here = std::env::current_dir().context("cannot tell the working directory")?;
    let directory = here.join(args.chdir.as_deref().unwrap_or(Path::new("")));
    let text = directory.to_str().map(str::to_owned);
    text.with_context(|| format!("--chdir {}: write it in UTF-8", directory.display()))
}

/// Waits until a job is over.
async fn wait(client: &mut Client, job_id: u32) -> Result<()> {
    let watched = client.watch(v1::WatchRequest { job_id }).await.map_err(refused)?;
    let mut states = watched.into_inner();
    let mut last = State::Unspecified;
    while let Some(v1::WatchResponse { job }) = states.message().await.map_err(refused)? {
        let Some(job) = job else { continue };
        let state = job.state();
        if state != last {
            tributary_base::say!("job {job_id} is {}", word(state));
            last = state;
        }
        if state == State::Failed {
            bail!("job {job_id} failed: {}", job.reason);
        }
    }
    match last {
        State::Finished => Ok(()),
        State::Cancelled => bail!("job {job_id} was cancelled"),
        _ => bail!("the manager ended; job {job_id} is {} and continues", word(last)),
    }
}

/// # Errors
/// One line that describes the problem.
pub(super) fn cancel(args: &CancelArgs) -> Result<()> {
    let request = v1::CancelRequest { job_id: args.job };
    ask(&args.manager, async |client| client.cancel(request).await.map(drop).map_err(refused))
}

/// # Errors
/// One line that describes the problem.
pub(super) fn list(args: &ListArgs) -> Result<()> {
    let listed = ask(&args.manager, async |client| {
        Ok(client.list(v1::ListRequest {}).await.map_err(refused)?.into_inner())
    })?;
    if args.json {
        return tributary_base::program::print(&serde_json::to_string_pretty(&json(&listed))?);
    }
    let mut servers = report::table(&["server", "GPUs", "free", "agent"]);
    for server in &listed.servers {
        servers.add_row([
            server.name.clone(),
            server.gpus.to_string(),
            server.free.to_string(),
            if server.present { "there" } else { "away" }.to_owned(),
        ]);
    }
    let header = ["job", "name", "model", "GPUs", "value", "state", "attempts", "where", "why"];
    let mut jobs = report::table(&header);
    for job in &listed.jobs {
        let request = job.request.clone().unwrap_or_default();
        jobs.add_row([
            job.job_id.to_string(),
            request.name,
            request.model,
            request.gpus.to_string(),
            request.value.to_string(),
            word(job.state()).to_owned(),
            job.attempts.to_string(),
            places(job),
            job.reason.clone(),
        ]);
    }
    tributary_base::program::print(&format!("{servers}\n{jobs}"))
}

/// The servers of a job with its GPUs on each, and the parameter server's.
fn places(job: &v1::Job) -> String {
    let place = |task: &v1::Task| format!("{}×{}", task.server, task.gpus);
    let server = (!job.server.is_empty()).then(|| format!("{} (PS)", job.server));
    job.tasks.iter().map(place).chain(server).collect::<Vec<_>>().join(" ")
}

fn word(state: State) -> &'static str {
    match state {
        State::Unspecified => "unknown",
        State::Waiting => "waiting",
        State::Running => "running",
        State::Ending => "ending",
        State::Finished => "finished",
        State::Failed => "failed",
        State::Cancelled => "cancelled",
    }
}

fn json(listed: &v1::ListResponse) -> serde_json::Value {
    let task = |task: &v1::Task| {
        let exit = task.exit.as_ref();
        serde_json::json!({
            "server": task.server,
            "gpus": task.gpus,
            "outcome": exit.map(|exit| match exit.outcome() {
                Outcome::Success => "success",
                Outcome::Lost => "lost",
                Outcome::Failure | Outcome::Unspecified => "failure",
            }),
            "detail": exit.map(|exit| &exit.detail),
            "values": exit.map(|exit| exit.values),
            "verified": exit.map(|exit| exit.verified),
        })
    };
    let job = |job: &v1::Job| {
        let request = job.request.clone().unwrap_or_default();
        serde_json::json!({
            "job": job.job_id,
            "name": request.name,
            "model": request.model,
            "gpus": request.gpus,
            "value": request.value,
            "iterations": request.iterations,
            "command": request.command,
            "state": word(job.state()),
            "attempts": job.attempts,
            "reason": job.reason,
            "tasks": job.tasks.iter().map(task).collect::<Vec<_>>(),
            "server": (!job.server.is_empty()).then_some(&job.server),
        })
    };
    let server = |server: &v1::Server| {
        serde_json::json!({
            "server": server.name,
            "gpus": server.gpus,
            "free": server.free,
            "present": server.present,
        })
    };
    serde_json::json!({
        "servers": listed.servers.iter().map(server).collect::<Vec<_>>(),
        "jobs": listed.jobs.iter().map(job).collect::<Vec<_>>(),
    })
}
