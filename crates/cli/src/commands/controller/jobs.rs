//! The jobs of a controller: those of the job file, which it admits by itself, and those of clients.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow, bail, ensure};
use tributary_access::{Door, Policy, Server};
use tributary_base::program;
use tributary_controller::jobs::Controller;
use tributary_controller::server::LIMITS;
use tributary_controller::service::{Forgetful, Jobs, Journal, Known, Record};
use tributary_metrics::Metrics;
use tributary_model::{Deployment, Scenario, plan::Placement};
use tributary_optical::orchestrator::journal::Redb;
use tributary_wire::JobId;

use crate::commands::watchdog;
use crate::sources::{Controlled, Served, TakingPart};

/// Refuses jobs that clients cannot admit, step and move.
///
/// # Errors
/// If a worker has several threads, whose lanes would be moved one by one.
pub(super) fn fit_for_clients(scenario: &Scenario) -> Result<()> {
    for (_, job) in scenario.whole_jobs() {
        ensure!(
            job.lane.count == 1,
            "--on-demand: clients admit and move only jobs with one thread per worker; leave `threads` out of job {}",
            job.name
        );
    }
    Ok(())
}

/// Refuses jobs that go on after a death if there is no journal.
///
/// # Errors
/// One line that names the job.
pub(crate) fn needs_journal(scenario: &Scenario, journal: Option<&Path>) -> Result<()> {
    let mut jobs = scenario.whole_jobs();
    match jobs.find(|(_, job)| job.on_death.goes_on()) {
        Some((_, job)) if journal.is_none() => bail!(
            "job {} goes on when a worker dies (on_death), so a controller that is started again must know \
             how; name a file for that with --journal FILE",
            job.name
        ),
        _ => Ok(()),
    }
}

/// Divides the records of a journal into those of jobs that the file still has as they were, or that clients have admitted
/// with their settings under IDs that no job of the file has, and the others.
pub(super) fn of_file(records: Vec<Record>, deployment: &Deployment) -> (Vec<Record>, Vec<Record>) {
    records.into_iter().partition(|Record { placement, described, .. }| {
        let jobs = &deployment.scenario().jobs;
        if described.is_some() {
            return jobs.iter().all(|job| job.id != placement.job);
        }
        let index = jobs.iter().position(|job| job.id == placement.job);
        index.is_some_and(|index| {
            let whole = deployment.placement(index);
            let mut hosts = whole.workers.iter();
            // Some may have died.
            let some = placement.workers.iter().all(|own| hosts.any(|host| host == own));
            let all = placement.workers == whole.workers;
            let workers = placement.workers.clone();
            let same = Placement { epoch: placement.epoch, workers, ..whole };
            *placement == same && (all || some && jobs[index].on_death.goes_on())
        })
    })
}

/// What a controller begins with.
pub(super) struct Beginning {
    pub(super) journal: Option<Redb>,
    /// Jobs that go on.
    pub(super) records: Vec<Record>,
    /// Jobs that were removed, because the file does not have them as they were.
    pub(super) outdated: Vec<Record>,
    /// Where endpoints and clients are served.
    pub(super) door: Option<Door>,
    /// Whether clients admit the jobs of the file.
    pub(super) on_demand: bool,
}

