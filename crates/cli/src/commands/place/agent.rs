//! `tributary place agent`: the agent of a server.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use tributary_access::args::{IdentityArgs, remote};
use tributary_access::listen::standard;
use tributary_manager::agent::{Agent, Settings};
use tributary_metrics::Metrics;
use tributary_netio::device::Kind as Io;

use crate::commands::watchdog;
use crate::options::ProcessArgs;
use tributary_base::program::{self, stop_flag};

#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// Address of the manager: HOST:PORT or unix:PATH.
    #[arg(long, value_name = "ADDR", default_value_t = standard("manager").to_string())]
    manager: String,
    #[command(flatten)]
    identity: IdentityArgs,
    /// Name in the manager's certificate, if it differs from the host of its address.
    #[arg(long, value_name = "NAME", requires = "identity")]
    server_name: Option<String>,
    /// Address of the switches' controller (`tributary controller --listen ADDR`), where workers and parameter servers take
    /// part in jobs, with the same identity.
    #[arg(long, value_name = "ADDR", env = "TRIBUTARY_CONTROLLER")]
    controller: String,
    /// Name of the server, which is that of its host in the network file.
    #[arg(long, value_name = "NAME")]
    server: String,
    /// Network interface towards the switch.
    #[arg(long, value_name = "IFACE")]
    interface: String,
    /// Directory for what this server's processes write, and nothing else.
    #[arg(long, value_name = "DIR", default_value = "agent")]
    directory: PathBuf,
    /// How workers and parameter servers send and receive packets. With `xdp` only one process per
    /// server receives them: for servers with one process at a time.
    #[arg(long, value_enum, default_value_t)]
    io: Io,
    /// Run the commands that users submit, as this user. Anyone who reaches the manager can submit
    /// one.
    #[arg(long)]
    commands: bool,
    #[command(flatten)]
    pub(super) process: ProcessArgs,
}

/// Serves the manager until Ctrl-C or SIGTERM, and then ends the server's processes.
///
/// # Errors
/// One line that describes the problem.
pub(crate) fn run(args: &AgentArgs, metrics: &Metrics) -> Result<()> {
    let stop = stop_flag()?;
    let keys = args.identity.client_keys(args.server_name.as_deref())?;
    let settings = Settings {
        server: args.server.clone(),
        manager: remote("--manager", &args.manager, keys)?,
        controller: args.controller.clone(),
        identity: args.identity.identity(),
        program: tributary_base::programs::path("tributary")?,
        directory: args.directory.clone(),
        interface: args.interface.clone(),
        arguments: vec!["--io".to_owned(), args.io.to_string()],
        commands: args.commands,
        metrics: metrics.clone(),
    };
    let mut agent = Agent::new(settings)?;
    tributary_base::say!("agent of {}, manager at {}; end with Ctrl-C", args.server, args.manager);
    // It waits for the manager from now on, however long that takes.
    program::ready();
    let running = agent.run(&stop, |what| tributary_base::say!("{what}"));
    tributary_endpoint::runtime()?.block_on(watchdog::feed_until(running))?;
    Ok(())
}
