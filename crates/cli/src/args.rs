//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tributary_access::Listen;
use tributary_access::args::DoorArgs;
use tributary_controller::targets::Kind as Target;
use tributary_dataplane::EngineKind;
use tributary_job::cores::Cores;
use tributary_job::fabric::Kind as Fabric;
use tributary_netio::device::Kind as Io;
use tributary_p4::Architecture;
use tributary_wire::channel::Token;

use crate::commands::place::PlaceArgs;

/// Sums the gradients of distributed training inside the network.
#[derive(Debug, Parser)]
#[command(
    version,
    arg_required_else_help = true,
    after_help = "Start with:  tributary run examples/digits.toml"
)]
pub(crate) struct Cli {
    /// Processor cores to run on, such as 0,2-3; all if left out.
    #[arg(long, value_name = "LIST", global = true)]
    pub(crate) cores: Option<Cores>,
    /// Serve metrics to Prometheus at this address, ADDRESS:PORT or unix:PATH (docs/metrics.md).
    #[arg(long, value_name = "ADDR", global = true)]
    pub(crate) metrics: Option<Listen>,
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a job file: start its network, workers and parameter servers, check every sum, report.
    Run(RunArgs),
    /// Run the jobs of a file in network namespaces while parts fail at random, and check every sum.
    Chaos(ChaosArgs),
    /// Run a P4 program as a switch over network interfaces, controlled by P4Runtime.
    Switch(SwitchArgs),
    /// Run one worker of a job on this host.
    Worker(WorkerArgs),
    /// Run the parameter servers of all jobs that have one on this host.
    Ps(PsArgs),
    /// Run the reminder agent for ESA jobs whose agent has its own host.
    Reminder(PsArgs),
    /// Connect two interfaces of this host, with the faults of a link of a job file.
    Cable(CableArgs),
    /// Capture our packets on a network interface, for Wireshark.
    Capture(CaptureArgs),
    /// Show running switches and their jobs, or a recording, on a web page or in the terminal.
    Watch(crate::commands::watch::WatchArgs),
    /// Emulate an optical cross-connect between interfaces of this host, or control a cross-connect.
    Crossconnect(crate::commands::crossconnect::CrossconnectArgs),
    /// Show the network of a job file: hosts, addresses, switch ports, and processes.
    Network(NetworkArgs),
    /// Program switches for a job file, and clean them up at the end.
    Controller(Box<ControllerArgs>),
    /// Make certificates for the servers and clients of a testbed.
    Certs(crate::commands::certs::CertsArgs),
    /// Check this host and its switches for problems that prevent jobs from running, with advice.
    Doctor(tributary_doctor::Args),
    /// Check P4 programs and describe them.
    #[command(subcommand)]
    P4(P4Command),
    /// Place training jobs: compare policies over a trace of jobs, or run the manager that places
    /// jobs on servers.
    Place(Box<PlaceArgs>),
    /// Simulate training jobs packet by packet, in virtual time.
    #[command(subcommand)]
    Sim(SimCommand),
    /// Schedule jobs, aggregation in switches and light paths together (P4INC-AOI).
    #[command(subcommand)]
    Optical(crate::commands::optical::OpticalCommand),
    /// Measure the engine, all-reduce, fixed-point conversion, packet I/O and the protocols side by
    /// side on this machine.
    Bench(tributary_bench::Args),
    /// Run jobs one after the other in network namespaces, for hours, and check that memory, descriptors,
    /// threads and table entries stay flat.
    Soak(tributary_soak::Args),
    /// Print a script that completes this command in a shell.
    Completions(crate::commands::completions::CompletionsArgs),
    /// Write the manual pages, for packages.
    #[command(hide = true)]
    Man(crate::commands::man::ManArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The job file (docs/job-files.md).
    pub(crate) job: PathBuf,
    /// How to run it.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) fabric: Fabric,
    /// Kind of the switches: BMv2 needs `--fabric netns`; use `tributary controller` for running
    /// switches, such as a Tofino.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) target: Target,
    /// Architecture of the program: v1model, or tna, which only the embedded switch runs here.
    #[arg(long, value_name = "ARCH", default_value_t = Architecture::V1model)]
    pub(crate) arch: Architecture,
    /// Seed of faults and random workloads, replacing the file's.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Also write the report as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Also write every frame and message, for the fabric `sim`: as a sequence chart if the name
    /// ends in .svg, the frames alone for Wireshark if it ends in .pcapng, otherwise as text.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Capture the frames at both ends of all links in a new file in this directory, for Wireshark: the
    /// job file's name, with .pcapng. The directory is created if missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) capture: Option<PathBuf>,
    /// Show the run on a web page while it lasts, and until Ctrl-C; at this address of this host, or at a
    /// free port (docs/watch.md).
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:0")]
    pub(crate) watch: Option<SocketAddr>,
    /// Show the run in this terminal, until `q` is pressed.
    #[arg(long)]
    pub(crate) terminal: bool,
    /// Record what --watch shows, for `tributary watch --replay`.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// P4 program for the switches, replacing the built-in one.
    #[arg(long, value_name = "FILE")]
    pub(crate) p4: Option<PathBuf>,
    /// How all parts send and receive frames; for the fabric `netns`. Default: UDP sockets at the
    /// hosts, with many datagrams in one buffer (`udp-gso`), and `packet` with BMv2.
    #[arg(long, value_enum)]
    pub(crate) io: Option<Io>,
    /// Execution engine of embedded switches. All produce the same packets.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) engine: EngineKind,
    /// Give each switch a core of its own, and the hosts the others; for the fabric `netns`. Faster
    /// where there are more processes than cores.
    #[arg(long)]
    pub(crate) pin: bool,
    /// Threads of each embedded switch, each with its part of the aggregators.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=MOST_THREADS))]
    pub(crate) switch_threads: u16,
}

#[derive(Debug, Args)]
pub(crate) struct ChaosArgs {
    /// The job file. Its jobs have random tensors, and are run again and again.
    pub(crate) job: PathBuf,
    /// For how long parts fail; then all must get over it.
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = minutes)]
    pub(crate) minutes: f64,
    /// Seed of the schedule of failures, and of all values.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Time between two failures, on average, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 2_000,
        value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    pub(crate) every: u64,
    /// Leave the jobs to a client, which admits them, lets iterations begin, moves, paces and releases them at random.
    #[arg(long)]
    pub(crate) clients: bool,
}

