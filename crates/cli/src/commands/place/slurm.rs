//! `tributary place slurm`: places the jobs of a Slurm cluster (docs/operate/slurm.md).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use tributary_access::args::KeyArgs;
use tributary_access::listen::standard;
use tributary_base::output_directory;
use tributary_cluster::Policy;
use tributary_cluster::placement::{ALL_REDUCE_NAMES, NAMES};
use tributary_manager::site::Site;
use tributary_manager::slurm::commands;
use tributary_manager::slurm::listing::Node;
use tributary_manager::slurm::placer::Settings;
use tributary_manager::slurm::service::{self, Placer};
use tributary_manager::slurm::switches::Switches;
use tributary_manager::slurm::topology::{Subnet, Tree};

use tributary_base::program::put;
use tributary_base::program::stop_flag;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct SlurmArgs {
    #[command(subcommand)]
    command: Option<SlurmCommand>,
    #[command(flatten)]
    follow: FollowArgs,
}

#[derive(Debug, Subcommand)]
enum SlurmCommand {
    /// For PrologSlurmctld: have the switches aggregate for the job that is about to start.
    #[command(after_help = "Example:\n  tributary place slurm prolog --controller 10.9.0.9:9641")]
    Prolog(HookArgs),
    /// For EpilogSlurmctld: release the job that has ended.
    #[command(after_help = "Example:\n  tributary place slurm epilog --controller 10.9.0.9:9641")]
    Epilog(HookArgs),
    /// For TaskProlog, or for `eval` in a job script: print what a job's processes must know, as
    /// `export NAME=VALUE`.
    #[command(after_help = "Example:\n\
        \x20 tributary place slurm environment --controller 10.9.0.9:9641")]
    Environment(HookArgs),
    /// Make a network file and a site file from Slurm's topology.conf or topology.yaml.
    #[command(after_help = "Example:\n\
        \x20 tributary place slurm topology /etc/slurm/topology.conf --out site")]
    Topology(TopologyArgs),
}

#[derive(Debug, Args)]
struct FollowArgs {
    /// The site file: servers, their GPUs and the network (docs/operate/manager.md). Servers have
    /// the names of Slurm's nodes.
    #[arg(required = true)]
    site: Option<PathBuf>,
    #[command(flatten)]
    controller: ControllerAddress,
    /// Placement policy.
    #[arg(long, value_name = "NAME", default_value = "netpack")]
    policy: String,
    /// Time between two rounds of placement, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(100..=3_600_000))]
    period: u64,
    /// Fraction of its own value that a waiting job gains per round.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    ageing: f64,
    /// How long a placed job may wait for Slurm to start it before its nodes are taken back, in
    /// seconds.
    #[arg(long, value_name = "S", default_value_t = 60)]
    patience: u64,
    /// Other clients admit jobs at the controller too: release only jobs that Slurm knows to be
    /// over.
    #[arg(long)]
    shared: bool,
}

#[derive(Debug, Args)]
struct ControllerAddress {
    /// Address of the switches' controller (`tributary controller --listen ADDR
    /// --on-demand`): HOST:PORT or unix:PATH.
    #[arg(long, value_name = "ADDR", default_value_t = standard("controller").to_string())]
    controller: String,
    #[command(flatten)]
    keys: KeyArgs,
}

impl ControllerAddress {
    /// Must be called within a runtime.
    fn switches(&self) -> Result<Switches> {
        Ok(Switches::at(&self.keys.remote("--controller", &self.controller)?))
    }
}

#[derive(Debug, Args)]
struct HookArgs {
    #[command(flatten)]
    controller: ControllerAddress,
    /// How long the controller is asked again if it does not answer, in seconds.
    #[arg(long, value_name = "S", default_value_t = 20)]
    timeout: u64,
}

#[derive(Debug, Args)]
struct TopologyArgs {
    /// Slurm's topology.conf or topology.yaml.
    file: PathBuf,
    /// Directory for `network.toml` and `site.toml`, which must not exist yet.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// GPUs of each node. By default Slurm is asked, also for the addresses of the nodes.
    #[arg(long, value_name = "N")]
    gpus: Option<u32>,
    /// Network of the nodes' interfaces towards the switches, such as 10.9.0.0/16. A node's address in Slurm becomes
    /// its `ip` if it is in there, and a comment otherwise: mostly, it is one for management.
    #[arg(long, value_name = "ADDRESS/PREFIX")]
    data_network: Option<Subnet>,
}

/// # Errors
/// One line that describes the problem.
pub(super) fn run(args: &SlurmArgs) -> Result<()> {
    match &args.command {
        Some(SlurmCommand::Prolog(args)) => prolog(args),
        Some(SlurmCommand::Epilog(args)) => epilog(args),
        Some(SlurmCommand::Environment(args)) => environment(args),
        Some(SlurmCommand::Topology(args)) => topology(args),
        None => follow(&args.follow),
    }
}

