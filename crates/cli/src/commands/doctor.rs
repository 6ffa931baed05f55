//! `tributary doctor`: checks for problems that prevent jobs from running on this host.

use anyhow::{Context, Result, bail};
use tributary_doctor::{Args, Verdict};

/// Runs all checks, and prints the results.
///
/// # Errors
/// If a check failed, or the job file is invalid.
pub(crate) fn run(args: &Args) -> Result<()> {
    let checks = tributary_doctor::look(args)?;
    if args.json {
        crate::print(&serde_json::to_string_pretty(&checks).context("cannot write JSON")?)?;
    } else {
        crate::print(&tributary_doctor::text(&checks))?;
    }
    match checks.iter().filter(|check| check.verdict == Verdict::Fail).count() {
        0 => Ok(()),
        1 => bail!("1 check failed"),
        failed => bail!("{failed} checks failed"),
    }
}
