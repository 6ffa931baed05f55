//! `tributary controller`: programs real switches for a job file, and cleans them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tributary_controller::client::{SwitchConfig, Target};
use tributary_controller::jobs::Controller;
use tributary_jobfile::{Protocol, Scenario};

use crate::args::ControllerArgs;
use crate::settings;
use crate::tokens::Tokens;

/// Admits the jobs, keeps the switches as they should be until Ctrl-C or SIGTERM, and removes the
/// jobs again.
///
/// # Errors
/// One line that says what went wrong.
pub(crate) fn run(args: &ControllerArgs) -> Result<()> {
    let stop = settings::stop_flag()?;
    let scenario = settings::load(&args.job_file, None)?;
    let pipeline = settings::compile(&scenario, args.p4.as_deref())?.pipeline;
    let switches = switches(&scenario, &args.switches)?;
    match &args.tokens {
        Some(path) => Tokens::draw(&scenario).write(path)?,
        None if scenario.protocol() == Protocol::Esa => {
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
        let mut outcome = Ok(());
        let mut admitted = Vec::new();
        for job in &scenario.jobs {
            outcome = controller.admit(&job.into()).await.map(drop);
            if outcome.is_err() {
                break;
            }
            admitted.push(job);
            println!("job {} ({}) admitted", job.name, job.id);
        }
        if outcome.is_ok() {
            println!("end with Ctrl-C");
        }
        while outcome.is_ok() && !stop.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for job in admitted {
            // One that cannot be removed does not keep the others.
            match controller.remove(job.id).await {
                Ok(freed) => {
                    let freed: u32 = freed.values().sum();
                    println!("job {} ({}) removed, {freed} aggregators freed", job.name, job.id);
                }
                Err(error) => {
                    eprintln!("job {} ({}) is left in the switches", job.name, job.id);
                    outcome = outcome.and(Err(error));
                }
            }
        }
        Ok(outcome?)
    })
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
