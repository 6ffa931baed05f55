//! `tributary-p4 stf`: a packet test.

use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use tributary_base::{FileLimit, joined_lines, one_line};
use tributary_switch::Forwarding;
use tributary_switch::stf::Script;

use crate::args::{P4Args, StfArgs};

/// Hundreds of times the longest test of p4c's suite.
pub(super) const SCRIPT: FileLimit = FileLimit::new("packet test", 64 << 20);

/// Runs a test and prints its outcome in one line: `PASS`, or `FAIL` and the reason.
///
/// # Errors
/// If standard output cannot be written to. A failed test is a status, not an error.
pub(crate) fn run(args: &StfArgs) -> Result<ExitCode> {
    match test(args) {
        Ok(()) => tributary_base::program::print("PASS").map(|()| ExitCode::SUCCESS),
        Err(error) => {
            let reason = joined_lines(&one_line(error.as_ref()), "; ");
            tributary_base::program::print(&format!("FAIL: {reason}")).map(|()| ExitCode::FAILURE)
        }
    }
}

fn test(args: &StfArgs) -> Result<()> {
    let path = args.script.display();
    let text = SCRIPT.read(&args.script).with_context(|| format!("cannot read {path}"))?;
    let script = Script::parse(&String::from_utf8_lossy(&text));
    let script = script.map_err(|error| anyhow!("{path}:{error}"))?;
    let outcome = tributary_switch::stf::run(&script, load(&args.program)?);
    outcome.map(drop).map_err(|failure| anyhow!(failure.in_file(&path)))
}

/// Compiles and loads the program; reports only its first error.
fn load(args: &P4Args) -> Result<Forwarding> {
    super::must_be_there(&args.file)?;
    let defines = super::parse_defines(&args.defines)?;
    let sources = super::sources(args);
    let loaded = Forwarding::from_file(&sources, &args.file.display().to_string(), &defines);
    loaded.map_err(anyhow::Error::msg)
}
