//! `tributary job`: clients of a running network.
//!
//! `manager` asks the placement manager, and `controller` the controller of the switches.

mod controller;
mod logs;
pub(crate) mod manager;
mod show;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use tributary_access::args::KeyArgs;
use tributary_access::listen::standard;
use tributary_base::document;
use tributary_wire::channel::Token;

#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Submit a job to the placement manager, or admit one at a controller.
    #[command(after_help = "Examples:\n\
        \x20 tributary job submit --name vgg --gpus 4 --model vgg16 --iterations 100\n\
        \x20 tributary job submit --gpus 4 --wait -- torchrun train.py\n\
        \x20 tributary job submit --controller 10.9.0.2:29813 --id 1 --segment 64")]
    Submit(Box<SubmitArgs>),
    /// Show the jobs of the placement manager and its servers, or those of a controller and the memory of switches.
    #[command(after_help = "Examples:\n\
        \x20 tributary job list\n\
        \x20 tributary job list --controller 10.9.0.2:29813 --json")]
    List(ListArgs),
    /// Show a job of the placement manager, and what happened to it.
    #[command(after_help = "Example:\n  tributary job show 7")]
    Show(ShowArgs),
    /// Print what the command of a worker has written, in the last attempt of its job.
    #[command(after_help = "Example:\n  tributary job logs 7 --worker 1 --follow")]
    Logs(LogsArgs),
    /// Print the state of a job, at once and after each change, until the job is over.
    #[command(after_help = "Example:\n  tributary job watch 7")]
    Watch(WatchArgs),
    /// Change the rate of a job at a controller, or where it is summed.
    #[command(after_help = "Example:\n\
        \x20 tributary job change 9 --controller 10.9.0.2:29813 --rate 2Gb/s")]
    Change(ChangeArgs),
    /// End a job, or withdraw one that waits.
    #[command(after_help = "Example:\n  tributary job cancel 7")]
    Cancel(CancelArgs),
}

/// Who is asked.
#[derive(Debug, Args)]
struct ServerArgs {
    /// Address of the placement manager: HOST:PORT or unix:PATH. Default: where it listens on this host.
    // No default here: with one, clap lets options of a controller pass without `--controller`.
    #[arg(long, value_name = "ADDR")]
    manager: Option<String>,
    /// Address of a controller, to ask it instead of the manager: HOST:PORT or unix:PATH.
    #[arg(long, value_name = "ADDR", conflicts_with = "manager")]
    controller: Option<String>,
    #[command(flatten)]
    keys: KeyArgs,
}

/// The placement manager that is asked.
#[derive(Debug, Args)]
pub(crate) struct ManagerArgs {
    /// Address of the placement manager: HOST:PORT or unix:PATH. Default: where it listens on this host.
    #[arg(long, value_name = "ADDR")]
    manager: Option<String>,
    #[command(flatten)]
    keys: KeyArgs,
}

fn update(text: &str) -> Result<Duration, String> {
    let update = tributary_base::document::duration(text)
        .filter(|time| *time <= tributary_model::LONGEST_PAUSE);
    update.ok_or_else(|| "write a time of at most a minute, such as 50ms".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Name of the job. The manager calls one without a name `job`.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Number of iterations.
    #[arg(long, value_name = "N", required_unless_present_any = ["command", "controller"])]
    iterations: Option<u32>,
    /// Gradients that an iteration sums, in bytes per worker: a multiple of 4.
    ///
    /// `tributary optical serve` needs them to start the iterations of a job.
    #[arg(long, value_name = "BYTES")]
    gradients: Option<u64>,
    /// Time between two iterations, such as 50ms.
    ///
    /// `tributary optical serve` gives the job no circuits for so long.
    #[arg(long, value_name = "TIME", value_parser = update)]
    update: Option<Duration>,
    #[command(flatten)]
    placed: PlacedArgs,
    #[command(flatten)]
    admitted: AdmittedArgs,
}

/// A job that the manager places.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of a job of the manager")]
struct PlacedArgs {
    /// Number of requested GPUs.
    #[arg(
        long,
        value_name = "N",
        required_unless_present = "controller",
        conflicts_with = "controller"
    )]
    gpus: Option<u32>,
    /// Value of running the job.
    #[arg(long, value_name = "VALUE", default_value_t = 1.0, conflicts_with = "controller")]
    value: f64,
    /// Name of the model. A known model (vgg16, …) sets defaults for --compute and --gradients.
    #[arg(long, value_name = "NAME", conflicts_with = "controller")]
    model: Option<String>,
    /// Computing time of an iteration on each GPU, in microseconds.
    #[arg(long, value_name = "US", conflicts_with = "controller")]
    compute: Option<u64>,
    /// Number of retries after one of the job's processes has failed.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "controller")]
    retries: u32,
    /// Key of the request: repeating it with the same key does not submit another job.
    #[arg(long, value_name = "KEY", conflicts_with = "controller")]
    request_key: Option<String>,
    /// Wait until the job is over; fail if it fails.
    #[arg(long, conflicts_with = "controller")]
    wait: bool,
    /// Working directory of the command on the servers; by default this one.
    #[arg(long, value_name = "DIR", requires = "command")]
    chdir: Option<PathBuf>,
    /// A command for each server of the job to run, such as `torchrun train.py`, after `--`. Without
    /// one, workers sum random numbers.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "controller")]
    command: Vec<String>,
}

