//! `tributary controller push`: pushes everything into the switches once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tributary_controller::Catalogue;
use tributary_controller::client::SwitchConfig;
use tributary_controller::describe::describe;
use tributary_controller::entries::{self, JobSlot};
use tributary_controller::jobs::{Controller, Progress};
use tributary_controller::ports::PortMap;
use tributary_controller::session::Found;
use tributary_controller::targets::{Built, Kind, chassis};
use tributary_model::{
    Deployment, Scenario, SwitchId,
    plan::{self, JobAtSwitch, Placement},
};
use tributary_p4runtime::p4::v1::Entity;
use tributary_run::report;

use super::switches;
use crate::args::PushArgs;
use tributary_base::program::stop_flag;

/// Pushes, and prints the content of the switches.
///
/// # Errors
/// One line that describes the problem. Jobs admitted before it are removed again.
pub(super) fn run(args: &PushArgs) -> Result<()> {
    let scenario = tributary_model::jobfile::load_for(
        &args.job_file,
        None,
        switches::read_for(args.switches.target),
    )?;
    // Checked before compiling, which can take minutes.
    for directory in [&args.save, &args.chassis_config].into_iter().flatten() {
        tributary_base::output_directory(directory)
            .with_context(|| format!("cannot write to {}", directory.display()))?;
    }
    let ports = switches::ports(&scenario, &args.switches)?;
    let configs = match args.dry_run {
        true => Vec::new(),
        false => switches::switches(&scenario, &args.switches)?,
    };
    if let Some(directory) = &args.chassis_config {
        write_chassis(&scenario, &ports, args.switches.device_id, directory)?;
    }
    let built = switches::build(&scenario, &args.switches)?;
    if let Some(directory) = &args.save {
        save(&built, args.switches.target, directory)?;
    }
    let plan = Plan::new(&scenario, &ports, &built, args)?;
    if args.dry_run {
        plan.print();
        return Ok(());
    }
    let stop = stop_flag()?;
    tributary_endpoint::runtime()?.block_on(async {
        let mut done = Pushed::default();
        let progress = |step: Progress<'_>| done.note(step);
        let controller = Controller::connect_ports(
            &scenario.network.topology,
            &ports,
            configs.clone(),
            &built.pipeline,
            progress,
        )
        .await?;
        let mut admitted = Vec::new();
        for (placement, job) in plan.placements.iter().zip(&scenario.jobs) {
            let admit = async {
                let epoch = controller.issue().await?;
                controller.admit(&Placement { epoch, ..placement.clone() }).await.map(|_| epoch)
            };
            let refused = match admit.await {
                Ok(epoch) => {
                    tributary_base::say!("job {} ({}): run {epoch}", job.name, job.id);
                    admitted.push(placement.job);
                    None
                }
                Err(error) => Some(error.into()),
            };
            let interrupted = stop.load(Ordering::Relaxed);
            let failure = refused.or_else(|| interrupted.then(|| anyhow::anyhow!("interrupted")));
            if let Some(failure) = failure {
                for job in admitted {
                    if let Err(error) = controller.remove(job).await {
                        eprintln!("job {job} is left in the switches: {error}");
                    }
                }
                return Err(failure);
            }
        }
        plan.summarize(&configs, &done);
        Ok(())
    })
}

/// Everything to push.
struct Plan<'a> {
    scenario: &'a Scenario,
    built: &'a Built,
    target: Kind,
    placements: Vec<Placement>,
    /// By switch.
    forwarding: Vec<Vec<Entity>>,
    /// By switch and job, in the order of the file.
    jobs: BTreeMap<(SwitchId, usize), Vec<Entity>>,
}

impl<'a> Plan<'a> {
    fn new(
        scenario: &'a Scenario,
        ports: &PortMap,
        built: &'a Built,
        args: &PushArgs,
    ) -> Result<Self> {
        let topology = &scenario.network.topology;
        let catalogue = Catalogue::new(&built.pipeline.p4info)?;
        let forwarding = topology.switch_ids().zip(plan::forwarding(topology));
        let forwarding = forwarding
            .map(|(switch, plan)| entries::forwarding(&catalogue, &ports.forwarding(switch, plan)))
            .collect();
        let deployment = Deployment::new(scenario.clone())?;
        let jobs = if args.no_jobs { 0 } else { scenario.jobs.len() };
        let placements: Vec<Placement> = (0..jobs).map(|job| deployment.placement(job)).collect();
        let mut of_jobs = BTreeMap::new();
        for (index, placement) in placements.iter().enumerate() {
            // The slots that a controller gives to its first jobs.
            let slot = u8::try_from(index + 1).ok().and_then(JobSlot::new);
            let slot = slot.filter(|slot| usize::from(slot.get()) <= catalogue.job_slots());
            let slot = slot.with_context(|| {
                format!(
                    "the file has {} jobs, more than a switch can count separately",
                    placements.len()
                )
            })?;
            for part in plan::job(topology, placement) {
                let part: JobAtSwitch = ports.part(part);
                let entities = entries::job(&catalogue, &part, placement.run(), slot);
                of_jobs.insert((part.switch, index), entities);
            }
        }
        let target = args.switches.target;
        Ok(Self { scenario, built, target, placements, forwarding, jobs: of_jobs })
    }

