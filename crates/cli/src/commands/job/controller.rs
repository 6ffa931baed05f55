//! Requests to a controller (`tributary.jobs.v1`).

use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Response, Status};
use tributary_access::args::KeyArgs;
use tributary_access::{Remote, remote};
use tributary_api::jobs::v1;
use tributary_api::jobs::v1::iteration::State;
use tributary_api::jobs::v1::jobs_client::JobsClient;
use tributary_base::FileLimit;
use tributary_run::report;

use super::{Aggregation, ChangeArgs, SubmitArgs};

/// Limit of an answer: a change reaches all switches of a job.
const PATIENCE: Duration = Duration::from_secs(60);

/// Maximum length of an answer: a list of the jobs of a controller.
const LONGEST_ANSWER: usize = 64 << 20;

/// The settings of a job.
const SETTINGS: FileLimit = FileLimit::new("job's settings", 1 << 20);

/// A controller, and its address for messages.
pub(super) struct Controller {
    remote: Remote,
    address: String,
}

type Client = JobsClient<Channel>;

impl Controller {
    pub(super) fn at(address: &str, keys: &KeyArgs) -> Result<Self> {
        Ok(Self { remote: keys.remote("--controller", address)?, address: address.to_owned() })
    }

    /// Sends requests.
    fn ask<T>(&self, requests: impl AsyncFnOnce(&mut Client) -> Result<T>) -> Result<T> {
        tributary_endpoint::runtime()?.block_on(async {
            let channel = self.remote.connect().await;
            let channel = channel
                .with_context(|| format!("the controller at {} cannot be reached", self.address))?;
            requests(&mut Client::new(channel).max_decoding_message_size(LONGEST_ANSWER)).await
        })
    }