/// Places jobs until Ctrl-C or SIGTERM. Jobs continue.
fn follow(args: &FollowArgs) -> Result<()> {
    let stop = stop_flag()?;
    ensure!(
        args.ageing.is_finite() && args.ageing >= 0.0,
        "--ageing {}: choose 0 or more",
        args.ageing
    );
    let site = Site::load(args.site.as_deref().context("name a site file")?)?;
    let policy = policy(&site, &args.policy)?;
    let settings =
        Settings { period_ms: args.period, ageing: args.ageing, patience_s: args.patience };
    tributary_endpoint::runtime()?.block_on(async {
        let switches = args.controller.switches()?;
        tributary_base::say!(
            "placing Slurm's jobs by {}; end with Ctrl-C, jobs continue",
            args.policy
        );
        let mut placer = Placer { site, policy, settings, shared: args.shared, switches };
        tokio::select! {
            () = placer.run(|line| tributary_base::say!("{line}")) => {}
            () = tributary_endpoint::until(&stop) => {}
        }
        Ok(())
    })
}

fn policy(site: &Site, name: &str) -> Result<Box<dyn Policy>> {
    let names = || NAMES.iter().chain(ALL_REDUCE_NAMES).copied().collect::<Vec<_>>().join(", ");
    site.policy(name, tributary_cluster::placement::by_name)
        .with_context(|| format!("--policy {name}: there is no such policy; there are {}", names()))
}

fn prolog(args: &HookArgs) -> Result<()> {
    let job = job()?;
    let patience = Duration::from_secs(args.timeout);
    let run = tributary_endpoint::runtime()?.block_on(async {
        let mut switches = args.controller.switches()?;
        Ok::<_, anyhow::Error>(service::prolog(&mut switches, job, patience).await?)
    })?;
    if let Some(run) = run {
        tributary_base::say!("job {job}: admitted, run {run}");
    }
    Ok(())
}

fn epilog(args: &HookArgs) -> Result<()> {
    let job = job()?;
    let nodes = variable("SLURM_JOB_NODELIST")?;
    let patience = Duration::from_secs(args.timeout);
    let released = tributary_endpoint::runtime()?.block_on(async {
        let mut switches = args.controller.switches()?;
        Ok::<_, anyhow::Error>(service::epilog(&mut switches, job, &nodes, patience).await?)
    })?;
    if released {
        tributary_base::say!("job {job}: released");
    }
    Ok(())
}

fn environment(args: &HookArgs) -> Result<()> {
    let job = job()?;
    let node = variable("SLURMD_NODENAME")?;
    let patience = Duration::from_secs(args.timeout);
    let variables = tributary_endpoint::runtime()?.block_on(async {
        let mut switches = args.controller.switches()?;
        Ok::<_, anyhow::Error>(service::environment(&mut switches, job, &node, patience).await?)
    })?;
    if !variables.is_empty() {
        tributary_base::say!("export TRIBUTARY_CONTROLLER={}", args.controller.controller);
    }
    for (name, value) in variables {
        tributary_base::say!("export {name}={value}");
    }
    Ok(())
}

fn topology(args: &TopologyArgs) -> Result<()> {
    let file = args.file.display();
    let tree = Tree::load(&args.file).with_context(|| file.to_string())?;
    let nodes = match args.gpus {
        Some(_) => Vec::new(),
        None => tributary_endpoint::runtime()?.block_on(commands::nodes()).context(
            "cannot ask Slurm for the GPUs of its nodes; give --gpus N to do without it",
        )?,
    };
    let by_name: BTreeMap<&str, &Node> =
        nodes.iter().map(|node| (node.name.as_str(), node)).collect();
    if args.gpus.is_none()
        && let Some(unknown) = tree.nodes().find(|name| !by_name.contains_key(name))
    {
        anyhow::bail!("{file}: Slurm has no node {unknown}; correct the file, or give --gpus N");
    }
    let gpus = |name: &str| args.gpus.or_else(|| Some(by_name.get(name)?.gpus)).unwrap_or(0);
    output_directory(&args.out)
        .with_context(|| format!("cannot write to {}", args.out.display()))?;
    let [network, site] = ["network.toml", "site.toml"].map(|name| args.out.join(name));
    for path in [&network, &site] {
        ensure!(!path.exists(), "{} exists; remove it, or choose another --out", path.display());
    }
    let origin = name(&args.file);
    put(&network, tree.network(&origin, &nodes, args.data_network))?;
    put(&site, tree.site(&origin, "network.toml", gpus))?;
    let (switches, hosts) = (tree.switches().len(), tree.nodes().count());
    tributary_base::say!(
        "{}: {switches} switches and {hosts} hosts; complete their addresses",
        network.display()
    );
    tributary_base::say!("{}: {} GPUs", site.display(), tree.nodes().map(gpus).sum::<u32>());
    Ok(())
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// The job that Slurm calls this for.
fn job() -> Result<u32> {
    let text = variable("SLURM_JOB_ID")?;
    text.parse().with_context(|| format!("SLURM_JOB_ID={text}: it is not the number of a job"))
}

fn variable(name: &str) -> Result<String> {
    std::env::var(name)
        .with_context(|| format!("{name} is not set; Slurm sets it for prolog, epilog and jobs"))
}
