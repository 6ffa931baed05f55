//! `tributary testbed`: a network of P4 programs, tested in virtual time or run in network namespaces.

mod file;
mod namespaces;
pub(crate) mod virtual_time;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use tributary_base::program;
use tributary_base::{joined_lines, one_line};

use file::Net;
use namespaces::Exec;

#[derive(Debug, Args)]
pub(crate) struct TestbedArgs {
    /// The network: switches with their programs, hosts, and links (docs/reference/testbed.md).
    network: PathBuf,
    /// Run this packet test in virtual time, within this process and without root.
    #[arg(long, value_name = "TEST.stf")]
    test: Option<PathBuf>,
    /// Run a command in a host or switch, and end with its status; repeat for more, one after the other.
    #[arg(long, value_name = "NODE:COMMAND", conflicts_with = "test")]
    exec: Vec<Exec>,
}

impl TestbedArgs {
    /// Whether it needs network namespaces.
    pub(crate) fn in_namespaces(&self) -> bool {
        self.test.is_none()
    }
}

/// Tests a network, or runs it.
///
/// # Errors
/// One line that describes the problem. A failed test is a status, not an error.
pub(crate) fn run(args: &TestbedArgs) -> Result<ExitCode> {
    let Some(test) = &args.test else {
        return namespaces::run(&args.network, &args.exec);
    };
    let outcome = Net::load(&args.network).map_err(anyhow::Error::from);
    match outcome.and_then(|net| virtual_time::test(&net, test)) {
        Ok(()) => program::print("PASS").map(|()| ExitCode::SUCCESS),
        Err(error) => {
            let reason = joined_lines(&one_line(error.as_ref()), "; ");
            program::print(&format!("FAIL: {reason}")).map(|()| ExitCode::FAILURE)
        }
    }
}
