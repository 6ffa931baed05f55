//! `tributary place serve`: the placement manager.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use tokio::sync::{mpsc as queue, oneshot, watch};
use tonic::service::Routes;
use tributary_access::args::{DoorArgs, IdentityArgs, encrypts, remote};
use tributary_access::listen::standard;
use tributary_access::{Limits, Listen, SILENCE, Server};
use tributary_api::placement::v1::placement_manager_server::PlacementManagerServer;
use tributary_cluster::placement::Rules;
use tributary_cluster::{Collective, Policy};
use tributary_manager::database::Redb;
use tributary_manager::manager::Settings;
use tributary_manager::service::Service;
use tributary_manager::shell::{Input, Shell, View};
use tributary_manager::site::Site;
use tributary_manager::switches;
use tributary_metrics::Metrics;

use crate::options::ProcessArgs;
use crate::sources::Managed;
use tributary_base::program::{self, Watchdog, stop_flag};

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The site file: servers, their GPUs and the network (docs/operate/manager.md).
    site: PathBuf,
    /// Listening address for users and agents: ADDRESS:PORT or unix:PATH.
    #[arg(long, value_name = "ADDR", default_value_t = standard("manager"))]
    listen: Listen,
    #[command(flatten)]
    door: DoorArgs,
    /// Address of the switches' controller (`tributary controller --listen ADDR
    /// --on-demand`).
    #[arg(long, value_name = "ADDR", default_value_t = standard("controller").to_string())]
    controller: String,
    #[command(flatten)]
    identity: IdentityArgs,
    /// Name in the controller's certificate, if it differs from the host of its address.
    #[arg(long, value_name = "NAME", requires = "identity")]
    server_name: Option<String>,
    /// File that records the jobs; created if missing.
    #[arg(long, value_name = "FILE", default_value = "manager.redb")]
    database: PathBuf,
    /// Placement policy. With `:apart` after its name, parameter servers share no server with a worker of their job.
    #[arg(long, value_name = "NAME", default_value = "netpack:apart")]
    policy: String,
    /// Time between two rounds of placement, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    period: u64,
    /// How long the processes of an agent continue without contact to the manager, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(2_000..=86_400_000))]
    lease: u64,
    /// Fraction of its own value that a waiting job gains per round.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    ageing: f64,
    /// Highest value of a job, unless the tenant has its own limit (`max_value` in the file of --access).
    #[arg(long, value_name = "VALUE", default_value_t = 1_000.0)]
    max_value: f64,
    /// Number of finished jobs that are listed.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    keep: usize,
    #[command(flatten)]
    pub(super) process: ProcessArgs,
}

/// Serves until Ctrl-C or SIGTERM. Running jobs continue.
///
/// # Errors
/// One line that describes the problem.
pub(crate) fn run(args: &ServeArgs, metrics: &Metrics) -> Result<()> {
    let stop = stop_flag()?;
    if !args.ageing.is_finite() || args.ageing < 0.0 {
        bail!("--ageing {}: choose 0 or more", args.ageing);
    }
    if !args.max_value.is_finite() || args.max_value <= 0.0 {
        bail!("--max-value {}: choose a number above 0", args.max_value);
    }
    let site = Site::load(&args.site)?;
    let policy = policy(&site, &args.policy)?;
    let elsewhere = encrypts(&args.controller);
    let keys = match elsewhere {
        true => args.identity.client_keys(args.server_name.as_deref())?,
        false => None,
    };
    let controller = remote("--controller", &args.controller, keys)?;
    let door = args.door.door(&args.listen, args.identity.identity().as_ref(), elsewhere)?;
    let store = Redb::open(&args.database)?;
    let settings = Settings {
        period_ms: args.period,
        lease_ms: args.lease,
        ageing: args.ageing,
        kept: args.keep,
        max_value: args.max_value,
    };
    let (view, seen) = watch::channel(View::default());
    metrics.add(Managed(seen.clone()));
    let (wishes, wanted) = queue::unbounded_channel();
    let peaks: Vec<String> = site.peaks().collect();
    let mut shell = Shell::start(site, settings, policy, store, view, wishes)?;
    let (inputs, incoming) = channel();
    let runtime = tributary_endpoint::runtime()?;
    let service = Service::new(inputs.clone(), seen);
    let service = PlacementManagerServer::new(service).max_decoding_message_size(MESSAGE_LIMIT);
    let server = runtime
        .block_on(Server::start(Routes::new(service), door, LIMITS))
        .with_context(|| format!("cannot serve the manager at {}", args.listen))?;
    runtime.spawn(switches::follow(controller, wanted, inputs.clone()));
    runtime.spawn(end(stop, inputs.clone()));
    runtime.spawn(feed_watchdog(inputs));
    for peak in peaks {
        tracing::info!(target: tributary_base::DECISIONS, "{peak}");
    }
    tributary_base::say!("placement manager at {}, policy {}", server.address(), args.policy);
    tributary_base::say!("end with Ctrl-C; running jobs continue");
    program::ready();
    shell.run(&incoming)?;
    drop(server);
    // Agents find another manager, or this one when it is restarted.
    runtime.shutdown_timeout(Duration::from_millis(100));
    Ok(())
}

