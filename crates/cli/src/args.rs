//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tributary_controller::server::Listen;
use tributary_dataplane::EngineKind;
use tributary_netio::device::Kind;
use tributary_p4::Architecture;

use crate::commands::place::PlaceArgs;
use crate::runs::Given;

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
    Doctor(DoctorArgs),
    /// Check P4 programs and describe them.
    #[command(subcommand)]
    P4(P4Command),
    /// Decide where training jobs go: compare policies over a trace of jobs, or be the manager that places
    /// them on servers.
    Place(Box<PlaceArgs>),
    /// Measure the engine, all-reduce, fixed-point conversion, packet I/O and the protocols side by
    /// side on this machine.
    Bench(BenchArgs),
}

/// How the parts of a job run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fabric {
    /// Threads of one process: needs nothing.
    Memory,
    /// Processes in network namespaces, over raw sockets: needs root or user namespaces.
    Netns,
}

/// What the switches are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SwitchKind {
    /// The embedded switch, which executes the P4 source.
    #[default]
    Embedded,
    /// BMv2's `simple_switch_grpc`, for which p4c compiles it: slow, so windows are small and
    /// timeouts long.
    Bmv2,
}

/// How raw frames go in and out of network interfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Io {
    /// AF_PACKET sockets: works wherever raw sockets do.
    #[default]
    Packet,
    /// AF_XDP sockets, with an XDP program on the interface: needs root.
    Xdp,
}

impl std::fmt::Display for Io {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Kind::from(*self).fmt(f)
    }
}

impl From<Io> for Kind {
    fn from(io: Io) -> Self {
        match io {
            Io::Packet => Self::Packet,
            Io::Xdp => Self::Xdp,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The job file (docs/job-files.md).
    pub(crate) job: PathBuf,
    /// How to run it.
    #[arg(long, value_enum, default_value_t = Fabric::Memory)]
    pub(crate) fabric: Fabric,
    /// What the switches are: BMv2 needs `--fabric netns`.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) switch: SwitchKind,
    /// Architecture of the program: v1model, or tna, which only the embedded switch runs here.
    #[arg(long, value_name = "ARCH", default_value_t = Architecture::V1model)]
    pub(crate) arch: Architecture,
    /// Seed of faults and random workloads, in place of the file's.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Also write the report as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// P4 program to run on the switches, in place of the built-in one.
    #[arg(long, value_name = "FILE")]
    pub(crate) p4: Option<PathBuf>,
    /// How all parts send and receive; for the fabric `netns`.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) io: Io,
    /// What runs the program in embedded switches. All give the same packets.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) engine: Engine,
}

/// What runs a P4 program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Engine {
    /// The interpreter, and machine code as soon as there is some.
    #[default]
    Automatic,
    /// The interpreter only.
    Interpreter,
    /// Machine code from the first packet on.
    Compiled,
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.to_possible_value().expect("no engine is hidden");
        f.write_str(value.get_name())
    }
}

impl From<Engine> for EngineKind {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Automatic => Self::Automatic,
            Engine::Interpreter => Self::Interpreter,
            Engine::Compiled => Self::Compiled,
        }
    }
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
    pub(crate) engine: Engine,
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
pub(crate) struct EndpointArgs {
    /// The job file.
    pub(crate) job_file: PathBuf,
    /// Network interface towards the switch.
    #[arg(long, value_name = "IFACE")]
    pub(crate) interface: String,
    /// How our packets go in and out of the interface. All others stay the kernel's.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) io: Io,
    /// Seed in place of the file's.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// What the endpoints of ESA jobs show each other: the file that `tributary controller --tokens`
    /// wrote.
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// The controller, which names the run of the job: where `tributary controller --listen` serves,
    /// HOST:PORT or unix:PATH. A worker waits until all workers of its job have asked.
    #[arg(long, value_name = "ADDR")]
    pub(crate) controller: Option<String>,
    /// The run itself, as the controller printed it, in place of --controller; with several jobs in the
    /// file JOB=N, once for each. A worker may be started only once with an epoch.
    #[arg(long, value_name = "N", conflicts_with = "controller")]
    pub(crate) epoch: Vec<Given>,
    /// What the switches are; the same for all processes of a job file.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) target: SwitchKind,
    /// Architecture of the switches' program, v1model or tna; the same for all processes of a job file.
    #[arg(long, value_name = "ARCH", default_value_t = Architecture::V1model)]
    pub(crate) arch: Architecture,
    /// Print events as JSON, one a line, instead of text.
    #[arg(long)]
    pub(crate) json_events: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(crate) endpoint: EndpointArgs,
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
    pub(crate) endpoint: EndpointArgs,
    /// Name of the host in the job file.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ControllerTask {
    /// Push the program, forwarding and jobs into the switches once, and leave them there.
    Push(PushArgs),
}

/// A kind of switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetKind {
    /// `tributary switch`: takes the P4 source.
    Embedded,
    /// BMv2's simple_switch_grpc: takes the JSON that p4c-bm2-ss makes.
    Bmv2,
    /// A Tofino under Stratum: takes what p4c-barefoot and bfas make, in one message.
    Stratum,
}

