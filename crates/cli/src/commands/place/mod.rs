//! `tributary place`: placement of jobs on servers.
//!
//! `serve` is the placement manager, `agent` its agent on every server, and `ask` the users'
//! commands. `slurm` places jobs of Slurm instead.

mod agent;
mod ask;
mod serve;
mod slurm;

use anyhow::Result;
use clap::{Args, Subcommand};
use tributary_access::Remote;
use tributary_access::args::KeyArgs;
use tributary_access::listen::standard;
use tributary_metrics::Metrics;

use crate::args::ProcessArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum PlaceCommand {
    /// Run the placement manager: accept jobs, place them, and have the servers' agents run them.
    #[command(after_help = "Example:\n\
        \x20 tributary place serve site.toml --listen 10.9.0.2:9640 \\\n\
        \x20     --controller 10.9.0.2:9641 --identity keys/manager")]
    Serve(serve::ServeArgs),
    /// Run the agent of this server: start and stop workers and parameter servers for the manager.
    #[command(after_help = "Example:\n\
        \x20 tributary place agent --manager 10.9.0.2:9640 --controller 10.9.0.2:9641 \\\n\
        \x20     --server w1 --interface eth0 --identity keys/w1")]
    Agent(agent::AgentArgs),
    /// Submit a job to the manager.
    #[command(after_help = "Examples:\n\
        \x20 tributary place submit --name vgg --gpus 4 --model vgg16 --iterations 100\n\
        \x20 tributary place submit --gpus 4 --wait -- torchrun train.py")]
    Submit(ask::SubmitArgs),
    /// Show the manager's jobs and servers.
    #[command(after_help = "Example:\n  tributary place list")]
    List(ask::ListArgs),
    /// End or withdraw a job of the manager.
    #[command(after_help = "Example:\n  tributary place cancel 7")]
    Cancel(ask::CancelArgs),
    /// Place the held jobs of a Slurm cluster, and have the switches aggregate for them.
    #[command(after_help = "Example:\n  tributary place slurm site.toml")]
    Slurm(slurm::SlurmArgs),
}

/// The manager's address.
#[derive(Debug, Args)]
struct ManagerArgs {
    /// Address of the manager: HOST:PORT or unix:PATH.
    #[arg(long, value_name = "ADDR", default_value_t = standard("manager").to_string())]
    manager: String,
    #[command(flatten)]
    keys: KeyArgs,
}

impl ManagerArgs {
    fn remote(&self) -> Result<Remote> {
        self.keys.remote("--manager", &self.manager)
    }
}

impl PlaceCommand {
    /// The options of the manager and of its agents.
    pub(crate) fn process(&self) -> Option<&ProcessArgs> {
        match self {
            Self::Serve(args) => Some(&args.process),
            Self::Agent(args) => Some(&args.process),
            _ => None,
        }
    }
}

/// # Errors
/// One line that describes the problem.
pub(crate) fn run(command: &PlaceCommand, metrics: &Metrics) -> Result<()> {
    match command {
        PlaceCommand::Serve(args) => serve::run(args, metrics),
        PlaceCommand::Agent(args) => agent::run(args, metrics),
        PlaceCommand::Submit(args) => ask::submit(args),
        PlaceCommand::List(args) => ask::list(args),
        PlaceCommand::Cancel(args) => ask::cancel(args),
        PlaceCommand::Slurm(args) => slurm::run(args),
    }
}
