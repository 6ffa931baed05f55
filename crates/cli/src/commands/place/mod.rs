//! `tributary place`: placement of jobs on servers.
//!
//! `serve` is the placement manager, `agent` its agent on every server, and `explain` asks the manager why a job is where
//! it is. `slurm` places jobs of Slurm instead. Users submit their jobs with `tributary job`.

mod agent;
mod explain;
mod serve;
mod slurm;

use anyhow::Result;
use clap::Subcommand;
use tributary_metrics::Metrics;

use crate::options::ProcessArgs;

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
    /// Show why a job of a running manager is where it is, or waits.
    #[command(after_help = "Example:\n  tributary place explain 7")]
    Explain(explain::ExplainArgs),
    /// Place the held jobs of a Slurm cluster, and have the switches aggregate for them.
    #[command(after_help = "Example:\n  tributary place slurm site.toml")]
    Slurm(slurm::SlurmArgs),
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
        PlaceCommand::Explain(args) => explain::run(args),
        PlaceCommand::Slurm(args) => slurm::run(args),
    }
}
