//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tributary_controller::server::Listen;
use tributary_controller::targets::Kind as Target;
use tributary_dataplane::EngineKind;
use tributary_job::fabric::Kind as Fabric;
use tributary_netio::device::Kind as Io;
use tributary_p4::Architecture;

use crate::commands::place::PlaceArgs;

/// Sums the gradients of distributed training inside the network.
#[derive(Debug, Parser)]
#[command(
    version,
    arg_required_else_help = true,
    after_help = "Start with:  tributary run examples/digits.toml"
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a job file: start its network, workers and parameter servers, check every sum, report.
    Run(RunArgs),
    /// Run a P4 program as a switch over network interfaces, controlled by P4Runtime.
    Switch(SwitchArgs),
    /// Run one worker of a job file on this host.
    Worker(WorkerArgs),
    /// Run the parameter servers of a job file that are placed on this host.
    Ps(PsArgs),
    /// Run the reminder agent of the jobs of a job file (ESA) that have it on this host, apart from
    /// their parameter servers.
    Reminder(PsArgs),
    /// Be a cable between two interfaces of this host, with the faults of a link of a job file.
    Cable(CableArgs),
    /// Show the network of a job file: hosts, addresses, switch ports, and what runs where.
    Network(NetworkArgs),
    /// Program switches for a job file, and clean them when it is over.
    Controller(Box<ControllerArgs>),
    /// Look for what may keep jobs from running on this host and its switches, and say what to do.
    Doctor(tributary_doctor::Args),
    /// Check P4 programs and describe them.
    #[command(subcommand)]
    P4(P4Command),
    /// Decide where training jobs go: compare policies over a trace of jobs, or be the manager that places
    /// them on servers.
    Place(Box<PlaceArgs>),
    /// Measure the engine, all-reduce, fixed-point conversion, packet I/O and the protocols side by
    /// side on this machine.
    Bench(tributary_bench::Args),
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The job file (docs/job-files.md).
    pub(crate) job: PathBuf,
    /// How to run it.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) fabric: Fabric,
    /// What the switches are: BMv2 needs `--fabric netns`; switches that run already, such as a Tofino,
    /// are for `tributary controller`.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) target: Target,
    /// Architecture of the program: v1model, or tna, which only the embedded switch runs here.
    #[arg(long, value_name = "ARCH", default_value_t = Architecture::V1model)]
    pub(crate) arch: Architecture,
    /// Seed of faults and random workloads, in place of the file's.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Also write the report as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Also write every frame and message, for the fabric `sim`: as a sequence chart if the name ends
    /// in .svg, else as text.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// P4 program to run on the switches, in place of the built-in one.
    #[arg(long, value_name = "FILE")]
    pub(crate) p4: Option<PathBuf>,
    /// How all parts send and receive; for the fabric `netns`.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) io: Io,
    /// What runs the program in embedded switches. All give the same packets.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) engine: EngineKind,
}

#[derive(Debug, Args)]
pub(crate) struct SwitchArgs {
    /// P4 program to start with; without one, the switch waits for a controller to push one.
    pub(crate) program: Option<PathBuf>,
    /// A port and its interface, such as 1@eth0. Give it once a port.
    #[arg(long = "port", value_name = "N@IFACE", required = true)]
    pub(crate) ports: Vec<String>,
    /// How frames go in and out of the ports. With `xdp` the switch takes every frame that arrives
    /// there; the host's own network stack gets none.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) io: Io,
    /// Where P4Runtime listens: ADDRESS:PORT, or unix:PATH.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9559")]
    pub(crate) p4runtime: String,
    /// Certificate of the P4Runtime server, as a PEM file: connections are encrypted (TLS).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's key.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Take only controllers with a certificate from one of these roots (mutual TLS).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// P4Runtime device ID.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) device_id: u64,
    /// Packets that an egress queue holds.
    #[arg(long, value_name = "PACKETS", default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) queue_capacity: u32,
    /// What runs the program. All give the same packets.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) engine: EngineKind,
    /// Compile-time constant of the program, such as VALUES=256.
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    pub(crate) defines: Vec<String>,
    /// Seed of the faults that `--faults` injects, in place of the file's.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Inject the faults that this job file gives the links of the switch with that name.
    #[arg(long, value_name = "JOB.toml:SWITCH")]
    pub(crate) faults: Option<String>,
    /// Print nothing but, at the end, what was counted, as JSON.
    #[arg(long, hide = true)]
    pub(crate) json_statistics: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(crate) endpoint: tributary_endpoint::Args,
    /// Name of the job in the file; may be left out if there is one.
    #[arg(long, value_name = "NAME")]
    pub(crate) job: Option<String>,
    /// Index of the worker, from 0.
    #[arg(long, value_name = "N")]
    pub(crate) worker: u8,
    /// Be the parameter server, too, of a job that has no other worker: nothing goes to the network.
    #[arg(long)]
    pub(crate) alone: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    #[command(flatten)]
    pub(crate) endpoint: tributary_endpoint::Args,
    /// Name of the host in the job file.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ControllerTask {
    /// Push the program, forwarding and jobs into the switches once, and leave them there.
    Push(PushArgs),
}