/// Keeps jobs admitted until the end: those of the file, and those that clients admit.
pub(super) async fn serve(
    controller: Controller,
    known: Known,
    beginning: Beginning,
    stop: &AtomicBool,
    metrics: &Metrics,
) -> Result<()> {
    let Beginning { journal, records, outdated, door, on_demand } = beginning;
    let network = &known.deployment.scenario().network;
    let controller = match network.protocol.has_partitions() {
        true => controller.partitioned(network.switch.partitions)?,
        false => controller,
    };
    let remembers = journal.is_some();
    let journal: Arc<dyn Journal> = match journal {
        Some(journal) => Arc::new(journal),
        None => Arc::new(Forgetful),
    };
    for record in &outdated {
        let job = record.placement.job;
        journal.forget(job).map_err(|error| anyhow!(error))?;
        tributary_base::say!("job {job} removed: the job file does not have it as it was");
    }
    for record in &records {
        let Record { name, placement, .. } = record;
        tributary_base::say!(
            "job {} goes on, epoch {}",
            called(placement.job, name),
            placement.epoch
        );
    }
    let mut admitted = Ok(());
    if !on_demand {
        let outdated = outdated.iter().map(|record| record.placement.job).collect();
        admitted = admit(&controller, &known.deployment, &outdated).await;
    }
    let jobs = Jobs::resume(controller, known, &records, journal);
    metrics.add(Controlled(Arc::clone(jobs.controller())));
    metrics.add(TakingPart(jobs.clone()));
    let policy =
        door.as_ref().map(|door| door.policy.clone()).unwrap_or_else(Policy::all_may_operate);
    metrics.add(Served { jobs: jobs.clone(), policy });
    let outcome = match admitted.and_then(|()| jobs.keep_all().map_err(|error| anyhow!(error))) {
        Ok(()) => listen(&jobs, door, stop).await,
        Err(error) => Err(error),
    };
    // A controller with a journal leaves its jobs to the next one.
    if remembers {
        jobs.close().await;
        return outcome;
    }
    outcome.and(release(&jobs).await)
}

/// A job's name, if it has one, and its ID.
fn called(job: JobId, name: &str) -> String {
    if name.is_empty() { job.to_string() } else { format!("{name} ({job})") }
}

/// Admits the jobs of the file that do not go on.
async fn admit(
    controller: &Controller,
    deployment: &Deployment,
    outdated: &BTreeSet<JobId>,
) -> Result<()> {
    for (index, job) in deployment.scenario().jobs.iter().enumerate() {
        if controller.placement(job.id).is_some() {
            continue;
        }
        // Workers may be in the middle of a run from before this controller, unless that was of another job.
        let found = controller.found(job.id).filter(|_| !outdated.contains(&job.id));
        let epoch = match found {
            Some(epoch) => epoch,
            None => controller.issue().await?,
        };
        controller.admit(&Placement { epoch, ..deployment.placement(index) }).await?;
        tributary_base::say!("job {} ({}) admitted, epoch {epoch}", job.name, job.id);
    }
    Ok(())
}

/// Lets endpoints and clients in until the end.
async fn listen(jobs: &Jobs, door: Option<Door>, stop: &AtomicBool) -> Result<()> {
    let Some(door) = door else {
        tributary_base::say!("end with Ctrl-C");
        program::ready();
        watchdog::feed_until(tributary_endpoint::until(stop)).await;
        return Ok(());
    };
    let address = door.listen.clone();
    let server = Server::start(jobs.service(), door, LIMITS)
        .await
        .with_context(|| format!("cannot listen at {address} (--listen)"))?;
    tributary_base::say!("endpoints and clients are served at {}", server.address());
    tributary_base::say!("end with Ctrl-C");
    program::ready();
    watchdog::feed_until(tributary_endpoint::until(stop)).await;
    jobs.close().await;
    server.stop().await;
    Ok(())
}

/// Removes all jobs. A failed removal does not affect the other jobs.
pub(crate) async fn release(jobs: &Jobs) -> Result<()> {
    let mut left = 0;
    for (job, name, released) in jobs.release_all().await {
        match released {
            Ok(freed) => tributary_base::say!(
                "job {} removed, {freed} aggregators freed",
                called(job, &name)
            ),
            Err(refusal) => {
                left += 1;
                eprintln!("job {} is left in the switches: {refusal}", called(job, &name));
            }
        }
    }
    match left {
        0 => Ok(()),
        jobs => bail!("{jobs} jobs could not be removed; start the controller again to clean up"),
    }
}
