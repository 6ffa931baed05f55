//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tributary_access::Listen;
use tributary_access::args::{DoorArgs, IdentityArgs};
use tributary_base::program::{Completions, ManualPages};
use tributary_controller::targets::Kind as Target;
use tributary_dataplane::EngineKind;
use tributary_netio::device::Kind as Io;
use tributary_p4::Architecture;
use tributary_run::fabric::{CrossConnectKind, Kind as Fabric};
use tributary_wire::channel::Token;

use crate::commands::frames::Chosen;
use crate::commands::job::JobCommand;
use crate::commands::place::PlaceCommand;
use crate::commands::testbed::TestbedArgs;
use crate::options::{ProcessArgs, SwitchesArgs};

/// Sums the gradients of distributed training inside the network.
#[derive(Debug, Parser)]
#[command(
    version,
    arg_required_else_help = true,
    after_help = concat!(
        "Example:\n  tributary run examples/digits.toml\n\n",
        tributary_base::exit_status!()
    )
)]
pub(crate) struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a job file: start its network, workers and parameter servers, check every sum, report.
    #[command(after_help = "Examples:\n\
        \x20 tributary run examples/digits.toml\n\
        \x20 tributary run examples/esa-lossy.toml --fabric sim --frames frames.svg")]
    Run(RunArgs),
    /// Run a P4 program as a switch over network interfaces, controlled by P4Runtime.
    #[command(after_help = "Example:\n\
        \x20 tributary switch --port 1@eth1 --port 2@eth2 --p4runtime 10.9.0.1:9559")]
    Switch(SwitchArgs),
    /// Run a network of P4 programs in network namespaces, or test it in virtual time.
    #[command(after_help = "Examples:\n\
        \x20 tributary testbed examples/testbed/net.toml --test examples/testbed/test.stf\n\
        \x20 tributary testbed examples/testbed/net.toml")]
    Testbed(TestbedArgs),
    /// Run one worker of a job on this host.
    #[command(after_help = "Example:\n\
        \x20 tributary worker --controller 10.9.0.2:29812 --job digits --interface eth0")]
    Worker(WorkerArgs),
    /// Run the parameter servers of all jobs that have one on this host.
    #[command(after_help = "Example:\n  tributary ps --controller 10.9.0.2:29812 --interface eth0")]
    Ps(PsArgs),
    /// Run the reminder agent for ESA jobs whose agent has its own host.
    #[command(after_help = "Example:\n\
        \x20 tributary reminder --controller 10.9.0.2:29812 --interface eth0")]
    Reminder(PsArgs),
    /// Connect two interfaces of this host, with the faults of a link of a job file.
    #[command(after_help = "Example:\n\
        \x20 tributary cable --between eth1 eth2 --faults job.toml:w1:s1")]
    Cable(CableArgs),
    /// Capture our packets on a network interface, for Wireshark.
    #[command(after_help = "Example:\n\
        \x20 tributary capture --interface eth0 --out eth0.pcapng --seconds 10")]
    Capture(CaptureArgs),
    /// Show running switches and their jobs, or a recording, on a web page or in the terminal.
    #[command(after_help = "Example:\n\
        \x20 tributary watch --switch s1=10.9.0.1:9559 --controller 10.9.0.2:29812 --terminal")]
    Watch(crate::commands::watch::WatchArgs),
    /// Emulate an optical cross-connect between interfaces of this host, or control one.
    #[command(after_help = "Example:\n\
        \x20 tributary crossconnect --port 1@eth1 --port 2@eth2 --outage 20ms")]
    Crossconnect(crate::commands::crossconnect::CrossconnectArgs),
    /// Show the network of a job file: hosts, addresses, switch ports, and processes.
    #[command(after_help = "Example:\n  tributary network examples/two-racks.toml")]
    Network(NetworkArgs),
    /// Program switches for a job file, and clean them up at the end.
    #[command(after_help = "Example:\n\
        \x20 tributary controller job.toml --switch s1=10.9.0.1:9559 \\\n\
        \x20     --listen 10.9.0.2:29812 --identity keys/controller")]
    Controller(Box<ControllerArgs>),
    /// Read and write a switch over P4Runtime: tables, counters, registers, packets.
    #[command(after_help = "Examples:\n\
        \x20 tributary p4runtime 127.0.0.1:9559\n\
        \x20 tributary p4runtime 127.0.0.1:9559 tables\n\
        \x20 tributary p4runtime 127.0.0.1:9559 add ipv4_lpm dst=10.0.0.0/8 forward port=1\n\
        \x20 tributary p4runtime 127.0.0.1:9559 --json dump ipv4_lpm\n\
        \x20 tributary p4runtime 127.0.0.1:9559 help add\n\n\
        Without a command: a shell in a terminal; otherwise the commands in standard input, one per\n\
        line (docs/reference/p4runtime-client.md)")]
    P4runtime(crate::commands::p4runtime::P4runtimeArgs),
    /// Make certificates for the servers and clients of a testbed.
    #[command(after_help = "Example:\n  tributary certs keys controller=10.9.0.2 w1 w2")]
    Certs(crate::commands::certs::CertsArgs),
    /// Check this host and its switches for problems that prevent jobs from running, with advice.
    #[command(after_help = "Example:\n\
        \x20 tributary doctor --job-file job.toml --interface eth0 --switch s1=10.9.0.1:9559")]
    Doctor(crate::commands::doctor::Args),
    /// Submit, list, watch, change and cancel jobs of a running placement manager or controller.
    #[command(subcommand, after_help = "Example:\n  tributary job list")]
    Job(JobCommand),
    /// Place training jobs on servers: run the manager, its agents, or Slurm's placer.
    #[command(subcommand, after_help = "Example:\n  tributary place serve site.toml")]
    Place(Box<PlaceCommand>),
    /// Schedule jobs, aggregation in switches and light paths together (P4INC-AOI).
    #[command(
        subcommand,
        after_help = "Example:\n\
        \x20 tributary optical serve units.toml --switch s1=10.9.0.1:9559 \\\n\
        \x20     --cross-connect emulated:127.0.0.1:9642"
    )]
    Optical(Box<crate::commands::optical::OpticalCommand>),
    /// Print a script that completes this command in a shell.
    #[command(after_help = "Example:\n  tributary completions bash")]
    Completions(Completions),
    /// Write the manual pages, for packages.
    #[command(hide = true, after_help = "Example:\n  tributary man /usr/local/share/man/man1")]
    Man(ManualPages),
    /// Check, test and trace P4 programs: runs `tributary-p4`.
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n\
        \x20 tributary p4 check p4src/v1model/atp.p4"
    )]
    P4(Elsewhere),
    /// Measure, simulate, and let parts fail at random: runs `tributary-lab`.
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n\
        \x20 tributary lab bench allreduce --quick"
    )]
    Lab(Elsewhere),
}

