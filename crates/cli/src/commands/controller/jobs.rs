//! The jobs of the job file, which the controller admits by itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow};
use tributary_access::{Door, Server};
use tributary_controller::jobs::Controller;
use tributary_controller::scheduler::{Forgetful, Journal, Record};
use tributary_controller::server::LIMITS;
use tributary_controller::service;
use tributary_endpoint::numbers::Jobs;
use tributary_endpoint::tokens::Tokens;
use tributary_metrics::Metrics;
use tributary_model::{Deployment, Scenario, plan::Placement};
use tributary_orchestrator::journal::Redb;
use tributary_wire::JobId;

use crate::sources::{Controlled, TakingPart};

/// Divides the records of a journal into those of jobs that the file still has as they were, and the
/// others.
pub(super) fn of_file(records: Vec<Record>, deployment: &Deployment) -> (Vec<Record>, Vec<Record>) {
    records.into_iter().partition(|Record { placement, .. }| {
        let jobs = &deployment.scenario().jobs;
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

/// Keeps all jobs of the file admitted until the end. Those of the journal are admitted already, except for
/// the `outdated` ones, which were removed.
pub(super) async fn serve(
    controller: Controller,
    scenario: &Scenario,
    tokens: &Tokens,
    (journal, records, outdated): (Option<Redb>, &[Record], &[Record]),
    door: Option<Door>,
    stop: &AtomicBool,
    metrics: &Metrics,
) -> Result<()> {
    let remembers = journal.is_some();
    let journal: Arc<dyn Journal> = match journal {
        Some(journal) => Arc::new(journal),
        None => Arc::new(Forgetful),
    };
    for record in outdated {
        let job = record.placement.job;
        journal.forget(job).map_err(|error| anyhow!(error))?;
        say!("job {job} removed: the job file does not have it as it was");
    }
    let controller = Arc::new(controller);
    metrics.add(Controlled(Arc::clone(&controller)));
    metrics.add(Jobs::new(&scenario.jobs));
    let outdated: BTreeSet<JobId> = outdated.iter().map(|record| record.placement.job).collect();
    let mut outcome = admit(&controller, scenario, &*journal, &outdated).await;
    if outcome.is_ok() {
        outcome = match door {
            Some(door) => {
                let deployment = Arc::new(Deployment::new(scenario.clone())?);
                let (controller, tokens) = (Arc::clone(&controller), tokens.by_job());
                let jobs = service::Jobs::new(controller, journal, deployment, tokens, records);
                serve_endpoints(jobs, door, stop, metrics).await
            }
            None => {
                say!("end with Ctrl-C");
                tributary_endpoint::until(stop).await;
                Ok(())
            }
        };
    }
    // A controller with a journal leaves its jobs to the next one.
    if !remembers {
        outcome = outcome.and(remove(&controller, scenario).await);
    }
    outcome
}

/// Admits the jobs that do not go on.
async fn admit(
    controller: &Controller,
    scenario: &Scenario,
    journal: &dyn Journal,
    outdated: &BTreeSet<JobId>,
) -> Result<()> {
    let deployment = Deployment::new(scenario.clone())?;
    for (index, job) in scenario.jobs.iter().enumerate() {
        if let Some((placement, _)) = controller.placement(job.id) {
            say!("job {} ({}) goes on, epoch {}", job.name, job.id, placement.epoch);
            continue;
        }
        // Workers may be in the middle of a run from before this controller, unless that was of another job.
        let found = controller.found(job.id).filter(|_| !outdated.contains(&job.id));
        let epoch = match found {
            Some(epoch) => epoch,
            None => controller.issue().await?,
        };
        controller.admit(&Placement { epoch, ..deployment.placement(index) }).await?;
        if let Some(record) = Record::of_file(controller, job.id) {
            journal.keep(&record).map_err(|error| anyhow!(error))?;
        }
        say!("job {} ({}) admitted, epoch {epoch}", job.name, job.id);
    }
    Ok(())
}

/// Removes all jobs that were admitted. A failed removal does not affect the other jobs.
async fn remove(controller: &Controller, scenario: &Scenario) -> Result<()> {
    let mut outcome = Ok(());
    for job in scenario.jobs.iter().filter(|job| controller.placement(job.id).is_some()) {
        match controller.remove(job.id).await {
            Ok(freed) => {
                let freed: u32 = freed.values().sum();
                say!("job {} ({}) removed, {freed} aggregators freed", job.name, job.id);
            }
            Err(error) => {
                eprintln!("job {} ({}) is left in the switches", job.name, job.id);
                outcome = outcome.and(Err(error.into()));
            }
        }
    }
    outcome
}

/// Lets endpoints take part in jobs until the end.
async fn serve_endpoints(
    jobs: service::Jobs,
    door: Door,
    stop: &AtomicBool,
    metrics: &Metrics,
) -> Result<()> {
    metrics.add(TakingPart(jobs.clone()));
    let address = door.listen.clone();
    let server = Server::start(jobs.clone().service(), door, LIMITS)
        .await
        .with_context(|| format!("cannot listen at {address} (--listen)"))?;
    say!("endpoints join at {}", server.address());
    say!("end with Ctrl-C");
    tributary_endpoint::until(stop).await;
    jobs.close().await;
    server.stop().await;
    Ok(())
}