/// A length of time that is not unreasonable.
fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse().ok().filter(|minutes| (0.0..=100_000.0).contains(minutes));
    minutes.ok_or_else(|| "write a number of minutes, such as 0.5 or 60".into())
}

#[derive(Debug, Args)]
pub(crate) struct CaptureArgs {
    /// The network interface. It is put into promiscuous mode.
    #[arg(long, value_name = "IFACE")]
    pub(crate) interface: String,
    /// New file for the capture, in the pcapng format; - for standard output, which must not be a
    /// terminal.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub(crate) output: PathBuf,
    /// Capture all frames, not only aggregation packets.
    #[arg(long)]
    pub(crate) all: bool,
    /// End after this number of frames.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// End after this time. Without it, the capture goes on until Ctrl-C.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seconds: Option<u32>,
}

/// Most threads of a switch.
const MOST_THREADS: i64 = 64;

#[derive(Debug, Args)]
pub(crate) struct SwitchArgs {
    /// P4 program to start with; without one, the switch waits for a controller to push one.
    pub(crate) program: Option<PathBuf>,
    /// A port and its interface, such as 1@eth0; repeat for each port.
    #[arg(long = "port", value_name = "N@IFACE", required = true)]
    pub(crate) ports: Vec<String>,
    /// How to send and receive frames on the ports. With `xdp` the switch takes every frame that
    /// arrives there; the host's own network stack gets none.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) io: Io,
    /// Listening address of P4Runtime: ADDRESS:PORT, or unix:PATH.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9559")]
    pub(crate) p4runtime: String,
    /// Certificate of the P4Runtime server, as a PEM file; encrypts connections (TLS).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's key.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Accept only controllers with a certificate from one of these roots (mutual TLS).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Name in the certificate of a controller, so that other holders of certificates from these roots do
    /// not get in; repeat for each.
    #[arg(long, value_name = "NAME", requires = "tls_client_ca")]
    pub(crate) tls_client_name: Vec<String>,
    /// P4Runtime device ID.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) device_id: u64,
    /// Name of the switch in its metrics. Default: its device ID.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Packets per egress queue.
    #[arg(long, value_name = "PACKETS", default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) queue_capacity: u32,
    /// Execution engine. All produce the same packets.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) engine: EngineKind,
    /// Threads, each with a part of the program's registers; with `--io packet` or `gso`.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=MOST_THREADS))]
    pub(crate) threads: u16,
    /// Settings for TNA programs that P4Runtime cannot express, in a file of STF commands: metadata of
    /// ports, exclusion ids, the packet generator.
    #[arg(long, value_name = "FILE")]
    pub(crate) tofino: Option<PathBuf>,
    /// Compile-time constant of the program, such as VALUES=256.
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    pub(crate) defines: Vec<String>,
    /// Seed of the faults of `--faults`, replacing the file's.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Inject the faults that this job file gives the links of the switch with that name.
    #[arg(long, value_name = "JOB.toml:SWITCH")]
    pub(crate) faults: Option<OsString>,
    /// Explain packets that meet these conditions, such as `udp.dst == 9559 && port == 1`; `all` for
    /// all packets.
    #[arg(long, value_name = "FILTER")]
    pub(crate) trace: Option<String>,
    /// File for the traces, instead of standard output: JSON, one document per line, if it ends in
    /// .json; one picture per packet, with its number in the name, if it ends in .svg; otherwise text.
    #[arg(long, value_name = "FILE", requires = "trace")]
    pub(crate) trace_out: Option<PathBuf>,
    /// Most packets to explain.
    #[arg(long, value_name = "N", default_value_t = 10, requires = "trace",
        value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) trace_count: u64,
    /// Most packets to explain per second.
    #[arg(long, value_name = "N", default_value_t = 10, requires = "trace",
        value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) trace_rate: u64,
    /// Print only the final counters, as JSON.
    #[arg(long, hide = true)]
    pub(crate) json_statistics: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(crate) endpoint: tributary_endpoint::Args,
    /// Name of the job in the controller's file, or number (ID) of any job.
    #[arg(long, value_name = "NAME", env = "TRIBUTARY_JOB")]
    pub(crate) job: String,
    /// The key that workers of the job must show, in hexadecimal digits. Other users see command lines: rather set the
    /// variable.
    #[arg(long, value_name = "KEY", env = "TRIBUTARY_JOB_KEY", hide_env_values = true)]
    pub(crate) job_key: Option<Token>,
    /// Index of the worker, from 0, in place of the one on this host.
    #[arg(long, value_name = "N")]
    pub(crate) worker: Option<u16>,
    /// Name of this host in the network, if the address of its interface does not tell.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// Seed of random values in place of the job's, the same for all its workers: so that each run of a test sums others.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    #[command(flatten)]
    pub(crate) endpoint: tributary_endpoint::Args,
    /// Name of this host in the network, if the address of its interface does not tell.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Make the figures of ESA's paper, with the paper's numbers.
    Esa(crate::commands::sim::EsaArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ControllerTask {
    /// Push the program, forwarding and jobs into the switches once, and leave them there.
    Push(PushArgs),
}

/// The switches, their kind, and their program.
#[derive(Debug, Args)]
pub(crate) struct SwitchesArgs {
    /// Address of P4Runtime of a switch in the job file, such as s1=10.0.0.1:9559 or
    /// s1=unix:/run/s1.sock; repeat for each switch.
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
    /// numbers (docs/tofino-deployment.md).
    #[arg(long, value_name = "FILE")]
    pub(crate) ports: Option<PathBuf>,
    /// Roots of the switches' certificates, as a PEM file; encrypts connections (TLS).
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Our certificate, for switches that require one (mutual TLS).
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's key.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Name in the switches' certificates, if it differs from the host of their addresses.
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    pub(crate) tls_name: Option<String>,
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

#[derive(Debug, Args)]
pub(crate) struct CableArgs {
    /// The interfaces: frames that arrive on one leave by the other.
    #[arg(long, num_args = 2, value_names = ["IFACE", "IFACE"], required = true)]
    pub(crate) between: Vec<String>,
    /// The link, by the names of its ends: the first interface leads to the first one. Without it,
    /// frames are lost only if an interface has no room.
    #[arg(long, value_name = "JOB.toml:NAME:NAME")]
    pub(crate) faults: Option<OsString>,
    /// Seed of the faults, replacing the file's.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct NetworkArgs {
    /// The job file.
    pub(crate) job_file: PathBuf,
    /// Print JSON.
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
    /// File that remembers the jobs and their runs. If this process is killed or ended and started again
    /// with it, the jobs go on. Without it, they are removed.
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
    /// Listening address for endpoints, which take part in jobs, and for clients, which admit and release others:
    /// ADDRESS:PORT or unix:PATH (proto/README.md). When all workers of a job have come, a new run begins.
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<Listen>,
    /// Leave the jobs of the file to clients, which admit and release them.
    #[arg(long, requires = "listen")]
    pub(crate) on_demand: bool,
    #[command(flatten)]
    pub(crate) door: DoorArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// The job file.
    pub(crate) job_file: PathBuf,
    #[command(flatten)]
    pub(crate) switches: SwitchesArgs,
    /// Push only the program and forwarding; jobs in the switches are removed.
    #[arg(long)]
    pub(crate) no_jobs: bool,
    /// Print everything that would be pushed, without connecting to a switch.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also write the switches' device configuration and its P4Info.
    #[arg(long, value_name = "DIR")]
    pub(crate) save: Option<PathBuf>,
    /// Also write Stratum's chassis configuration of each switch, as NAME.pb.txt. Needs --ports.
    #[arg(long, value_name = "DIR", requires = "ports")]
    pub(crate) chassis_config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum P4Command {
    /// Report all errors of a program.
    Check(CheckArgs),
    /// Compile all programs of a folder, beside p4c if it is installed: counts, and the list of
    /// disagreements.
    Corpus(CorpusArgs),
    /// Format files: indentation and white space. Comments and line breaks stay.
    Fmt(FmtArgs),
    /// Write the program's P4Info.
    Info(InfoArgs),
    /// Draw the control flow of the program's parsers and controls, one file per block.
    Graph(GraphArgs),
    /// Run a packet test in the STF format of p4c's test suite: prints PASS, or FAIL and the
    /// reason.
    Stf(StfArgs),
    /// Generate packet tests that cover a program, in the STF format, and report what they reach.
    Test(TestArgs),
    /// Explain a packet: everything that the program and the switch do to it, as a tree.
    Trace(TraceArgs),
    /// Generate a dissector in Lua, with which Wireshark and tshark show the headers that the
    /// program's parser extracts.
    Dissector(DissectorArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) program: P4Args,
    /// One line for each error: FILE:LINE:COLUMN: error: MESSAGE, as editors read it.
    #[arg(long)]
    pub(crate) short: bool,
    /// Print the program after this pass: tokens, syntax, typed, ir, code. `list` says what each
    /// one shows.
    #[arg(long, value_name = "PASS")]
    pub(crate) dump: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct FmtArgs {
    /// The files, which are changed in place.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Change nothing: list the files that would change, and fail if there are any.
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CorpusArgs {
    /// Folder with the programs.
    pub(crate) dir: PathBuf,
    /// Take the programs for this architecture only.
    #[arg(long, value_enum, default_value_t = Dialect::V1model)]
    pub(crate) arch: Dialect,
    /// Compiler to compare with. Default: p4c-bm2-ss or p4test, if it is on the PATH.
    #[arg(long, value_name = "NAME")]
    pub(crate) compiler: Option<String>,
    /// Maximum time of each compiler for each program, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) time: u64,
    /// Directory to search for included files; repeat for each directory.
    #[arg(short = 'I', value_name = "DIR")]
    pub(crate) include: Vec<PathBuf>,
    /// Compile-time constant, such as VALUES=256.
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    pub(crate) defines: Vec<String>,
}

/// Architectures of programs in a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Dialect {
    V1model,
    Tna,
    Psa,
    /// Every P4 file.
    Any,
}

impl Dialect {
    /// Its name in a sentence.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V1model => "v1model",
            Self::Tna => "tna",
            Self::Psa => "psa",
            Self::Any => "any architecture",
        }
    }

    /// The files that declare it.
    pub(crate) fn declarations(self) -> &'static [&'static str] {
        match self {
            Self::V1model => &["v1model.p4"],
            Self::Tna => &["tna.p4"],
            Self::Psa => &["psa.p4", "bmv2/psa.p4", "dpdk/psa.p4"],
            Self::Any => &[],
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct DissectorArgs {
    #[command(flatten)]
    pub(crate) program: P4Args,
    /// Write to a file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Name of the protocol in display filters. Default: `p4_` and the file's name.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Dissect the payloads of this UDP port. Default: the ports at which the program's parser goes on
    /// to more headers; without any, whole frames.
    #[arg(long, value_name = "UDP_PORT", group = "place")]
    pub(crate) port: Option<u16>,
    /// Dissect the payloads of this EtherType, such as 0x88b5.
    #[arg(long, value_name = "N", group = "place", value_parser = ether_type)]
    pub(crate) ethertype: Option<u16>,
    /// Dissect whole Ethernet frames, instead of Wireshark's own dissectors.
    #[arg(long, group = "place")]
    pub(crate) frames: bool,
}

/// An EtherType, in decimal or in hexadecimal after `0x`.
fn ether_type(text: &str) -> Result<u16, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| "write a number up to 65535, or 0x and up to four hexadecimal digits".into())
}

#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub(crate) program: P4Args,
    /// Write to a file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Encoded protobuf instead of protobuf text.
    #[arg(long, requires = "out")]
    pub(crate) binary: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    #[command(flatten)]
    pub(crate) program: P4Args,
    /// Directory for the files; created if missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Graphviz's language instead of SVG.
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
pub(crate) struct TestArgs {
    #[command(flatten)]
    pub(crate) program: P4Args,
    /// Directory for the tests, coverage.txt and coverage.json; created if missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Seed of all random choices. The same seed gives the same tests.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Stop searching after this many minutes; p4testgen is stopped after as many.
    #[arg(long, default_value_t = 1.0, value_parser = minutes)]
    pub(crate) minutes: f64,
    /// Maximum number of tests. Those that reach most come first.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = whole(1..=1_000_000))]
    pub(crate) max_tests: u64,
    /// Maximum number of packets in a test.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = whole(1..=64))]
    pub(crate) packets: u64,
    /// Also run the tests on this many faulty variants of the program, and report how many fail.
    #[arg(long, value_name = "N", value_parser = whole(1..=1_000_000))]
    pub(crate) mutants: Option<u64>,
    /// Also let p4testgen of p4c, from the PATH, generate up to this many tests, and run them.
    #[arg(long, value_name = "N", requires = "out", value_parser = whole(1..=1_000_000))]
    pub(crate) with_p4testgen: Option<u64>,
    /// Report what these tests reach instead of generating any.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["mutants", "with_p4testgen"])]
    pub(crate) measure: Vec<PathBuf>,
}

/// A number within bounds.
fn whole(range: std::ops::RangeInclusive<u64>) -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(range)
}

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    pub(crate) program: P4Args,
    /// The packet's bytes in hexadecimal digits; blanks are ignored.
    #[arg(long, value_name = "HEX")]
    pub(crate) packet: String,
    /// The port by which it arrives.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) port: u16,
    /// Entries, groups and earlier packets, as commands of a packet test (STF); what the test expects
    /// is ignored.
    #[arg(long, value_name = "FILE")]
    pub(crate) entries: Option<PathBuf>,
    /// Show all possible outcomes: each member of a group, and, without --entries, each action of
    /// each table that the control plane fills.
    #[arg(long)]
    pub(crate) all_outcomes: bool,
    /// Table whose entries are unknown: each of its actions is a possible outcome. Repeat for each.
    #[arg(long, value_name = "TABLE")]
    pub(crate) unknown: Vec<String>,
    /// Most outcomes to show.
    #[arg(long, value_name = "N", default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) max_outcomes: u32,
    /// Format of the tree.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: TraceFormat,
    /// Write to a file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Do not collapse repeated lines that differ only in a value. JSON never collapses them.
    #[arg(long)]
    pub(crate) full: bool,
}

/// How to show a trace.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub(crate) enum TraceFormat {
    /// A tree of lines, with colours in a terminal.
    #[default]
    Text,
    /// A document for other programs.
    Json,
    /// A picture.
    Svg,
}

#[derive(Debug, Args)]
pub(crate) struct P4Args {
    /// The program.
    pub(crate) file: PathBuf,
    /// Directory to search for included files; repeat for each directory.
    #[arg(short = 'I', value_name = "DIR")]
    pub(crate) include: Vec<PathBuf>,
    /// Compile-time constant, such as VALUES=256.
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    pub(crate) defines: Vec<String>,
}
