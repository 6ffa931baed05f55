//! `tributary controller`: programs real switches for a job file, and cleans them up.

pub(crate) mod jobs;
mod push;
pub(crate) mod switches;

use std::sync::Arc;

use anyhow::{Context, Result};
use tributary_controller::jobs::Controller;
use tributary_controller::service::{Known, Record};
use tributary_endpoint::tokens::Tokens;
use tributary_metrics::Metrics;
use tributary_model::Deployment;
use tributary_model::jobfile::{Site, TIMING_IGNORED};
use tributary_optical::orchestrator::journal::Redb;
use tributary_wire::JobId;

use crate::args::{ControllerArgs, ControllerTask};
use tributary_base::program::stop_flag;

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
    let stop = stop_flag()?;
    let job_file = args.job_file.as_deref().context("name a job file")?;
    let kind = switches::read_for(args.switches.target);
    let scenario = tributary_model::jobfile::load_for(job_file, None, kind)?;
    let site = Site::load(job_file, kind)?;
    if scenario.network.topology.has_timing() {
        tracing::warn!("{TIMING_IGNORED}");
    }
    if args.on_demand {
        jobs::fit_for_clients(&scenario)?;
    }
    if args.listen.is_some() {
        jobs::needs_journal(&scenario, args.journal.as_deref())?;
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
    let deployment = match args.on_demand {
        true => Deployment::unassigned(scenario.clone()),
        false => Deployment::new(scenario.clone())?,
    };
    let (records, outdated) = match args.on_demand {
        true => (records, Vec::new()),
        false => jobs::of_file(records, &deployment),
    };
    let mut tokens = Tokens::draw(&scenario).by_job();
    // The endpoints of jobs that go on have theirs.
    let named = |job: JobId| scenario.jobs.iter().find(|known| known.id == job);
    let kept = |record: &Record| Some((named(record.placement.job)?.name.clone(), record.token?));
    tokens.extend(records.iter().filter_map(kept));
    let (identity, elsewhere) =
        (args.switches.identity.identity(), switches::any_encrypted(&args.switches));
    let door = |address| args.door.door(address, identity.as_ref(), elsewhere);
    let door = args.listen.as_ref().map(door).transpose()?;
    let served: Vec<_> =
        records.iter().map(|record| (record.placement.clone(), record.slot)).collect();
    let on_demand = args.on_demand;
    let site = Some(Arc::new(site));
    let known = Known { tokens, own: !on_demand, site, ..Known::from(deployment) };
    let beginning = jobs::Beginning { journal, records, outdated, door, on_demand };
    tributary_endpoint::runtime()?.block_on(async {
        let controller =
            Controller::resume(topology, &ports, addresses, &pipeline, &served, |_| {}).await?;
        jobs::serve(controller, known, beginning, &stop, metrics).await
    })
}
