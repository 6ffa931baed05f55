//! `tributary controller`: programs real switches for a job file, and cleans them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tributary_controller::client::{SwitchConfig, Target};
use tributary_controller::jobs::Controller;
use tributary_controller::plan::Placement;
use tributary_controller::scheduler::{Scheduler, Server};
use tributary_controller::segments;
use tributary_jobfile::{Protocol, Scenario};

use crate::args::ControllerArgs;
use crate::settings;
use crate::tokens::Tokens;

/// Admits the jobs, or lets others decide about them, keeps the switches as they should be until
/// Ctrl-C or SIGTERM, and removes the jobs again.
///
/// # Errors
/// One line that says what went wrong.
pub(crate) fn run(args: &ControllerArgs) -> Result<()> {
    let stop = settings::stop_flag()?;
    let scenario = settings::load_for(&args.job_file, None, args.target)?;
    let protocol = scenario.protocol();
    if args.scheduler.is_some() && !matches!(protocol, Protocol::P4inc | Protocol::SwitchMl) {
        bail!(
            "--scheduler serves jobs of p4inc and switchml, and those of the file use {}; admit them \
             without it",
            protocol.name()
        );
    }
    let compiled = settings::compile(&scenario, args.p4.as_deref())?.pipeline;
    let pipeline = settings::pipeline(&scenario, args.p4.as_deref(), compiled, args.target)?;
    let switches = switches(&scenario, &args.switches)?;
    match &args.tokens {
        Some(path) => Tokens::draw(&scenario).write(path)?,
        None if protocol == Protocol::Esa => {
            bail!(
                "the endpoints of ESA jobs need tokens; say where to write them with --tokens FILE"
            )
        }
        None => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start threads")?;
    runtime.block_on(async {
        let controller = Controller::connect(&scenario.topology, switches, &pipeline).await?;
        match args.scheduler {
            Some(address) => serve(controller, &scenario, address, &stop).await,
            None => admit(&controller, &scenario, &stop).await,
        }
    })
}

/// Keeps all jobs of the file admitted until the end.
async fn admit(controller: &Controller, scenario: &Scenario, stop: &AtomicBool) -> Result<()> {
    let assignments = segments::assignments(scenario)?;
    let mut outcome = Ok(());
    let mut admitted = Vec::new();
    for job in &scenario.jobs {
        let placement = Placement::from(job).assigned(assignments[&job.id]);
        outcome = controller.admit(&placement).await.map(drop);
        if outcome.is_err() {
            break;
        }
        admitted.push(job);
        say!("job {} ({}) admitted", job.name, job.id);
    }
    if outcome.is_ok() {
        say!("end with Ctrl-C");
        until(stop).await;
    }
    for job in admitted {
        // One that cannot be removed does not keep the others.
        match controller.remove(job.id).await {
            Ok(freed) => {
                let freed: u32 = freed.values().sum();
                say!("job {} ({}) removed, {freed} aggregators freed", job.name, job.id);
            }
            Err(error) => {
                eprintln!("job {} ({}) is left in the switches", job.name, job.id);
                outcome = outcome.and(Err(error));
            }
        }
    }
    Ok(outcome?)
}

/// Does with the jobs what clients ask for, until the end.
async fn serve(
    controller: Controller,
    scenario: &Scenario,
    address: SocketAddr,
    stop: &AtomicBool,
) -> Result<()> {
    let controller = match scenario.protocol() {
        Protocol::SwitchMl => controller.partitioned(scenario.switch.partitions)?,
        _ => controller,
    };
    let scheduler = Scheduler::new(controller, scenario.jobs.iter().map(Placement::from));
    let server = Server::start(scheduler.clone(), address)
        .await
        .with_context(|| format!("cannot serve the job scheduler at {address}"))?;
    say!("job scheduler at {}", server.address());
    say!("end with Ctrl-C");
    until(stop).await;
    let left = scheduler.close().await;
    server.stop().await;
    for (job, refusal) in &left {
        eprintln!("job {job} is left in the switches: {refusal}");
    }
    match left.len() {
        0 => Ok(()),
        jobs => bail!("{jobs} jobs could not be removed; start the controller again to clean up"),
    }
}

async fn until(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// `NAME=ADDR` for each switch of the scenario, in its order.
fn switches(scenario: &Scenario, given: &[String]) -> Result<Vec<SwitchConfig>> {
    let topology = &scenario.topology;
    let mut addresses = vec![None; topology.switches.len()];
    for text in given {
        let parsed = text.split_once('=');
        let (name, address) =
            parsed.with_context(|| format!("--switch {text}: write NAME=ADDRESS"))?;
        let id = topology.switch_named(name);
        let id = id.with_context(|| format!("--switch {text}: the file has no such switch"))?;
        if addresses[id.0].replace(address).is_some() {
            bail!("--switch {text}: switch {name} has an address already");
        }
    }
    let config = |(index, address): (usize, Option<&str>)| {
        let name = &topology.switches[index].name;
        let address = address.with_context(|| {
            format!("switch {name} has no address; say where it is with --switch {name}=HOST:PORT")
        })?;
        Ok(SwitchConfig::new(name, Target::Address(address.into())))
    };
    addresses.into_iter().enumerate().map(config).collect()
}