    /// The answer to a request.
    async fn answer<T>(
        &self,
        request: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T> {
        let answer = timeout(PATIENCE, request).await;
        let answer =
            answer.with_context(|| format!("the controller at {} takes too long", self.address))?;
        Ok(answer.map_err(|status| self.refused(&status))?.into_inner())
    }

    fn refused(&self, status: &Status) -> anyhow::Error {
        anyhow!("the controller at {} refused: {}", self.address, remote::reason(status))
    }

    /// Admits a job.
    pub(super) fn submit(&self, args: &SubmitArgs) -> Result<()> {
        let request = request(args)?;
        let admitted = self.ask(async |client| self.answer(client.admit(request)).await)?;
        let v1::AdmitResponse { job_id, epoch, rate, parameter_server, assignment } = admitted;
        let server = match &*parameter_server {
            "" => "no parameter server".to_owned(),
            host => format!("parameter server {host}"),
        };
        let (assignment, rate) = (assigned(assignment.unwrap_or_default()), rate_text(rate));
        tributary_base::say!("job {job_id}: run {epoch}, {assignment}, {server}, rate {rate}");
        Ok(())
    }

    /// Shows all jobs, and the memory of switches.
    pub(super) fn list(&self, as_json: bool) -> Result<()> {
        let listed = self.ask(async |client| self.answer(client.list(v1::ListRequest {})).await)?;
        if as_json {
            let text = serde_json::to_string_pretty(&listed_json(&listed))?;
            return tributary_base::program::print(&text);
        }
        let header =
            ["job", "name", "workers", "server", "run", "summed", "iteration", "rate", "tenant"];
        let mut jobs = report::table(&header);
        for job in &listed.jobs {
            jobs.add_row([
                job.job_id.to_string(),
                job.name.clone(),
                job.workers.join(" "),
                job.parameter_server.clone(),
                job.epoch.to_string(),
                assigned(job.assignment.unwrap_or_default()),
                if job.stepped { iterated(job.iteration.as_ref()) } else { String::new() },
                rate_text(job.rate),
                job.tenant.clone(),
            ]);
        }
        let mut memory = report::table(&["switch", "aggregators", "free", "largest free piece"]);
        for switch in &listed.memory {
            memory.add_row([
                switch.switch.clone(),
                switch.aggregators.to_string(),
                switch.free.to_string(),
                switch.largest.to_string(),
            ]);
        }
        tributary_base::program::print(&format!("{jobs}\n{memory}"))
    }

    /// Prints the state of a job until it is released.
    pub(super) fn watch(&self, job_id: u32, as_json: bool) -> Result<()> {
        self.ask(async |client| {
            let request = v1::WatchRequest { job_id, epoch: 0 };
            let mut states = self.answer(client.watch(request)).await?;
            while let Some(state) =
                states.message().await.map_err(|status| self.refused(&status))?
            {
                let v1::WatchResponse { iteration, assignment, rate, epoch } = state;
                if as_json {
                    let state = json!({
                        "job": job_id,
                        "run": epoch,
                        "assignment": assignment.map(assignment_json),
                        "iteration": iteration.as_ref().map(iteration_json),
                        "rate": rate,
                    });
                    tributary_base::say!("{state}");
                } else {
                    tributary_base::say!(
                        "job {job_id}: run {epoch}, {}, {}, rate {}",
                        iterated(iteration.as_ref()),
                        assigned(assignment.unwrap_or_default()),
                        rate_text(rate)
                    );
                }
            }
            match as_json {
                true => tributary_base::say!("{}", json!({ "job": job_id, "released": true })),
                false => tributary_base::say!("job {job_id} is released"),
            }
            Ok(())
        })
    }

    /// Sets the rate of a job, and moves it.
    pub(super) fn change(&self, args: &ChangeArgs) -> Result<()> {
        let job_id = args.job;
        self.ask(async |client| {
            if let Some(rate) = args.rate {
                let request = v1::SetRateRequest { job_id, rate };
                self.answer(client.set_rate(request)).await?;
                tributary_base::say!("job {job_id}: rate {}", rate_text(rate));
            }
            if args.aggregation.is_some() || args.segment.is_some() {
                let aggregation = args.aggregation.unwrap_or(Aggregation::Network);
                let (aggregation, size) = (aggregation.wire().into(), args.segment.unwrap_or(0));
                let request = v1::MoveRequest { job_id, aggregation, size };
                let moved = self.answer(client.r#move(request)).await?;
                let assignment = assigned(moved.assignment.unwrap_or_default());
                tributary_base::say!("job {job_id}: {assignment}");
            }
            Ok(())
        })
    }

    /// Releases a job.
    pub(super) fn cancel(&self, job_id: u32) -> Result<()> {
        let request = v1::ReleaseRequest { job_id };
        let released = self.ask(async |client| self.answer(client.release(request)).await)?;
        tributary_base::say!("job {job_id} released, {} aggregators freed", released.freed);
        Ok(())
    }
}

impl Aggregation {
    fn wire(self) -> v1::Aggregation {
        match self {
            Self::Network => v1::Aggregation::Network,
            Self::Server => v1::Aggregation::Server,
        }
    }
}

/// The request that a command line describes.
fn request(args: &SubmitArgs) -> Result<v1::AdmitRequest> {
    let admitted = &args.admitted;
    ensure!(
        admitted.id.is_some() || !admitted.workers.is_empty(),
        "name a job of the controller's file with --id N, or describe one with --worker HOST for each worker"
    );
    let settings = match &admitted.settings {
        None => String::new(),
        Some(path) => {
            let read = || format!("cannot read {}", path.display());
            String::from_utf8(SETTINGS.read(path).with_context(read)?).with_context(read)?
        }
    };
    let segment = admitted.segment.unwrap_or(0);
    let without = settings.is_empty().then_some(Aggregation::Network);
    let aggregation = admitted.aggregation.or(without);
    ensure!(
        segment > 0 || !settings.is_empty() || matches!(aggregation, Some(Aggregation::Server)),
        "say how many aggregators the job gets with --segment N, or sum it in its parameter server with --aggregation server"
    );
    ensure!(
        args.update.is_none() || args.gradients.is_some(),
        "--update needs --gradients: only jobs with a demand have an update time"
    );
    ensure!(
        args.iterations.is_none() || args.gradients.is_some(),
        "--iterations needs --gradients, the bytes of each; a job without a demand has the rounds of its settings"
    );
    let demand = args.gradients.map(|bytes| v1::Demand {
        bits: 8_u64.saturating_mul(bytes),
        iterations: args.iterations.unwrap_or(0).into(),
        aggregators: segment,
        update_us: args.update.unwrap_or_default().as_micros() as u64,
    });
    Ok(v1::AdmitRequest {
        job_id: admitted.id.unwrap_or(0).into(),
        workers: admitted.workers.clone(),
        parameter_server: admitted.ps.clone().unwrap_or_default(),
        aggregation: aggregation.map_or(0, |place| place.wire().into()),
        size: segment,
        demand,
        name: args.name.clone().unwrap_or_default(),
        lease: admitted.lease,
        max_rate: admitted.max_rate.unwrap_or(0),
        stepped: admitted.stepped,
        settings,
        key: admitted.job_key.as_ref().map_or_else(Vec::new, |key| key.0.to_vec()),
        ..v1::AdmitRequest::default()
    })
}

/// How a job is summed.
fn mode(assignment: v1::Assignment) -> &'static str {
    match assignment.mode() {
        v1::Mode::Unspecified => "unknown",
        v1::Mode::Local => "local",
        v1::Mode::Partial => "partial",
        v1::Mode::Forwarded => "forwarded",
    }
}

fn assigned(assignment: v1::Assignment) -> String {
    match (mode(assignment), assignment.size) {
        (mode, 0) => mode.to_owned(),
        (mode, size) => format!("{mode} ({size} aggregators)"),
    }
}

fn iterated(iteration: Option<&v1::Iteration>) -> String {
    match iteration {
        None => "no iteration".to_owned(),
        Some(iteration) => format!("iteration {} {}", iteration.number, state(iteration)),
    }
}

fn state(iteration: &v1::Iteration) -> &'static str {
    match iteration.state() {
        State::Running => "running",
        State::Finished => "finished",
        State::Unspecified => "unknown",
    }
}