/// Which switches, what they are, and what they are to run.
#[derive(Debug, Args)]
pub(crate) struct SwitchesArgs {
    /// Where a switch of the job file listens for P4Runtime, such as s1=10.0.0.1:9559 or
    /// s1=unix:/run/s1.sock. Give it once a switch.
    #[arg(long = "switch", value_name = "NAME=ADDR")]
    pub(crate) switches: Vec<String>,
    /// What the switches are.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) target: Target,
    /// P4 program to push, in place of the built-in one.
    #[arg(long, value_name = "FILE", conflicts_with = "bundle")]
    pub(crate) p4: Option<PathBuf>,
    /// What a compiler made already, in place of calling it: BMv2's JSON, or the output directory of
    /// p4c-barefoot; the P4Info is beside it.
    #[arg(long, value_name = "PATH")]
    pub(crate) bundle: Option<PathBuf>,
    /// The bundle's P4Info, where it is not beside it.
    #[arg(long, value_name = "FILE", requires = "bundle")]
    pub(crate) p4info: Option<PathBuf>,
    /// Which ports of the switches those of the job file are, for switches with numbers of their own
    /// (docs/tofino-deployment.md).
    #[arg(long, value_name = "FILE")]
    pub(crate) ports: Option<PathBuf>,
    /// Roots that the switches' certificates come from, as a PEM file: connections are encrypted
    /// (TLS).
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Our certificate, for switches that want one (mutual TLS).
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's key.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// What the switches' certificates are made out to, where that is not the host of their addresses.
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    pub(crate) tls_name: Option<String>,
    /// P4Runtime device ID of each switch; with Stratum the node's.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) device_id: u64,
    /// Of several controllers, switches listen to the one with the highest election ID.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) election_id: u64,
    /// How long a switch may take to answer, and a lost one to come back.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: u64,
}

#[derive(Debug, Args)]
pub(crate) struct CableArgs {
    /// The interfaces: what comes in at one goes out at the other.
    #[arg(long, num_args = 2, value_names = ["IFACE", "IFACE"], required = true)]
    pub(crate) between: Vec<String>,
    /// The link that it is, by the names of its ends: the first interface leads to the first one.
    /// Without it, nothing is lost but what an interface has no room for.
    #[arg(long, value_name = "JOB.toml:NAME:NAME")]
    pub(crate) faults: Option<String>,
    /// Seed of the faults, in place of the file's.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct NetworkArgs {
    /// The job file.
    pub(crate) job_file: PathBuf,
    /// As JSON, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ControllerArgs {
    /// What to do instead of serving the jobs of a file until Ctrl-C.
    #[command(subcommand)]
    pub(crate) command: Option<ControllerTask>,
    /// The job file.
    #[arg(required = true)]
    pub(crate) job_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) switches: SwitchesArgs,
    /// Where to write the tokens that the endpoints of ESA jobs show each other. Only its owner may
    /// read the file; take it to the hosts that run endpoints.
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// Admit none of the jobs: serve them to whoever decides about them over gRPC, at this ADDRESS:PORT
    /// (not ESA; proto/README.md). Whoever reaches it may do anything with the jobs.
    #[arg(long, value_name = "ADDR")]
    pub(crate) scheduler: Option<SocketAddr>,
    /// Where endpoints ask which run of their job they are in: ADDRESS:PORT or unix:PATH. When all workers
    /// of a job have asked, a new run begins, so any host that reaches the address can end the current
    /// one.
    #[arg(long, value_name = "ADDR", conflicts_with = "scheduler")]
    pub(crate) listen: Option<Listen>,
}

#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// The job file.
    pub(crate) job_file: PathBuf,
    #[command(flatten)]
    pub(crate) switches: SwitchesArgs,
    /// Where to write the tokens of ESA jobs.
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// Push the program and forwarding only; jobs that are in the switches are removed.
    #[arg(long)]
    pub(crate) no_jobs: bool,
    /// Print all that would be pushed, and connect to no switch.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also write what the switches are to run: the device configuration and its P4Info.
    #[arg(long, value_name = "DIR")]
    pub(crate) save: Option<PathBuf>,
    /// Also write Stratum's chassis configuration of each switch, as NAME.pb.txt. Needs --ports.
    #[arg(long, value_name = "DIR", requires = "ports")]
    pub(crate) chassis_config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum P4Command {
    /// Report all errors of a program.
    Check(P4Args),
    /// Write the program's P4Info.
    Info(InfoArgs),
    /// Draw the program's parsers and controls as they run, a file a block.
    Graph(GraphArgs),
    /// Run a packet test in the STF format of p4c's test suite: PASS, or FAIL and why.
    Stf(StfArgs),
}

#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub(crate) program: P4Args,
    /// Write to a file, not to standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// As encoded protobuf in place of protobuf text.
    #[arg(long, requires = "out")]
    pub(crate) binary: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    pub(crate) program: P4Args,
    /// Directory for the files; made if it is not there.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// In the language of Graphviz in place of SVG.
    #[arg(long)]
    pub(crate) dot: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StfArgs {
    #[command(flatten)]
    pub(crate) program: P4Args,
    /// The packet test.
    pub(crate) script: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct P4Args {
    /// The program.
    pub(crate) file: PathBuf,
    /// Directory to search for included files. May be given several times.
    #[arg(short = 'I', value_name = "DIR")]
    pub(crate) include: Vec<PathBuf>,
    /// Compile-time constant, such as VALUES=256.
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    pub(crate) defines: Vec<String>,
}