    /// Prints everything, for `--dry-run`.
    fn print(&self) {
        let pipeline = &self.built.pipeline;
        tributary_base::say!("program    {}", self.built.origin);
        tributary_base::say!(
            "pipeline   {} for {}, {} bytes, cookie {:#018x}",
            self.scenario.network.protocol.name(),
            self.target,
            pipeline.device_config.len(),
            pipeline.cookie()
        );
        let info = &pipeline.p4info;
        tributary_base::say!(
            "P4Info     {} tables, {} actions, {} counters, {} registers",
            info.tables.len(),
            info.actions.len(),
            info.counters.len(),
            info.registers.len()
        );
        for switch in self.scenario.network.topology.switch_ids() {
            tributary_base::say!("switch {}", self.scenario.network.topology.switch(switch).name);
            for entity in &self.forwarding[switch.0] {
                tributary_base::say!("  {}", describe(info, entity));
            }
            for (index, job) in self.scenario.jobs.iter().enumerate() {
                let Some(entities) = self.jobs.get(&(switch, index)) else { continue };
                tributary_base::say!("  job {} ({})", job.name, job.id);
                for entity in entities {
                    tributary_base::say!("    {}", describe(info, entity));
                }
            }
        }
        tributary_base::say!("nothing was pushed (--dry-run)");
    }

    /// Prints the content of each switch.
    fn summarize(&self, configs: &[SwitchConfig], done: &Pushed) {
        let mut table = report::table(&[
            "switch", "at", "device", "before", "pipeline", "entries", "changed", "jobs", "seconds",
        ]);
        for (config, (found, took)) in configs.iter().zip(&done.switches) {
            let switch = self.scenario.network.topology.switch_named(&config.name);
            let of_jobs = self.jobs.iter().filter(|((at, _), _)| Some(*at) == switch);
            let of_jobs: Vec<usize> = of_jobs.map(|(_, entities)| entities.len()).collect();
            let entries = switch.map_or(0, |switch| self.forwarding[switch.0].len())
                + of_jobs.iter().sum::<usize>();
            table.add_row([
                config.name.clone(),
                config.address().to_owned(),
                config.device_id.to_string(),
                match found.before {
                    None => "no program".into(),
                    Some(_) if found.running => "the same".into(),
                    Some(cookie) => format!("another ({cookie:#x})"),
                },
                match found.running {
                    true => "kept".into(),
                    false => format!("pushed, {} bytes", self.built.pipeline.device_config.len()),
                },
                entries.to_string(),
                (found.updates + of_jobs.iter().sum::<usize>()).to_string(),
                of_jobs.len().to_string(),
                format!("{:.2}", took.as_secs_f64()),
            ]);
        }
        tributary_base::say!(
            "{} on {}: {}",
            self.scenario.network.protocol.name(),
            self.target,
            self.built.origin
        );
        tributary_base::say!("{table}");
    }
}

/// Progress of each switch.
#[derive(Default)]
struct Pushed {
    started: Option<Instant>,
    switches: Vec<(Found, Duration)>,
}

impl Pushed {
    fn note(&mut self, step: Progress<'_>) {
        let line = match step {
            Progress::Connecting(config) => {
                format!("{}: connecting to {}", config.name, config.address())
            }
            Progress::Installing(name) => {
                self.started = Some(Instant::now());
                format!("{name}: installing program and forwarding")
            }
            Progress::Installed(name, found) => {
                let took = self.started.map_or(Duration::ZERO, |start| start.elapsed());
                self.switches.push((found.clone(), took));
                format!("{name}: done in {:.2} s", took.as_secs_f64())
            }
        };
        if switches::is_watched() {
            eprintln!("{line}");
        }
    }
}

/// Writes the device configuration and its P4Info to files.
fn save(built: &Built, target: Kind, directory: &Path) -> Result<()> {
    let name = match target {
        Kind::Embedded => "pipeline.p4",
        Kind::Bmv2 => "pipeline.json",
        Kind::Stratum => "pipeline.pb.bin",
    };
    let info = tributary_p4runtime::text::to_text(&built.pipeline.p4info);
    write(directory, name, &built.pipeline.device_config)?;
    write(directory, "p4info.txtpb", info.as_bytes())
}

fn write_chassis(
    scenario: &Scenario,
    ports: &PortMap,
    device_id: u64,
    directory: &Path,
) -> Result<()> {
    let topology = &scenario.network.topology;
    for switch in topology.switch_ids() {
        let text = chassis::config(topology, ports, switch, device_id)?;
        write(directory, &format!("{}.pb.txt", topology.switch(switch).name), text.as_bytes())?;
    }
    Ok(())
}

fn write(directory: &Path, name: &str, contents: &[u8]) -> Result<()> {
    let path = directory.join(name);
    if let Err(error) = tributary_base::write_whole(&path, contents) {
        bail!("{}: cannot be written: {error}", path.display());
    }
    Ok(())
}
