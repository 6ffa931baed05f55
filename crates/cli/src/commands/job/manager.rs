//! Requests to the placement manager (`tributary.placement.v1`).

use std::error::Error as _;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tributary_access::args::KeyArgs;
use tributary_access::listen::standard;
use tributary_access::remote;
use tributary_api::placement::v1;
use tributary_api::placement::v1::exit::Outcome;
use tributary_api::placement::v1::job::State;
use tributary_api::placement::v1::placement_manager_client::PlacementManagerClient;
use tributary_cluster::model::Profiles;

use super::{CancelArgs, ListArgs, ManagerArgs, PlacedArgs, ServerArgs, SubmitArgs, WatchArgs};
use tributary_run::report;

/// Maximum length of an answer: a list of about 100 000 jobs.
const LONGEST_ANSWER: usize = 64 << 20;

/// The model of a command that names none, and its number of iterations, as far as policies are
/// concerned.
const USUAL: (&str, u32) = ("resnet50", 1000);

pub(crate) type Client = PlacementManagerClient<Channel>;

/// Sends a request to the manager.
fn ask<T>(server: &ServerArgs, question: impl AsyncFnOnce(&mut Client) -> Result<T>) -> Result<T> {
    ask_at(server.manager.as_deref(), &server.keys, question)
}

impl ManagerArgs {
    /// Sends a request to this manager.
    pub(crate) fn ask<T>(&self, question: impl AsyncFnOnce(&mut Client) -> Result<T>) -> Result<T> {
        ask_at(self.manager.as_deref(), &self.keys, question)
    }
}

/// Sends a request to the manager at an address, or at the usual one of this host.
fn ask_at<T>(
    manager: Option<&str>,
    keys: &KeyArgs,
    question: impl AsyncFnOnce(&mut Client) -> Result<T>,
) -> Result<T> {
    let manager = manager.map_or_else(|| standard("manager").to_string(), str::to_owned);
    let remote = keys.remote("--manager", &manager)?;
    tributary_endpoint::runtime()?.block_on(async {
        let channel = remote
            .connect()
            .await
            .with_context(|| format!("the manager at {manager} cannot be reached"))?;
        question(&mut Client::new(channel).max_decoding_message_size(LONGEST_ANSWER)).await
    })
}

pub(crate) fn refused(status: Status) -> anyhow::Error {
    match status.code() {
        _ if status.source().is_some() => {
            anyhow!("the manager cannot be reached: {}", remote::reason(&status))
        }
        Code::Unavailable => anyhow!("the manager ended: {}", status.message()),
        Code::Unimplemented => anyhow!("the manager is an older program, which does not know that"),
        Code::DeadlineExceeded => anyhow!("{}", status.message()),
        _ => anyhow!("the manager refused: {}", status.message()),
    }
}

/// # Errors
/// One line that describes the problem.
pub(super) fn submit(args: &SubmitArgs) -> Result<()> {
    let models = Profiles::known();
    let placed = &args.placed;
    let is_command = !placed.command.is_empty();
    let known = placed.model.as_ref().and_then(|name| models.get(name));
    let known = known.or(models.get(USUAL.0).filter(|_| is_command));
    let gradients = args.gradients.or(known.map(|model| model.gradient_bytes() as u64));
    let gradients = gradients
        .context("say how much an iteration sums with --gradients BYTES, or name a known model")?;
    let compute = placed.compute.or(known.map(|model| (model.compute_s * 1e6) as u64));
    let request = v1::SubmitRequest {
        key: placed.request_key.clone().unwrap_or_default(),
        name: args.name.clone().unwrap_or_else(|| "job".to_owned()),
        model: placed.model.clone().unwrap_or_default(),
        gpus: placed.gpus.unwrap_or_default(),
        value: placed.value,
        iterations: args.iterations.unwrap_or(USUAL.1),
        compute_us: compute.unwrap_or(0),
        gradient_bytes: gradients,
        retries: placed.retries,
        command: placed.command.clone(),
        directory: directory(placed)?,
    };
    ask(&args.server, async |client| {
        let job_id = client.submit(request).await.map_err(refused)?.into_inner().job_id;
        tributary_base::say!("job {job_id}");
        if placed.wait { wait(client, job_id).await } else { Ok(()) }
    })
}

/// The working directory of the command, if there is one.
fn directory(args: &PlacedArgs) -> Result<String> {
    if args.command.is_empty() {
        return Ok(String::new());
    }
    let here = std::env::current_dir().context("cannot tell the working directory")?;
    let directory = here.join(args.chdir.as_deref().unwrap_or(Path::new("")));
    let text = directory.to_str().map(str::to_owned);
    text.with_context(|| format!("--chdir {}: write it in UTF-8", directory.display()))
}

/// Waits until a job is over, and prints its states; an error if it failed or was cancelled.
async fn wait(client: &mut Client, job_id: u32) -> Result<()> {
    let mut told = None;
    let state = follow(client, job_id, |job| {
        if told.replace(job.state()) != Some(job.state()) {
            tributary_base::say!("job {job_id} is {}", word(job.state()));
        }
    });
    let last = state.await?;
    match last.as_ref().map_or(State::Unspecified, v1::Job::state) {
        State::Finished => Ok(()),
        State::Failed => {
            bail!("job {job_id} failed: {}", last.map_or_else(String::new, |job| job.reason))
        }
        State::Cancelled => bail!("job {job_id} was cancelled"),
        state => bail!("the manager ended; job {job_id} is {} and continues", word(state)),
    }
}

