//! `tributary-lab place`: placement of jobs, simulated. Without a command it compares policies over a trace.

mod compare;
mod figures;
mod sharing;

use anyhow::Result;
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct PlaceArgs {
    #[command(subcommand)]
    command: Option<PlaceCommand>,
    #[command(flatten)]
    compare: compare::CompareArgs,
}

#[derive(Debug, Subcommand)]
enum PlaceCommand {
    /// Make the figures of NetPack's or Titan's paper, with the paper's numbers.
    #[command(after_help = "Example:\n  tributary-lab place figures netpack --quick --out figures")]
    Figures(figures::FiguresArgs),
}

/// # Errors
/// One line that describes the problem.
pub(crate) fn run(args: &PlaceArgs) -> Result<()> {
    match &args.command {
        None => compare::run(&args.compare),
        Some(PlaceCommand::Figures(args)) => figures::run(args),
    }
}