/// A job that a controller admits.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of a job of a controller")]
// With an option of the manager's jobs, clap does not insist on `requires = "controller"`.
#[group(id = "admitted", multiple = true, conflicts_with = "gpus")]
struct AdmittedArgs {
    /// ID of the job, 1 to 65535. Without one, the controller chooses it.
    ///
    /// Without --worker, it is the ID of a job of the controller's file.
    #[arg(long, value_name = "N", requires = "controller",
        value_parser = clap::value_parser!(u16).range(1..))]
    id: Option<u16>,
    /// Name or IP address of the host of a worker; repeat for each worker, in their order.
    #[arg(long = "worker", value_name = "HOST", requires = "controller")]
    workers: Vec<String>,
    /// Name or IP address of the host of the parameter server.
    #[arg(long, value_name = "HOST", requires = "workers")]
    ps: Option<String>,
    /// File with the table `[job]` of a job file, without name, ID and hosts (docs/start/job-files.md).
    ///
    /// Only with settings, `tributary worker` can take part in a job that is not in the controller's file.
    #[arg(long, value_name = "FILE", requires = "workers")]
    settings: Option<PathBuf>,
    /// Where the job is summed. Default: as its settings, or in the network without them.
    #[arg(long, value_enum, requires = "controller")]
    aggregation: Option<Aggregation>,
    /// Aggregators in each switch that adds for the job. Default: as its settings.
    ///
    /// A job without settings that is summed in the network needs it.
    #[arg(long, value_name = "N", requires = "controller")]
    segment: Option<u32>,
    /// A client lets each round begin, and may move the job between rounds.
    #[arg(long, requires = "controller")]
    stepped: bool,
    /// Release the job when all its workers have left.
    #[arg(long, requires = "controller")]
    lease: bool,
    /// Bits of values per second that each worker may send, such as 2Gb/s, which switches enforce.
    #[arg(long, value_name = "RATE", requires = "controller", value_parser = rate)]
    max_rate: Option<u64>,
    /// The key that workers of the job must show, in hexadecimal digits.
    ///
    /// No variable gives it: the one of a command that the manager has started is the key of another job.
    #[arg(long, value_name = "KEY", requires = "controller")]
    job_key: Option<Token>,
}

/// Where a job is summed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Aggregation {
    /// In the switches between its workers.
    Network,
    /// In its parameter server; switches only forward.
    Server,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    manager: ManagerArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The job's number.
    job: u32,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    manager: ManagerArgs,
    /// Index of the worker.
    #[arg(long, value_name = "N", default_value_t = 0)]
    worker: u32,
    /// Keep printing new output, also of further attempts, until the job is over.
    #[arg(long, short)]
    follow: bool,
    /// The job's number.
    job: u32,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Print JSON, one document per line.
    #[arg(long)]
    json: bool,
    /// The job's number.
    job: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    /// Address of the controller: HOST:PORT or unix:PATH.
    #[arg(long, value_name = "ADDR", default_value_t = standard("controller").to_string())]
    controller: String,
    #[command(flatten)]
    keys: KeyArgs,
    /// The job's number.
    job: u32,
    /// Bits of values per second that each worker sends, such as 2Gb/s, or `none` for no limit.
    #[arg(long, value_name = "RATE", value_parser = rate,
        required_unless_present_any = ["aggregation", "segment"])]
    rate: Option<u64>,
    /// Where the job is summed from the next round on. Default with --segment: in the network.
    #[arg(long, value_enum)]
    aggregation: Option<Aggregation>,
    /// Aggregators in each switch that adds for the job, if it is summed in the network.
    #[arg(long, value_name = "N", required_if_eq("aggregation", "network"))]
    segment: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// The job's number.
    job: u32,
}

/// A rate in bits per second; 0 for no limit.
fn rate(text: &str) -> Result<u64, String> {
    match text {
        "none" => Ok(0),
        _ => document::rate(text)
            .filter(|rate| *rate > 0)
            .ok_or_else(|| "write a rate such as 2Gb/s, or none".to_owned()),
    }
}

/// # Errors
/// One line that describes the problem.
pub(crate) fn run(command: &JobCommand) -> Result<()> {
    match command {
        JobCommand::Submit(args) => match args.server.at_controller()? {
            Some(controller) => controller.submit(args),
            None => manager::submit(args),
        },
        JobCommand::List(args) => match args.server.at_controller()? {
            Some(controller) => controller.list(args.json),
            None => manager::list(args),
        },
        JobCommand::Show(args) => show::run(args),
        JobCommand::Logs(args) => logs::run(args),
        JobCommand::Watch(args) => match args.server.at_controller()? {
            Some(controller) => controller.watch(args.job, args.json),
            None => manager::watch(args),
        },
        JobCommand::Change(args) => {
            controller::Controller::at(&args.controller, &args.keys)?.change(args)
        }
        JobCommand::Cancel(args) => match args.server.at_controller()? {
            Some(controller) => controller.cancel(args.job),
            None => manager::cancel(args),
        },
    }
}

impl ServerArgs {
    /// The controller, if one is asked.
    fn at_controller(&self) -> Result<Option<controller::Controller>> {
        let controller = self.controller.as_deref();
        controller.map(|address| controller::Controller::at(address, &self.keys)).transpose()
    }
}
