//! `tributary controller`: programs real switches for a job file, and cleans them up.

mod jobs;
mod push;
pub(crate) mod switches;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail, ensure};
use tributary_access::{Door, Server};
use tributary_controller::jobs::Controller;
use tributary_controller::scheduler::{Record, Scheduler};
use tributary_controller::server::LIMITS;
use tributary_endpoint::tokens::Tokens;
use tributary_jobfile::TIMING_IGNORED;
use tributary_metrics::Metrics;
use tributary_model::{Deployment, Protocol, Scenario, plan::Placement};
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
    if scenario.network.topology.has_timing() {
        tracing::warn!("{TIMING_IGNORED}");
    }
    let protocol = scenario.network.protocol;
    if args.scheduler.is_some() && protocol == Protocol::Esa {
        bail!(
            "--scheduler serves jobs of atp, p4inc and switchml, and those of the file use esa, whose \
             endpoints need tokens; admit them without it"
        );
    }
    if args.scheduler.is_some() {
        tributary_endpoint::fit_for_scheduler(&scenario)?;
    }
    if args.listen.is_some()
        && args.journal.is_none()
        && let Some((_, job)) = scenario.whole_jobs().find(|(_, job)| job.on_death.goes_on())
    {
        bail!(
            "job {} goes on when a worker dies (on_death), so a controller that is started again must know \
             how; name a file for that with --journal FILE",
            job.name
        );
    }
    let ports = switches::ports(&scenario, &args.switches)?;
    let addresses = switches::switches(&scenario, &args.switches)?;
    let pipeline = switches::build(&scenario, &args.switches)?.pipeline;
    let topology = &scenario.network.topology;
    let journal = args.journal.as_deref().map(|path| Redb::open(path, topology)).transpose()?;
    let records = match &journal {
        Some(journal) => journal.records(topology)?,
        None => Vec::new(),
    };
    let (records, outdated) = match args.scheduler {
        Some(_) => (records, Vec::new()),
        None => jobs::of_file(records, &Deployment::new(scenario.clone())?),
    };
    let hands_out = args.listen.is_some() && args.journal.is_none();
    let tokens = tokens(&scenario, args.tokens.as_deref(), hands_out, !records.is_empty())?;
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
            door => {
                let journal = (journal, &records[..], &outdated[..]);
                jobs::serve(controller, &scenario, &tokens, journal, door, &stop, metrics).await
            }
        }
    })
}

/// Draws the tokens of ESA's jobs. Those of jobs that go on are kept: their endpoints have them.
/// Endpoints get them from a controller that `hands_out` them, or else from the file.
fn tokens(
    scenario: &Scenario,
    path: Option<&Path>,
    hands_out: bool,
    jobs_go_on: bool,
) -> Result<Tokens> {
    let drawn = Tokens::draw(scenario);
    let Some(path) = path else {
        ensure!(
            scenario.network.protocol != Protocol::Esa || hands_out,
            "the endpoints of ESA jobs need tokens, also after the controller was started again; say where to \
             write them with --tokens FILE"
        );
        return Ok(drawn);
    };
    let tokens = match jobs_go_on && path.exists() {
        true => drawn.keeping(&Tokens::read(path)?),
        false => drawn,
    };
    tokens.write(path)?;
    Ok(tokens)
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
    let controller = match scenario.network.protocol {
        Protocol::SwitchMl => controller.partitioned(scenario.network.switch.partitions)?,
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