/// Calls `tell` with each new state of a job, or reason for it, until the job is over or the manager ends. Returns the last one.
async fn follow(
    client: &mut Client,
    job_id: u32,
    mut tell: impl FnMut(&v1::Job),
) -> Result<Option<v1::Job>> {
    let watched =
        client.watch(v1::WatchRequest { job_id, history: false }).await.map_err(refused)?;
    let mut states = watched.into_inner();
    let mut last: Option<v1::Job> = None;
    while let Some(v1::WatchResponse { job }) = states.message().await.map_err(refused)? {
        let Some(job) = job else { continue };
        let is_same = |last: &v1::Job| (last.state(), &last.reason) == (job.state(), &job.reason);
        if !last.as_ref().is_some_and(is_same) {
            tell(&job);
        }
        let failed = job.state() == State::Failed;
        last = Some(job);
        if failed {
            break;
        }
    }
    Ok(last)
}

/// # Errors
/// One line, if the manager cannot be reached, or ends before the job.
pub(super) fn watch(args: &WatchArgs) -> Result<()> {
    let job_id = args.job;
    let tell = |job: &v1::Job| {
        let reason = (!job.reason.is_empty()).then(|| format!(": {}", job.reason));
        match args.json {
            true => tributary_base::say!("{}", job_json(job)),
            false => tributary_base::say!(
                "job {job_id} is {}{}",
                word(job.state()),
                reason.unwrap_or_default()
            ),
        }
    };
    let last = ask(&args.server, async |client| follow(client, job_id, tell).await)?;
    match last.as_ref().map_or(State::Unspecified, v1::Job::state) {
        State::Finished | State::Failed | State::Cancelled => Ok(()),
        state => bail!("the manager ended; job {job_id} is {} and continues", word(state)),
    }
}

/// # Errors
/// One line that describes the problem.
pub(super) fn cancel(args: &CancelArgs) -> Result<()> {
    let request = v1::CancelRequest { job_id: args.job };
    ask(&args.server, async |client| client.cancel(request).await.map(drop).map_err(refused))
}

/// # Errors
/// One line that describes the problem.
pub(super) fn list(args: &ListArgs) -> Result<()> {
    let listed = ask(&args.server, async |client| {
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
    let header = ["job", "name", "tenant", "model", "GPUs", "value", "state", "attempts", "where"];
    let mut jobs = report::table(&header);
    for job in &listed.jobs {
        let request = job.request.clone().unwrap_or_default();
        jobs.add_row([
            number(job),
            request.name,
            job.tenant.clone(),
            request.model,
            request.gpus.to_string(),
            request.value.to_string(),
            word(job.state()).to_owned(),
            job.attempts.to_string(),
            places(job),
        ]);
    }
    // A sentence in a column would make a table that fits no terminal.
    let told = listed.jobs.iter().filter(|job| !job.reason.is_empty());
    let reason =
        |job: &v1::Job| format!("\njob {} is {}: {}", job.job_id, word(job.state()), job.reason);
    let reasons: String = told.map(reason).collect();
    tributary_base::program::print(&format!("{servers}\n{jobs}{reasons}"))
}

/// A job's number, with that in packets and metrics if it is another one.
pub(super) fn number(job: &v1::Job) -> String {
    match job.packet_id {
        id if id == 0 || id == job.job_id => job.job_id.to_string(),
        id => format!("{} ({id} in packets)", job.job_id),
    }
}

/// The servers of a job with its GPUs on each, and the parameter server's.
pub(super) fn places(job: &v1::Job) -> String {
    let place = |task: &v1::Task| format!("{}×{}", task.server, task.gpus);
    let server = (!job.server.is_empty()).then(|| format!("{} (PS)", job.server));
    job.tasks.iter().map(place).chain(server).collect::<Vec<_>>().join(" ")
}

pub(crate) fn word(state: State) -> &'static str {
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

/// How a process ended, in a word.
pub(super) fn ended(exit: &v1::Exit) -> &'static str {
    match exit.outcome() {
        Outcome::Success => "success",
        Outcome::Lost => "lost",
        Outcome::Failure | Outcome::Unspecified => "failure",
    }
}

pub(crate) fn job_json(job: &v1::Job) -> serde_json::Value {
    let task = |task: &v1::Task| {
        let exit = task.exit.as_ref();
        serde_json::json!({
            "server": task.server,
            "gpus": task.gpus,
            "outcome": exit.map(ended),
            "detail": exit.map(|exit| &exit.detail),
            "values": exit.map(|exit| exit.values),
            "verified": exit.map(|exit| exit.verified),
        })
    };
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
        "tenant": (!job.tenant.is_empty()).then_some(&job.tenant),
        "packet_id": (job.packet_id > 0).then_some(job.packet_id),
    })
}

fn json(listed: &v1::ListResponse) -> serde_json::Value {
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
        "jobs": listed.jobs.iter().map(job_json).collect::<Vec<_>>(),
    })
}
