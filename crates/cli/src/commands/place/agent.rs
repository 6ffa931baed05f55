//! `tributary place agent`: the agent of a server.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use tributary_manager::agent::{Agent, Settings};
use tributary_netio::device::Kind as Io;

use super::ManagerArgs;
use crate::signals;

#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    manager: ManagerArgs,
    /// Name of the server: that of its host in the network file.
    #[arg(long, value_name = "NAME")]
    server: String,
    /// Network interface towards the switch.
    #[arg(long, value_name = "IFACE")]
    interface: String,
    /// Directory for the job files of what runs here, and for nothing else.
    #[arg(long, value_name = "DIR", default_value = "agent")]
    directory: PathBuf,
    /// How packets of workers and parameter servers go in and out. With `xdp` only one process a
    /// server gets them: for servers whose jobs have them alone.
    #[arg(long, value_enum, default_value_t)]
    io: Io,
}

/// Serves the manager until Ctrl-C or SIGTERM, and then ends what it runs.
///
/// # Errors
/// One line that says what went wrong.
pub(crate) fn run(args: &AgentArgs) -> Result<()> {
    let stop = signals::stop_flag()?;
    let settings = Settings {
        server: args.server.clone(),
        manager: args.manager.endpoint()?,
        program: std::env::current_exe().context("cannot find this program")?,
        directory: args.directory.clone(),
        interface: args.interface.clone(),
        arguments: vec!["--io".to_owned(), args.io.to_string()],
    };
    let mut agent = Agent::new(settings)?;
    say!("agent of {}, manager at {}; end with Ctrl-C", args.server, args.manager.manager);
    tributary_endpoint::runtime()?.block_on(agent.run(&stop, |what| say!("{what}")))?;
    Ok(())
}
