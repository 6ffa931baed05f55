//! `tributary optical serve`: the network controller of P4INC-AOI.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use tributary_access::args::{DoorArgs, encrypts};
use tributary_access::listen::standard;
use tributary_access::{Listen, Server};
use tributary_controller::jobs::Controller;
use tributary_controller::server::LIMITS;
use tributary_controller::service::{Jobs, Known, Record};
use tributary_metrics::Metrics;
use tributary_model::jobfile::{Site, TIMING_IGNORED};
use tributary_model::{Deployment, Orchestration, Scenario, Topology, circuits::Circuits};
use tributary_optical::crossconnect::CrossConnect;
use tributary_optical::orchestrator::journal::Redb;
use tributary_optical::orchestrator::live::{Live, carries};
use tributary_optical::orchestrator::planner::{End, Planner};
use tributary_optical::orchestrator::slots::SlotReport;

use crate::commands::controller::jobs::{needs_journal, release};
use crate::commands::controller::switches;
use crate::options::{ProcessArgs, SwitchesArgs};
use crate::sources::{Controlled, Served, Slots, TakingPart};
use tributary_base::program::stop_flag;

#[derive(Debug, Subcommand)]
pub(crate) enum OpticalCommand {
    /// Run the network controller: schedule the jobs that clients admit, slot by slot, and have switches
    /// and a cross-connect do so until Ctrl-C.
    #[command(after_help = "Example:\n\
        \x20 tributary optical serve units.toml --switch s1=10.9.0.1:9559 \\\n\
        \x20     --cross-connect emulated:127.0.0.1:9642")]
    Serve(ServeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The job file: units, cross-connect and schedule.
    ///
    /// Its jobs can be admitted by their IDs.
    job_file: PathBuf,
    #[command(flatten)]
    switches: SwitchesArgs,
    /// The cross-connect, such as emulated:127.0.0.1:9642 or openflow:listen:0.0.0.0:6653
    /// (docs/operate/cross-connects.md).
    ///
    /// With --identity, the connection to an emulated one is encrypted, too.
    #[arg(long, value_name = "ADDR")]
    cross_connect: String,
    /// Listening address for clients that admit jobs, and for endpoints: ADDRESS:PORT or unix:PATH.
    #[arg(long, value_name = "ADDR", default_value_t = standard("controller"))]
    listen: Listen,
    #[command(flatten)]
    door: DoorArgs,
    /// File that remembers the jobs.
    ///
    /// If this process is killed and started again with it, running jobs go on. Without it, the jobs that the
    /// switches serve are removed at the start.
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    #[command(flatten)]
    process: ProcessArgs,
}

impl OpticalCommand {
    /// The options of the network controller.
    pub(crate) fn process(&self) -> &ProcessArgs {
        let Self::Serve(args) = self;
        &args.process
    }
}

/// # Errors
/// One line that describes the problem.
pub(crate) fn run(command: &OpticalCommand, metrics: &Metrics) -> Result<()> {
    let OpticalCommand::Serve(args) = command;
    let stop = stop_flag()?;
    let scenario = tributary_model::jobfile::load_for(
        &args.job_file,
        None,
        switches::read_for(args.switches.target),
    )?;
    let Some(settings) = scenario.orchestration else {
        bail!(
            "{}: no cross-connect joins its switches; describe units with `units` in [topology] \
             (docs/start/job-files.md)",
            args.job_file.display()
        );
    };
    if !scenario.network.protocol.can_move() {
        bail!("jobs that wait at their parameter servers are of p4inc; set protocol = \"p4inc\"");
    }
    needs_journal(&scenario, args.journal.as_deref())?;
    if scenario.network.topology.has_timing() {
        tracing::warn!("{TIMING_IGNORED}");
    }
    tributary_endpoint::runtime()?.block_on(serve(args, &scenario, settings, &stop, metrics))
}

async fn serve(
    args: &ServeArgs,
    scenario: &Scenario,
    settings: Orchestration,
    stop: &AtomicBool,
    metrics: &Metrics,
) -> Result<()> {
    let elsewhere = switches::any_encrypted(&args.switches)
        || args.cross_connect.strip_prefix("emulated:").is_some_and(encrypts);
    let door =
        args.door.door(&args.listen, args.switches.identity.identity().as_ref(), elsewhere)?;
    let mut topology = scenario.network.topology.clone();
    let outage = topology.optical.as_ref().map_or(Duration::ZERO, |optical| optical.outage);
    let limit = outage + Duration::from_secs(args.switches.timeout);
    let mut cross_connect = tributary_optical::crossconnect::connect(
        &args.cross_connect,
        limit,
        switches::keys(&args.switches)?,
    )?;
    let journal = args.journal.as_deref().map(|path| Redb::open(path, &topology)).transpose()?;
    let journal = journal.map(Arc::new);
    let (records, remembered) = match &journal {
        Some(journal) => (journal.records(&topology)?, journal.circuits()?),
        None => (Vec::new(), Circuits::DARK),
    };
    let circuits = first_circuits(&mut *cross_connect, topology.cross_connect_ports()).await;
    let circuits = circuits.or_else(|error| {
        // Jobs that run need their routes now, and the cross-connect may come back.
        if records.is_empty() {
            return Err(error);
        }
        tracing::warn!("{error:#}");
        Ok(remembered)
    })?;
    topology.patch(&circuits).context("the cross-connect has more ports than the job file")?;
    let ports = switches::ports(scenario, &args.switches)?;
    let addresses = switches::switches(scenario, &args.switches)?;
    let pipeline = switches::build(scenario, &args.switches)?.pipeline;
    let resumed: Vec<_> =
        records.iter().map(|record| (record.placement.clone(), record.slot)).collect();
    let controller =
        Controller::resume(&topology, &ports, addresses, &pipeline, &resumed, |_| {}).await?;
    records.iter().for_each(tell_resumed);
    let site = Site::load(&args.job_file, switches::read_for(args.switches.target))?;
    let known = Known {
        site: Some(Arc::new(site)),
        carries: Some(carries(&topology, &settings)),
        ..Deployment::unassigned(scenario.clone()).into()
    };
    let jobs = match &journal {
        Some(journal) => {
            let journal: Arc<Redb> = Arc::clone(journal);
            Jobs::resume(controller, known, &records, journal)
        }
        None => Jobs::new(controller, known),
    };
    let slots = Slots::default();
    let tally = slots.tally();
    metrics.add(slots);
    metrics.add(Controlled(Arc::clone(jobs.controller())));
    metrics.add(TakingPart(jobs.clone()));
    metrics.add(Served { jobs: jobs.clone(), policy: door.policy.clone() });
    let server = Server::start(jobs.service(), door, LIMITS)
        .await
        .with_context(|| format!("cannot listen at {} (--listen)", args.listen))?;
    tributary_base::say!("{} units, {} circuits", topology.switches.len(), circuits.len());
    tributary_base::say!("endpoints and clients are served at {}", server.address());
    tributary_base::say!("end with Ctrl-C");
    let mut live = Live::new(jobs.clone(), cross_connect);
    if let Some(journal) = &journal {
        live = live.resumed(circuits, Arc::clone(journal));
    }
    let planner = Planner::new(&topology, &settings);
    let stopped = tributary_endpoint::until(stop);
    let slot = |report: &SlotReport| {
        tally.add(report);
        tell(report, &topology);
    };
    let outcome = live.run(planner, settings.slot, stopped, slot).await;
    let released = end(&jobs, journal.is_some()).await;
    server.stop().await;
    outcome?;
    released
}

/// Releases the jobs. A controller with a journal leaves them to the next one.
async fn end(jobs: &Jobs, has_journal: bool) -> Result<()> {
    if has_journal {
        jobs.close().await;
        return Ok(());
    }
    release(jobs).await
}

/// Prints that a job goes on.
fn tell_resumed(record: &Record) {
    let iteration = record.iteration;
    let state = if iteration.is_running() { "runs" } else { "is over" };
    tributary_base::say!(
        "job {}: goes on; iteration {} {state}",
        record.placement.job,
        iteration.number
    );
}

/// The circuits of the cross-connect, which must have a port for each of ours.
async fn first_circuits(cross_connect: &mut dyn CrossConnect, ports: u16) -> Result<Circuits> {
    let has = cross_connect.ports().await?;
    if has < ports {
        bail!(
            "the cross-connect {} has {has} ports, and the units of the job file have {ports} optical \
             ports; lower `optical_ports`, or name another cross-connect",
            cross_connect.name()
        );
    }
    match cross_connect.circuits().await {
        Ok(circuits) | Err(tributary_optical::crossconnect::Error::Foreign { circuits, .. }) => {
            Ok(circuits)
        }
        Err(error) => Err(error.into()),
    }
}

/// Prints what happened in a slot, if anything did.
fn tell(report: &SlotReport, topology: &Topology) {
    let at = report.at.as_secs_f64();
    for (job, end) in &report.released {
        match end {
            End::Done => tributary_base::say!("{at:9.3} s  job {job}: over"),
            End::Late { iteration, after } => tributary_base::say!(
                "{at:9.3} s  job {job}: released, because iteration {iteration} has run for {after:.1?}"
            ),
            End::Impossible => {
                tributary_base::say!(
                    "{at:9.3} s  job {job}: released, because no slot can carry it"
                )
            }
        }
    }
    for (job, to) in &report.moved {
        tributary_base::say!("{at:9.3} s  job {job}: moves to the {}", to.name(topology));
    }
    if report.new_circuits > 0 {
        tributary_base::say!(
            "{at:9.3} s  {} new circuits: {}",
            report.new_circuits,
            report.circuits
        );
    }
    for (job, number) in &report.started {
        let rate = report.rates.get(job).map_or(0.0, |rate| rate.get() as f64 / 1e6);
        tributary_base::say!("{at:9.3} s  job {job}: iteration {number}, {rate:.1} Mb/s");
    }
    for (job, rate) in &report.late {
        let rate = rate.get() as f64 / 1e6;
        tributary_base::say!(
            "{at:9.3} s  job {job}: late; its slowest worker keeps up with at most {rate:.1} Mb/s, and other jobs get more first"
        );
    }
    for problem in &report.problems {
        tracing::warn!("{problem}");
    }
}
