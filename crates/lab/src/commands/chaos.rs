//! `tributary-lab chaos`: parts fail at random, and every sum is checked.

use std::time::Duration;

use anyhow::Result;
use tributary_lab::chaos::Options;

use crate::args::ChaosArgs;
use tributary_base::program::stop_flag;

/// Prints what fails to standard error, and the counts at the end.
///
/// # Errors
/// One line that describes the problem; everything is cleaned up then.
pub(crate) fn run(args: &ChaosArgs) -> Result<()> {
    let options = Options {
        job_file: args.job_file.clone(),
        length: Duration::from_secs_f64(60.0 * args.minutes),
        every: Duration::from_millis(args.every),
        seed: args.seed,
        in_turn: args.in_turn,
        clients: args.clients,
    };
    let stop = stop_flag()?;
    let report = tributary_lab::chaos::run(&options, &stop, &mut |line| eprintln!("{line}"))?;
    tributary_base::program::print(&report)
}