/// The command line of another program.
#[derive(Debug, Args)]
pub(crate) struct Elsewhere {
    /// Arguments of that program.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub(crate) arguments: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The job file (docs/start/job-files.md).
    pub(crate) job_file: PathBuf,
    /// How to run it.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) fabric: Fabric,
    /// Kind of the switches: BMv2 needs `--fabric netns`.
    ///
    /// Use `tributary controller` for running switches, such as a Tofino.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) target: Target,
    /// What joins the units of a job file: Open vSwitch needs `--fabric netns`.
    ///
    /// Use `tributary optical serve` for an optical cross-connect (docs/operate/cross-connects.md).
    #[arg(long, value_enum, value_name = "KIND", default_value_t)]
    pub(crate) cross_connect: CrossConnectKind,
    /// Architecture of the program: v1model, or tna, which only the embedded switch runs here.
    #[arg(long, value_name = "ARCH", default_value_t = Architecture::V1model)]
    pub(crate) arch: Architecture,
    /// Seed of faults and random workloads, replacing the file's.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Also write the report as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json_out: Option<PathBuf>,
    /// Also write every frame and message, for the fabric `sim`.
    ///
    /// As a sequence chart if the name ends in .svg, the frames alone for Wireshark if it ends in .pcapng, otherwise
    /// as text.
    #[arg(long, value_name = "FILE")]
    pub(crate) frames: Option<PathBuf>,
    /// Write only some of them, as in `job=a,at=w1,from=1ms,to=2ms`.
    ///
    /// Of a job, at a host or switch, in a part of the virtual time. A chart has at most 1000.
    #[arg(long, value_name = "CONDITIONS", requires = "frames")]
    pub(crate) frames_of: Option<Chosen>,
    /// Capture the frames at both ends of all links, for Wireshark.
    ///
    /// They are in a new file in this directory with the job file's name and .pcapng. The directory is created if
    /// missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) capture: Option<PathBuf>,
    /// Show the run on a web page, at this address or a free port.
    ///
    /// The address is one of this host. The page stays until Ctrl-C (docs/operate/watch.md).
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
    /// How all parts send and receive frames; for the fabric `netns`.
    ///
    /// Default: UDP sockets at the hosts, with many datagrams in one buffer (`udp-gso`), and `packet` with BMv2.
    #[arg(long, value_enum)]
    pub(crate) io: Option<Io>,
    /// Execution engine of embedded switches. All produce the same packets.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) engine: EngineKind,
    /// Give each switch a core of its own, for the fabric `netns`.
    ///
    /// Hosts have the other cores. This is faster where there are more processes than cores.
    #[arg(long)]
    pub(crate) pin: bool,
    /// Threads of each embedded switch, each with its part of the aggregators.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=MOST_THREADS))]
    pub(crate) switch_threads: u16,
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CaptureArgs {
    /// The network interface. It is put into promiscuous mode.
    #[arg(long, value_name = "IFACE")]
    pub(crate) interface: String,
    /// New file for the capture, in the pcapng format; - for standard output, which must not be a
    /// terminal.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub(crate) out: PathBuf,
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
    /// How to send and receive frames on the ports.
    ///
    /// With `xdp` the switch takes every frame that arrives there; the host's own network stack gets none.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) io: Io,
    /// Listening address of P4Runtime: ADDRESS:PORT, or unix:PATH.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9559")]
    pub(crate) p4runtime: String,
    #[command(flatten)]
    pub(crate) identity: IdentityArgs,
    /// Name in the certificate of a controller, so that other holders of certificates from the same roots do
    /// not get in; repeat for each.
    #[arg(long, value_name = "NAME", requires = "identity", conflicts_with = "allow_anyone")]
    pub(crate) client_name: Vec<String>,
    /// Encrypt connections, and accept controllers without a certificate, too.
    #[arg(long, requires = "identity")]
    pub(crate) allow_anyone: bool,
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
    /// Queues of each port (v1model): a packet joins that of its `standard_metadata.priority`, from 0, and higher
    /// ones leave first. One whose queue is missing is dropped.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) priority_queues: u8,
    /// Rate at which a port sends at most, such as 2=10Mb/s; repeat for each port.
    #[arg(long = "rate", value_name = "N=RATE")]
    pub(crate) rates: Vec<String>,
    /// Capture the frames of all ports in a new file, for Wireshark.
    #[arg(long, value_name = "FILE.pcapng")]
    pub(crate) capture: Option<PathBuf>,
    /// Execution engine. All produce the same packets.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) engine: EngineKind,
    /// Threads, each with a part of the program's registers; with `--io packet` or `gso`.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=MOST_THREADS))]
    pub(crate) threads: u16,
    /// Settings for TNA programs that P4Runtime cannot express, in a file of STF commands: metadata and
    /// loopback of ports, exclusion ids, deflection, the packet generator.
    #[arg(long, value_name = "FILE")]
    pub(crate) tofino: Option<PathBuf>,
    /// STF commands to execute when the program starts, such as entries of its tables (docs/reference/stf.md).
    #[arg(long, value_name = "FILE", requires = "program")]
    pub(crate) entries: Option<PathBuf>,
    /// Compile-time constant of the program, such as VALUES=256.
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    pub(crate) defines: Vec<String>,
    /// Directory to search for files that the program includes; repeat for each directory.
    #[arg(short = 'I', value_name = "DIR")]
    pub(crate) include: Vec<PathBuf>,
    /// Seed of the faults of `--faults`, replacing the file's.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Inject the faults that this job file gives the links of the switch with that name.
    #[arg(long, value_name = "JOB.toml:SWITCH")]
    pub(crate) faults: Option<OsString>,
    /// Explain packets that meet these conditions, such as `udp.dst == 9559 && port == 1`; `all` for
    /// all packets.
    #[arg(long, value_name = "FILTER")]
    pub(crate) explain: Option<String>,
    /// File for the explanations, instead of standard output: JSON, one document per line, if it ends in
    /// .json; otherwise text.
    #[arg(long, value_name = "FILE", requires = "explain")]
    pub(crate) explain_out: Option<PathBuf>,
    /// Most packets to explain.
    #[arg(long, value_name = "N", default_value_t = 10, requires = "explain",
        value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) explain_count: u64,
    /// Most packets to explain per second.
    #[arg(long, value_name = "N", default_value_t = 10, requires = "explain",
        value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) explain_rate: u64,
    /// Print only counters, as JSON: those of the ports again and again, and the final ones of the queues.
    #[arg(long, hide = true)]
    pub(crate) json_statistics: bool,
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(crate) endpoint: tributary_endpoint::Args,
    /// Name of the job in the controller's file, or number (ID) of any job.
    #[arg(long, value_name = "NAME", env = "TRIBUTARY_JOB")]
    pub(crate) job: String,
    /// The key that workers of the job must show, in hexadecimal digits.
    ///
    /// Other users see command lines: rather set the variable.
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
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    #[command(flatten)]
    pub(crate) endpoint: tributary_endpoint::Args,
    /// Name of this host in the network, if the address of its interface does not tell.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ControllerTask {
    /// Push the program, forwarding and jobs into the switches once, and leave them there.
    #[command(after_help = "Example:\n\
        \x20 tributary controller push job.toml --switch s1=10.9.0.1:9559")]
    Push(PushArgs),
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
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
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
    /// File that remembers the jobs and their runs.
    ///
    /// If this process is killed or ended and started again with it, the jobs go on. Without it, they are removed.
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
    /// Listening address for endpoints, which take part in jobs, and for clients, which admit and release others:
    /// ADDRESS:PORT or unix:PATH (proto/README.md).
    ///
    /// When all workers of a job have come, a new run begins.
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<Listen>,
    /// Leave the jobs of the file to clients, which admit and release them.
    #[arg(long, requires = "listen")]
    pub(crate) on_demand: bool,
    #[command(flatten)]
    pub(crate) door: DoorArgs,
    #[command(flatten)]
    pub(crate) process: ProcessArgs,
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
    /// Also write Stratum's chassis configuration of each switch, as NAME.pb.txt.
    ///
    /// Needs --ports.
    #[arg(long, value_name = "DIR", requires = "ports")]
    pub(crate) chassis_config: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Commands with more options than fit on a screen.
    const LONG: &[&str] = &[
        "tributary switch",
        "tributary controller",
        "tributary controller push",
        "tributary optical serve",
        "tributary place serve",
        "tributary job submit",
    ];

    #[test]
    fn help_has_examples_and_fits_on_a_screen() {
        let flaws = tributary_base::program::flaws(&Cli::command(), LONG);
        assert!(flaws.is_empty(), "{flaws:#?}");
    }
}