impl From<TargetKind> for SwitchKind {
    fn from(kind: TargetKind) -> Self {
        match kind {
            TargetKind::Bmv2 => Self::Bmv2,
            // A Tofino asks no patience of endpoints.
            TargetKind::Embedded | TargetKind::Stratum => Self::Embedded,
        }
    }
}

/// Which switches, what they are, and what they are to run.
#[derive(Debug, Args)]
pub(crate) struct SwitchesArgs {
    /// Where a switch of the job file listens for P4Runtime, such as s1=10.0.0.1:9559 or
    /// s1=unix:/run/s1.sock. Give it once a switch.
    #[arg(long = "switch", value_name = "NAME=ADDR")]
    pub(crate) switches: Vec<String>,
    /// What the switches are.
    #[arg(long, value_enum, default_value_t = TargetKind::Embedded)]
    pub(crate) target: TargetKind,
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

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The job file that is to run: what is found is compared with it.
    #[arg(long, value_name = "FILE")]
    pub(crate) job: Option<PathBuf>,
    /// Name of this host in the job file; otherwise it is told by its MAC address.
    #[arg(long, value_name = "NAME", requires = "job")]
    pub(crate) host: Option<String>,
    /// Network interface to look at. May be given several times.
    #[arg(long, value_name = "IFACE")]
    pub(crate) interface: Vec<String>,
    /// Where a switch listens for P4Runtime: HOST:PORT, unix:PATH, or NAME= and one of them. May be
    /// given several times.
    #[arg(long = "switch", value_name = "ADDR")]
    pub(crate) switches: Vec<String>,
    /// What the switches are.
    #[arg(long, value_enum, default_value_t = TargetKind::Embedded)]
    pub(crate) target: TargetKind,
    /// What a compiler made already, as for `tributary controller`.
    #[arg(long, value_name = "PATH")]
    pub(crate) bundle: Option<PathBuf>,
    /// P4Runtime device ID of the switches.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) device_id: u64,
    /// Print the checks as JSON.
    #[arg(long)]
    pub(crate) json: bool,
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

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Benchmark {
    /// Packets a second of the engine alone, by values a packet.
    Engine,
    /// The engine against its goals: interpreter and machine code side by side, a plain loop over the
    /// same registers, look-ups by match kind and number of entries, the time from source to first
    /// packet, and BMv2 where it is installed.
    Switch,
    /// Goodput of all-reduce, by workers and tensor size.
    Allreduce,
    /// BMv2 beside the embedded switch: packets, goodput and processor time of one all-reduce, in
    /// network namespaces. Only if it is named: it needs BMv2 and p4c.
    Bmv2,
    /// Fixed-point conversion beside memcpy.
    Fixed,
    /// ESA beside ATP: throughput of jobs that share a pool too small for them, over tensor sizes and
    /// numbers of jobs (figure 7 of ESA's paper).
    Esa,
    /// AF_PACKET beside AF_XDP, and the switch beside a plain forwarder: packets and processor time, by
    /// the packets' size.
    Io,
    /// P4INC, ATP, ESA and SwitchML: throughput of one to eight local jobs, with the same bytes of
    /// switch memory.
    Protocols,
    /// What loss costs each protocol, in virtual time: the part of the goodput that is left at 0.1 to 20 %,
    /// with both rules of recovery. Then the same jobs on each `--fabric` of this machine.
    Loss,
}

/// A P4 program of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Program {
    /// First come, first served.
    Atp,
    /// Preemptive, with priorities.
    Esa,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// What to measure; everything if none is named.
    #[arg(value_enum)]
    pub(crate) what: Vec<Benchmark>,
    /// Fabrics to measure all-reduce, sharing and loss on.
    #[arg(long, value_enum, default_values_t = [Fabric::Memory])]
    pub(crate) fabric: Vec<Fabric>,
    /// Repetitions of each measurement; the spread is printed.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) repeat: u32,
    /// Smaller tensors, and fewer numbers of workers, jobs and values.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Programs that the engine runs.
    #[arg(long, value_enum, default_values_t = [Program::Atp, Program::Esa])]
    pub(crate) program: Vec<Program>,
    /// Of `esa` and `protocols`: longest random pause of a worker before each tensor, in microseconds.
    #[arg(long, value_name = "US", default_value_t = 300)]
    pub(crate) jitter: u32,
    /// Of `esa`: aggregators that all jobs share.
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) pool: u32,
    /// Of `protocols`: memory of the switch for aggregators, in KiB. With 133, eight jobs of P4INC or
    /// SwitchML have 32 slots each.
    #[arg(long, value_name = "KIB", default_value_t = 133)]
    pub(crate) memory: u32,
    /// Of `loss`, on fabrics: loops that keep processors busy meanwhile.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) busy: u32,
    /// Of `esa`, `loss`, `protocols` and `switch`: also write every measurement as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Of `esa`, `loss` and `protocols`: also draw the plots, as SVG into this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
}
