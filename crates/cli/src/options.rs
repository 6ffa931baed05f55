//! Options that several commands share.

use std::path::PathBuf;

use clap::Args;
use tributary_access::Listen;
use tributary_access::args::IdentityArgs;
use tributary_controller::targets::Kind as Target;
use tributary_run::cores::Cores;

/// Options of each command that runs parts of a network.
#[derive(Debug, Args)]
pub(crate) struct ProcessArgs {
    /// Processor cores to run on, such as 0,2-3; all if left out.
    #[arg(long, value_name = "LIST")]
    pub(crate) cores: Option<Cores>,
    /// Serve metrics to Prometheus at ADDRESS:PORT or unix:PATH.
    ///
    /// The metrics are in docs/operate/metrics.md.
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<Listen>,
}

/// The switches, their kind, and their program.
#[derive(Debug, Args)]
pub(crate) struct SwitchesArgs {
    /// Address of P4Runtime of a switch in the job file, such as s1=10.0.0.1:9559 or s1=unix:/run/s1.sock; repeat
    /// for each switch.
    ///
    /// http://10.0.0.1:9559 is never encrypted.
    #[arg(long = "switch", value_name = "NAME=ADDR")]
    pub(crate) switches: Vec<String>,
    /// Kind of the switches.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) target: Target,
    /// P4 program to push, replacing the built-in one.
    #[arg(long, value_name = "FILE", conflicts_with = "bundle")]
    pub(crate) p4: Option<PathBuf>,
    /// Compiled program, replacing a call of the compiler: BMv2's JSON, or the output directory of
    /// p4c-barefoot; with the P4Info in the same directory.
    #[arg(long, value_name = "PATH")]
    pub(crate) bundle: Option<PathBuf>,
    /// The bundle's P4Info, if it is elsewhere.
    #[arg(long, value_name = "FILE", requires = "bundle")]
    pub(crate) p4info: Option<PathBuf>,
    /// Port map from the job file's ports to those of the switches, for switches with their own
    /// numbers (docs/operate/tofino-deployment.md).
    #[arg(long, value_name = "FILE")]
    pub(crate) ports: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) identity: IdentityArgs,
    /// Name in the switches' certificates, if it differs from the host of their addresses.
    #[arg(long, value_name = "NAME", requires = "identity")]
    pub(crate) server_name: Option<String>,
    /// P4Runtime device ID of each switch; with Stratum the node's.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) device_id: u64,
    /// Election ID: of several controllers, the one with the highest may write.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) election_id: u64,
    /// Time limit for a switch to answer, and for a lost one to come back.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: u64,
}
