//! `tributary doctor`: what may keep jobs from running on this host.

use anyhow::{Context, Result, bail};
use tributary_doctor::{Args, Verdict};

/// Looks at everything, and prints what it found.
///
/// # Errors
/// If a check failed, or the job file is no good.
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