/// A policy that gives jobs a parameter server.
fn policy(site: &Site, name: &str) -> Result<Box<dyn Policy>> {
    let names = tributary_cluster::placement::NAMES.join(", ");
    let (plain, rules) =
        name.split_once(':').map_or((name, None), |(plain, own)| (plain, Some(own)));
    if tributary_cluster::placement::all_reduce(plain, Collective::default()).is_some() {
        bail!("--policy {name}: it places jobs without a parameter server; choose one of {names}");
    }
    if let Some(Err(problem)) = rules.map(Rules::parse) {
        bail!("--policy {name}: {problem}");
    }
    let policy = site.policy(name, tributary_cluster::placement::by_name);
    policy.with_context(|| format!("--policy {name}: there is no such policy; there are {names}"))
}

/// Limits: connections of agents and users, their calls, and the length of a message, which describes a
/// job or the jobs of a server. Unfinished requests take at most 1.5 GiB of memory.
const LIMITS: Limits = Limits { connections: 2048, calls: 4, silence: SILENCE };
const MESSAGE_LIMIT: usize = 128 << 10;

async fn end(stop: Arc<AtomicBool>, inputs: Sender<Input>) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // An error means that the manager has already ended.
    let _: Result<(), mpsc::SendError<Input>> = inputs.send(Input::End);
}

/// Tells the service manager that the thread of decisions works, as long as it takes inputs.
async fn feed_watchdog(inputs: Sender<Input>) {
    let Some(watchdog) = Watchdog::find() else { return };
    loop {
        tokio::time::sleep(watchdog.pause()).await;
        let (answer, answered) = oneshot::channel();
        if inputs.send(Input::Look(answer)).is_err() || answered.await.is_err() {
            return;
        }
        watchdog.feed();
    }
}

#[cfg(test)]
mod tests {
    use tributary_cluster::{Job, JobId, Pending, Round, State};

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Served {
        #[command(flatten)]
        args: ServeArgs,
    }

    /// By packets, jobs take a fifth less time than with a parameter server beside a worker.
    #[test]
    fn the_usual_policy_puts_parameter_servers_apart_from_workers() {
        let Served { args } = clap::Parser::parse_from(["serve", "site.toml"]);
        let network = "[topology]\nkind = \"star\"\nworkers = 3\nps_hosts = 1\n";
        let server = |host| format!("[[server]]\nhost = \"{host}\"\ngpus = 1\n");
        // The paper's rule takes the server with the fastest link, where the job has a worker.
        let fast = format!("{}link_gbps = 1000\n", server("w1"));
        let site = format!("network = \"n.toml\"\n{fast}{}{}", server("w2"), server("w3"));
        let site = Site::parse(&site, network).unwrap();
        let part = site.part(|_| true);
        let ps = |name: &str| {
            let mut state = State::new(&part.cluster);
            let mut round = Round::in_network(&mut state);
            let job = Job {
                id: JobId(1),
                submit_s: 0.0,
                gpus: 2,
                iterations: 1.0,
                compute_s: 0.0,
                gradient_bytes: 1e6,
                value: 1.0,
            };
            let waiting = [Pending { value: 1.0, job: job.clone() }];
            policy(&site, name).unwrap().place(&mut round, &waiting);
            let plan = &round.running()[&job.id].plan;
            plan.ranks.contains(&plan.ps.unwrap())
        };
        assert_eq!(args.policy, "netpack:apart");
        assert!(!ps(&args.policy));
        assert!(ps("optimus"), "which puts it beside a worker");
    }

    #[test]
    fn policies_without_a_parameter_server_are_refused() {
        let network = "[topology]\nkind = \"star\"\nworkers = 2\nps_hosts = 1\n";
        let site = "network = \"n.toml\"\n[[server]]\nhost = \"w1\"\ngpus = 1\n";
        let site = Site::parse(site, network).unwrap();
        let policy = |name| policy(&site, name);
        for name in ["slurm", "titan", "titan:apart", "elasticflow-strict", "hived", "tiresias"] {
            let error = policy(name).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains("without a parameter server; choose one of netpack"), "{error}");
        }
        for name in tributary_cluster::placement::NAMES
            .iter()
            .chain(&["netpack-plain", "tetris:apart:fifo"])
        {
            assert!(policy(name).is_ok(), "{name}");
        }
        assert!(policy("best").is_err_and(|error| error.to_string().contains("no such policy")));
        let error = policy("netpack:near").err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.starts_with("--policy netpack:near: there is no rule `near`; "), "{error}");
    }
}