fn rate_text(rate: u64) -> String {
    match rate {
        0 => "unlimited".to_owned(),
        rate => format!("{} Mb/s", rate as f64 / 1e6),
    }
}

fn assignment_json(assignment: v1::Assignment) -> Value {
    json!({
        "mode": mode(assignment),
        "service": assignment.service_id,
        "first_aggregator": assignment.mem_id,
        "aggregators": assignment.size,
    })
}

fn iteration_json(iteration: &v1::Iteration) -> Value {
    json!({
        "number": iteration.number,
        "state": state(iteration),
        "unfinished": iteration.unfinished,
    })
}

fn listed_json(listed: &v1::ListResponse) -> Value {
    let job = |job: &v1::Job| {
        json!({
            "job": job.job_id,
            "name": job.name,
            "workers": job.workers,
            "server": (!job.parameter_server.is_empty()).then_some(&job.parameter_server),
            "run": job.epoch,
            "assignment": job.assignment.map(assignment_json),
            "stepped": job.stepped,
            "iteration": job.iteration.as_ref().map(iteration_json),
            "rate": job.rate,
            "tenant": (!job.tenant.is_empty()).then_some(&job.tenant),
            "lease": job.lease.map(|lease| json!({ "held": lease.held })),
        })
    };
    let memory = |memory: &v1::Memory| {
        json!({
            "switch": memory.switch,
            "aggregators": memory.aggregators,
            "free": memory.free,
            "largest": memory.largest,
        })
    };
    json!({
        "jobs": listed.jobs.iter().map(job).collect::<Vec<_>>(),
        "memory": listed.memory.iter().map(memory).collect::<Vec<_>>(),
    })
}
