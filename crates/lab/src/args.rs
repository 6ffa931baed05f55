//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tributary_base::program::{Completions, ManualPages};
use tributary_lab::{bench, soak};

use crate::commands::optical::OpticalCommand;
use crate::commands::place::PlaceArgs;
use crate::commands::sim::SimCommand;

/// Measures Tributary, simulates training jobs and clusters, and lets parts of networks fail.
#[derive(Debug, Parser)]
#[command(
    name = "tributary-lab",
    version,
    arg_required_else_help = true,
    after_help = concat!(
        "Example:\n  tributary-lab bench allreduce --quick\n\n",
        tributary_base::exit_status!()
    )
)]
pub(crate) struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure the engine, all-reduce, fixed-point conversion, packet I/O and the protocols side by
    /// side on this machine.
    #[command(after_help = "Examples:\n\
        \x20 tributary-lab bench allreduce --quick\n\
        \x20 tributary-lab bench loss --fabric memory --json-out loss.json")]
    Bench(Box<bench::Args>),
    /// Run the jobs of a file in network namespaces while parts fail, and check every sum.
    #[command(after_help = "Examples:\n\
        \x20 tributary-lab chaos examples/chaos/units.toml --in-turn\n\
        \x20 tributary-lab chaos examples/chaos/esa.toml --minutes 10")]
    Chaos(ChaosArgs),
    /// Run jobs one after the other in network namespaces, for hours, and check that memory, descriptors,
    /// threads and table entries stay flat.
    #[command(after_help = "Example:\n  tributary-lab soak --minutes 10")]
    Soak(soak::Args),
    /// Compare placement policies over a trace of jobs, and make the figures of NetPack's and Titan's papers.
    #[command(after_help = "Example:\n\
        \x20 tributary-lab place --trace examples/placement/sample.csv --cluster examples/placement/mixed.toml")]
    Place(Box<PlaceArgs>),
    /// Simulate training jobs packet by packet, in virtual time: the figures of ESA's paper.
    #[command(subcommand, after_help = "Example:\n  tributary-lab sim esa --quick")]
    Sim(SimCommand),
    /// Schedule jobs, aggregation in switches and light paths together, and make the figures of P4INC-AOI's
    /// paper.
    #[command(
        subcommand,
        after_help = "Example:\n  tributary-lab optical schedule examples/optical/jobs.toml"
    )]
    Optical(OpticalCommand),
    /// Print a script that completes this command in a shell.
    #[command(after_help = "Example:\n  tributary-lab completions bash")]
    Completions(Completions),
    /// Write the manual pages, for packages.
    #[command(hide = true, after_help = "Example:\n  tributary-lab man /usr/local/share/man/man1")]
    Man(ManualPages),
}

#[derive(Debug, Args)]
pub(crate) struct ChaosArgs {
    /// The job file. Its jobs have random tensors, and are run again and again.
    pub(crate) job_file: PathBuf,
    /// For how long parts fail; then all must get over it.
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = minutes)]
    pub(crate) minutes: f64,
    /// Seed of the schedule of failures, and of all values.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Let each part fail once instead, one after the other, and show how long jobs take to get over each.
    #[arg(long, conflicts_with = "minutes")]
    pub(crate) in_turn: bool,
    /// Time between two failures, on average, in milliseconds. In turn: from when jobs have got over one.
    #[arg(long, value_name = "MS", default_value_t = 2_000,
        value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    pub(crate) every: u64,
    /// Leave the jobs to a client, which admits them, lets iterations begin, moves, paces and releases them at random.
    /// Around a cross-connect, one always does.
    #[arg(long)]
    pub(crate) clients: bool,
}

/// A length of time that is not unreasonable.
fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse().ok().filter(|minutes| (0.0..=100_000.0).contains(minutes));
    minutes.ok_or_else(|| "write a number of minutes, such as 0.5 or 60".into())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Commands with more options than fit on a screen.
    const LONG: &[&str] = &["tributary-lab bench"];

    #[test]
    fn help_has_examples_and_fits_on_a_screen() {
        let flaws = tributary_base::program::flaws(&Cli::command(), LONG);
        assert!(flaws.is_empty(), "{flaws:#?}");
    }
}
