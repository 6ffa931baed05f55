//! `tributary controller`: programs real switches for a job file, and cleans them up.

mod push;
pub(crate) mod switches;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use tributary_access::{Door, Server};
use tributary_controller::Deployment;
use tributary_controller::jobs::Controller;
use tributary_controller::plan::Placement;
use tributary_controller::runs::Runs;
use tributary_controller::scheduler::{Record, Scheduler};
use tributary_controller::server::LIMITS;
use tributary_endpoint::numbers::Jobs;
use tributary_endpoint::tokens::Tokens;
use tributary_jobfile::{Protocol, Scenario, TIMING_IGNORED};
use tributary_metrics::Metrics;
use tributary_orchestrator::journal::Redb;
use tributary_p4::Architecture;

use crate::args::{ControllerArgs, ControllerTask};
use crate::signals;
use crate::sources::{Controlled, Scheduled};

/// # Errors
/// One line that describes the problem.
pub(crate) fn run(args: &ControllerArgs, metrics: &Metrics) -> Result<()> {
    match &args.command {
        Some(ControllerTask::Push(args)) => push::run(args),
        None => serve_until_end(args, metrics),
    }
}

/// Admits the jobs, or lets clients control them, keeps the switches in the desired state until
/// Ctrl-C or SIGTERM, and removes the jobs.
fn serve_until_end(args: &ControllerArgs, metrics: &Metrics) -> Result<()> {
    let stop = signals::stop_flag()?;
    let job_file = args.job_file.as_deref().context("name a job file")?;
    let scenario =
        tributary_endpoint::load(job_file, None, args.switches.target, Architecture::V1model)?;
    if scenario.topology.has_timing() {
        tracing::warn!("{TIMING_IGNORED}");
    }
    let protocol = scenario.protocol();
    if args.scheduler.is_some() && protocol == Protocol::Esa {
        bail!(
            "--scheduler serves jobs of atp, p4inc and switchml, and those of the file use esa, whose \
             endpoints need tokens; admit them without it"
        );
    }
    if args.scheduler.is_some() {
        tributary_endpoint::one_thread_per_worker(&scenario)?;
    }
    let ports = switches::ports(&scenario, &args.switches)?;
    let addresses = switches::switches(&scenario, &args.switches)?;
    let pipeline = switches::build(&scenario, &args.switches)?.pipeline;
    write_tokens(&scenario, args.tokens.as_deref())?;
    let topology = &scenario.topology;
    let journal = args.journal.as_deref().map(|path| Redb::open(path, topology)).transpose()?;
    let records = match &journal {
        Some(journal) => journal.records(topology)?,
        None => Vec::new(),
    };
    let address = args.scheduler.as_ref().or(args.listen.as_ref());
    let door = address.map(|address| args.door.door(address)).transpose()?;
    let served: Vec<_> =
        records.iter().map(|record| (record.placement.clone(), record.slot)).collect();
    tributary_endpoint::runtime()?.block_on(async {
        let controller =
            Controller::resume(topology, &ports, addresses, &pipeline, &served, |_| {}).await?;
        match door {
            Some(door) if args.scheduler.is_some() => {
                let journal = journal.map(|journal| (journal, records));
                serve(controller, &scenario, journal, door, &stop, metrics).await
            }
            door => admit(controller, &scenario, door, &stop, metrics).await,
        }
    })
}

/// Draws the tokens of ESA's jobs.
fn write_tokens(scenario: &Scenario, path: Option<&Path>) -> Result<()> {
    match path {
        Some(path) => Tokens::draw(scenario).write(path),
        None if scenario.protocol() == Protocol::Esa => {
            bail!(
                "the endpoints of ESA jobs need tokens; say where to write them with --tokens FILE"
            )
        }
        None => Ok(()),
    }
}

/// Keeps all jobs of the file admitted until the end.
async fn admit(
    controller: Controller,
    scenario: &Scenario,
    door: Option<Door>,
    stop: &AtomicBool,
    metrics: &Metrics,
) -> Result<()> {
    let controller = Arc::new(controller);
    metrics.add(Controlled(Arc::clone(&controller)));
    metrics.add(Jobs::new(&scenario.jobs));
    let deployment = Deployment::new(scenario.clone())?;
    let mut outcome = Ok(());
    let mut admitted = Vec::new();
    for (index, job) in scenario.jobs.iter().enumerate() {
        // Workers may be in the middle of a run from before this controller.
        let epoch = match controller.found(job.id) {
            Some(epoch) => Ok(epoch),
            None => controller.issue().await,
        };
        let epoch = match epoch {
            Ok(epoch) => epoch,
            Err(error) => {
                outcome = Err(error);
                break;
            }
        };
        let placement = Placement { epoch, ..deployment.placement(index) };
        outcome = controller.admit(&placement).await.map(drop);
        if outcome.is_err() {
            break;
        }
        admitted.push(job);
        say!("job {} ({}) admitted, epoch {epoch}", job.name, job.id);
    }
    let mut outcome = outcome.map_err(anyhow::Error::from);
    if outcome.is_ok() {
        outcome = match door {
            Some(door) => tell_runs(&controller, door, stop).await,
            None => {
                say!("end with Ctrl-C");
                tributary_endpoint::until(stop).await;
                Ok(())
            }
        };
    }
    for job in admitted {
        // A failed removal does not affect the other jobs.
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

/// Names the runs of jobs to endpoints until the end.
async fn tell_runs(controller: &Arc<Controller>, door: Door, stop: &AtomicBool) -> Result<()> {
    let runs = Runs::new(Arc::clone(controller));
    let address = door.listen.clone();
    let server = Server::start(runs.clone().service(), door, LIMITS)
        .await
        .with_context(|| format!("cannot listen at {address} (--listen)"))?;
    say!("endpoints join at {}", server.address());
    say!("end with Ctrl-C");
    tributary_endpoint::until(stop).await;
    runs.close().await;
    server.stop().await;
    Ok(())
}

/// Serves clients' requests for jobs until the end.
async fn serve(
    controller: Controller,
    scenario: &Scenario,
    journal: Option<(Redb, Vec<Record>)>,
    door: Door,
    stop: &AtomicBool,
    metrics: &Metrics,
) -> Result<()> {
    let controller = match scenario.protocol() {
        Protocol::SwitchMl => controller.partitioned(scenario.switch.partitions)?,
        _ => controller,
    };
    let known = scenario.jobs.iter().map(Placement::unassigned);
    let remembers = journal.is_some();
    let scheduler = match journal {
        Some((journal, records)) => {
            for record in &records {
                say!("job {} goes on, epoch {}", record.placement.job, record.placement.epoch);
            }
            Scheduler::resume(controller, known, records, Arc::new(journal))
        }
        None => Scheduler::new(controller, known),
    };
    let address = door.listen.clone();
    metrics.add(Controlled(Arc::clone(scheduler.controller())));
    metrics.add(Scheduled { scheduler: scheduler.clone(), policy: door.policy.clone() });
    let server = Server::start(scheduler.service(), door, LIMITS)
        .await
        .with_context(|| format!("cannot serve the job scheduler at {address}"))?;
    say!("job scheduler at {}", server.address());
    say!("end with Ctrl-C");
    tributary_endpoint::until(stop).await;
    // A controller with a journal leaves its jobs to the next one.
    let left = if remembers { BTreeMap::new() } else { scheduler.close().await };
    server.stop().await;
    for (job, refusal) in &left {
        eprintln!("job {job} is left in the switches: {refusal}");
    }
    match left.len() {
        0 => Ok(()),
        jobs => bail!("{jobs} jobs could not be removed; start the controller again to clean up"),
    }
}
