//! `tributary-lab place`: compares policies over a trace of jobs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;
use tributary_base::{memory, output_directory, size};
use tributary_cluster::metrics::Summary;
use tributary_cluster::model::Profiles;
use tributary_cluster::placement::{ALL_REDUCE_NAMES, NAMES, Rules, create};
use tributary_cluster::simulate::{Communication, Options};
use tributary_cluster::trace::{
    Columns, Format, Generator, MAX_JOBS, Reading, Submission, Trace, Warning,
};
use tributary_cluster::{Cluster, Collective, Shape, file, occupied};
use tributary_lab::figures::compare::{self, Compared};
use tributary_lab::figures::{Trial, digest, factor, load};

use crate::commands::output::{show, write};
use tributary_base::program::{put, with_bar};

/// Number of warnings that are shown individually.
const SHOWN: usize = 5;

/// Approximate number of samples of a series while jobs arrive.
const SAMPLES: f64 = 400.0;

/// Arguments of all simulations.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// A trace of jobs, also packed by gzip. Without one, a generated one.
    ///
    /// Philly's, Helios', Acme's, ElasticFlow's, Alibaba's, output of sacct, SWF, or any table.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// The trace's format, if its content does not determine it.
    #[arg(long, value_name = "NAME", requires = "trace")]
    format: Option<String>,
    /// Columns of any other table, such as submit=Submit,start=Start,end=End,gpus=GPUs.
    ///
    /// There are also duration, job, user, model, iterations and gradients.
    #[arg(
        long,
        value_name = "FIELD=COLUMN",
        value_delimiter = ',',
        requires = "trace",
        conflicts_with = "format"
    )]
    columns: Vec<String>,
    /// A TOML file with models in addition to the known ones.
    #[arg(long, value_name = "FILE")]
    models: Option<PathBuf>,
}

/// How jobs sum their gradients.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Summing {
    /// In switches and a parameter server.
    InNetwork,
    /// All-reduce by halving-doubling.
    HalvingDoubling,
    /// All-reduce around a ring.
    Ring,
    /// All-reduce up and down a tree.
    Tree,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    trace: TraceArgs,
    /// The cluster (TOML). Without one, NetPack's.
    ///
    /// That has 16 racks of 16 servers of 4 GPUs.
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// GPUs that other jobs hold from the start (TOML).
    #[arg(long, value_name = "FILE")]
    occupied: Option<PathBuf>,
    /// Policies, or `all`, with rules if wished: `tetris:knapsack:apart`.
    ///
    /// The rules of a name come before the options below.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "all")]
    policy: Vec<String>,
    /// Which jobs each policy tries first: `fifo`, `knapsack`, or `shortest`.
    ///
    /// `knapsack` is NetPack's step 1; `shortest` takes durations as known. Default: the policy's own.
    #[arg(long, value_name = "RULE")]
    queue: Option<String>,
    /// Parameter servers: `beside`, `apart` or `shared`; `by-count` or `by-flows`.
    ///
    /// Beside a worker of the job, apart from its workers, or either; and of the servers left, where the
    /// fewest parameter servers or flows are. Default: the policy's own.
    #[arg(long, value_name = "RULES", value_delimiter = ',')]
    servers: Vec<String>,
    /// Whether single racks come first: `racks-first`, or `any-racks`.
    ///
    /// It matters where uplinks are slow. Default: the policy's own.
    #[arg(long, value_name = "RULE")]
    racks: Option<String>,
    /// Use only the first jobs; of a generated trace, their number (1 000).
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// How jobs sum their gradients.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Summing::InNetwork)]
    communication: Summing,
    /// Seconds between rounds of placement; 0: one at each arrival and end.
    #[arg(long, value_name = "S", default_value_t = 60.0, allow_negative_numbers = true)]
    period: f64,
    /// Growth of a job's value in every round that passes it over.
    #[arg(long, value_name = "VALUE", default_value_t = 1.0, allow_negative_numbers = true)]
    ageing: f64,
    /// Scales submission times until this part of the GPUs would be busy.
    ///
    /// While the jobs are submitted, if none waited and summing took no time.
    #[arg(long, value_name = "PART", allow_negative_numbers = true)]
    load: Option<f64>,
    /// Repetitions, each with other models for the jobs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: u64,
    /// A directory for CSV files, plots (SVG and PNG) and a page (HTML).
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A file for all measures of all runs.
    #[arg(long, value_name = "FILE")]
    json_out: Option<PathBuf>,
}

/// Compares policies.
///
/// # Errors
/// One line that describes the problem.
pub(crate) fn run(args: &CompareArgs) -> Result<()> {
    ensure!(args.seeds > 0, "--seeds 0: run at least once");
    ensure!(args.jobs != Some(0), "--jobs 0: place at least one");
    let usual = |number: f64| number.is_finite() && number >= 0.0;
    ensure!(
        args.period == 0.0 || usual(args.period) && args.period >= 0.001,
        "--period {}: write seconds, 0 or at least 0.001",
        args.period
    );
    ensure!(usual(args.ageing), "--ageing {}: write 0 or more", args.ageing);
    ensure!(
        args.load.is_none_or(|load| usual(load) && load > 0.0),
        "--load: write a number above 0, such as 0.9"
    );
    let policies = policies(&args.policy, args.rules()?)?;
    if let Some(out) = &args.out {
        output_directory(out).with_context(|| format!("cannot write to {}", out.display()))?;
    }
    if let Some(path) = &args.json_out {
        writable(path)?;
    }
    let cluster = match &args.cluster {
        Some(path) => read_cluster(path)?,
        None => Cluster::uniform(&Shape::default()),
    };
    let occupants = match &args.occupied {
        Some(path) => occupied::load(path, &cluster)?,
        None => Vec::new(),
    };
    let mut trace = args.trace.read(args.jobs)?;
    fits(trace.submissions.len(), args.seeds, policies.len(), args.out.is_some())?;
    ensure!(
        trace.submissions.iter().any(|job| job.gpus <= cluster.gpus()),
        "{}: each of its {} jobs wants more GPUs than the {} of the cluster; choose a larger one",
        trace.file,
        trace.submissions.len(),
        cluster.gpus()
    );
    warn(trace.too_large(&cluster));
    let profiles = args.trace.profiles()?;
    warn(trace.unknown_models(profiles.all()));
    if let Some(wished) = args.load {
        scale(&mut trace, wished, &profiles, &cluster)?;
    }
    let window_s = submitted_s(&trace);
    let options = Options {
        period_s: args.period,
        ageing: args.ageing,
        communication: args.communication.communication(),
        sample_s: Some((window_s[1] / SAMPLES).max(1.0)),
        // All jobs have records; measures over time are of the time in which jobs come, if they do not
        // come all at once.
        window_s: Some(window_s).filter(|[from_s, to_s]| from_s < to_s),
    };
    let trial = |policy, seed| Trial {
        cluster: &cluster,
        occupants: &occupants,
        trace: &trace,
        profiles: profiles.all(),
        seed,
        policy,
        options,
        keep: args.out.is_some(),
    };
    let trials: Vec<Trial<'_>> = policies
        .iter()
        .flat_map(|policy| (0..args.seeds).map(move |seed| trial(policy, seed)))
        .collect();
    let mut runs = with_bar("jobs", |progress| digest(&trials, progress))?.into_iter();
    let compared: Vec<Compared> = policies
        .iter()
        .map(|policy| {
            let runs = runs.by_ref().take(args.seeds as usize).collect();
            Compared { policy: policy.clone(), runs }
        })
        .collect();
    report(args, &cluster, &trace, &profiles, &compared)
}

fn report(
    args: &CompareArgs,
    cluster: &Cluster,
    trace: &Trace,
    profiles: &Profiles,
    compared: &[Compared],
) -> Result<()> {
    let title = format!(
        "{} jobs of {} on {} servers with {} GPUs",
        trace.submissions.len(),
        trace.file,
        cluster.servers().len(),
        cluster.gpus()
    );
    let mut figure = compare::figure(&title, compared);
    figure.notes.push(format!(
        "{}{}; rounds every {} s; models drawn with {}. Every plan and every rate was checked.",
        // The load is undefined if all jobs arrive at once.
        Some(load(trace.stream(profiles.all(), 0), submitted_s(trace), cluster))
            .filter(|load| load.is_finite())
            .map_or(String::new(), |load| format!("Load {load:.2}; ")),
        args.communication.describe(),
        args.period,
        if args.seeds == 1 { "seed 0".to_owned() } else { format!("{} seeds", args.seeds) },
    ));
    show(&figure)?;
    if let Some(out) = &args.out {
        write(out, "A trace under several policies", std::slice::from_ref(&figure))?;
        put(&out.join("jobs.csv"), compare::jobs(compared, profiles.all()).to_csv())?;
        tributary_base::say!("{}: index.html, comparison.csv, jobs.csv, plots", out.display());
    }
    if let Some(path) = &args.json_out {
        put(path, &json(&title, compared)?)?;
    }
    Ok(())
}

/// All measures of a run, by name.
#[derive(Serialize)]
struct Measured<'a> {
    policy: &'a str,
    seed: usize,
    #[serde(flatten)]
    measures: std::collections::BTreeMap<&'static str, Option<f64>>,
}

fn json(title: &str, compared: &[Compared]) -> Result<String> {
    let measured = |policy, seed, summary: &Summary| Measured {
        policy,
        seed,
        measures: summary
            .iter()
            .map(|(metric, value)| (metric.key(), Some(value).filter(|value| value.is_finite())))
            .collect(),
    };
    let runs: Vec<Measured<'_>> = compared
        .iter()
        .flat_map(|one| {
            let runs = one.runs.iter().enumerate();
            runs.map(|(seed, run)| measured(&one.policy, seed, &run.summary))
        })
        .collect();
    let all = serde_json::json!({ "title": title, "runs": runs });
    serde_json::to_string_pretty(&all).context("cannot write JSON")
}

/// Moves submissions together or apart until the jobs have a load.
fn scale(trace: &mut Trace, wished: f64, profiles: &Profiles, cluster: &Cluster) -> Result<()> {
    let jobs = trace.stream(profiles.all(), 0);
    let factor = factor(jobs, submitted_s(trace), cluster, wished).with_context(|| {
        format!(
            "--load {wished}: no spacing of these jobs gives it, as if they come all at once, or are too few \
             for the cluster; choose less or leave it out"
        )
    })?;
    trace.submissions.iter_mut().for_each(|job| job.submit_s *= factor);
    Ok(())
}

/// From the first submission to the last one.
fn submitted_s(trace: &Trace) -> [f64; 2] {
    let at = |job: Option<&Submission>| job.map_or(0.0, |job| job.submit_s);
    [at(trace.submissions.first()), at(trace.submissions.last())]
}

impl CompareArgs {
    /// The rules of the options.
    fn rules(&self) -> Result<Rules> {
        let of = |option: &str, names: &[&str], allowed: &[&str]| -> Result<()> {
            for name in names {
                ensure!(
                    allowed.contains(name),
                    "--{option} {name}: there are {}",
                    allowed.join(", ")
                );
            }
            Ok(())
        };
        let queue: Vec<&str> = self.queue.iter().map(String::as_str).collect();
        let servers: Vec<&str> = self.servers.iter().map(String::as_str).collect();
        let racks: Vec<&str> = self.racks.iter().map(String::as_str).collect();
        of("queue", &queue, &["fifo", "knapsack", "shortest"])?;
        of("servers", &servers, &["beside", "apart", "shared", "by-count", "by-flows"])?;
        of("racks", &racks, &["any-racks", "racks-first"])?;
        let all = [queue, servers, racks].concat().join(":");
        if all.is_empty() {
            return Ok(Rules::default());
        }
        Rules::parse(&all).map_err(|error| anyhow!("--servers: {error}"))
    }
}

/// The policies, each with its rules in its name.
fn policies(names: &[String], rules: Rules) -> Result<Vec<String>> {
    let mut policies: Vec<String> = Vec::new();
    for name in names.iter().map(|name| name.trim()) {
        ensure!(
            !name.is_empty(),
            "--policy: a name is missing; write names with commas, such as netpack,tetris"
        );
        // An option for all policies does not concern those without such a rule.
        let placed = |name: &&'static str| ((*name).to_owned(), rules);
        let ranked = |name: &&'static str| ((*name).to_owned(), Rules { racks: None, ..rules });
        let these: Vec<(String, Rules)> = match name {
            "all" => NAMES.iter().map(placed).chain(ALL_REDUCE_NAMES.iter().map(ranked)).collect(),
            _ => match name.split_once(':') {
                None => vec![(name.to_owned(), rules)],
                Some((policy, own)) => {
                    let own =
                        Rules::parse(own).map_err(|error| anyhow!("--policy {name}: {error}"))?;
                    vec![(policy.to_owned(), own.or(rules))]
                }
            },
        };
        for (name, rules) in these {
            create(&name, rules, Collective::default())
                .map_err(|error| anyhow!("--policy {name}: {error}"))?;
            let name = format!("{name}{rules}");
            if !policies.contains(&name) {
                policies.push(name);
            }
        }
    }
    Ok(policies)
}

fn read_cluster(path: &Path) -> Result<Cluster> {
    let described = file::load(path)?;
    for warning in &described.warnings {
        eprintln!("warning: {warning}");
    }
    Ok(described.cluster)
}

impl TraceArgs {
    /// Reads the trace, or its first jobs. Invalid jobs are reported and omitted.
    pub(crate) fn read(&self, jobs: Option<usize>) -> Result<Trace> {
        let Some(path) = &self.trace else {
            let jobs = jobs.unwrap_or(1_000);
            ensure!(jobs <= MAX_JOBS, "--jobs {jobs}: a trace may have at most {MAX_JOBS}");
            return Ok(Generator::trace(jobs, 0));
        };
        let trace = Trace::open(path, self.reading()?)?;
        warn(trace.warnings.iter().cloned());
        Ok(match jobs {
            Some(jobs) => trace.first(jobs),
            None => trace,
        })
    }

    /// How the file is read.
    fn reading(&self) -> Result<Reading> {
        if !self.columns.is_empty() {
            let columns = Columns::parse(self.columns.iter().map(String::as_str));
            return columns.map(Reading::from).map_err(|why| anyhow!("--columns: {why}"));
        }
        let format = self.format.as_deref().map(|name| {
            Format::by_name(name).with_context(|| {
                format!("--format {name}: there are {}", Format::ALL.map(Format::name).join(", "))
            })
        });
        Ok(format.transpose()?.into())
    }

    /// The models of the jobs.
    pub(crate) fn profiles(&self) -> Result<Profiles> {
        let known = Profiles::netpack();
        Ok(match &self.models {
            Some(path) => known.load(path)?,
            None => known,
        })
    }
}

impl Summing {
    const fn communication(self) -> Communication {
        match self {
            Self::InNetwork => Communication::InNetwork,
            Self::HalvingDoubling => Communication::AllReduce(Collective::HalvingDoubling),
            Self::Ring => Communication::AllReduce(Collective::Ring),
            Self::Tree => Communication::AllReduce(Collective::Tree),
        }
    }

    const fn describe(self) -> &'static str {
        match self {
            Self::InNetwork => "gradients summed in the network",
            Self::HalvingDoubling => "all-reduce by halving-doubling",
            Self::Ring => "all-reduce round a ring",
            Self::Tree => "all-reduce by trees",
        }
    }
}

/// Prints the first few warnings, and their number.
fn warn(warnings: impl IntoIterator<Item = Warning>) {
    let mut more: Option<(usize, Warning)> = None;
    for (at, warning) in warnings.into_iter().enumerate() {
        if at < SHOWN {
            eprintln!("warning: {warning}");
        } else {
            more = Some((at + 1 - SHOWN, warning));
        }
    }
    if let Some((more, last)) = more {
        eprintln!("warning: {}: {more} more jobs like these", last.file);
    }
}

/// Bytes per job of a run whose results are kept, and of one that goes on, if all jobs wait.
const KEPT_BYTES: u64 = 512;
const RUNNING_BYTES: u64 = 128;

/// Bytes of a run's measures and distribution.
const RUN_BYTES: u64 = 8_192;

/// Checks that the memory suffices. `kept` is whether the results of all jobs are kept until the
/// report.
fn fits(jobs: usize, seeds: u64, policies: usize, kept: bool) -> Result<()> {
    let runs = u128::from(seeds) * policies as u128;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let at_once = runs.min(cores as u128);
    let per_job =
        at_once * u128::from(RUNNING_BYTES) + if kept { runs * u128::from(KEPT_BYTES) } else { 0 };
    let needed = jobs as u128 * per_job + runs * u128::from(RUN_BYTES);
    let needed = u64::try_from(needed).unwrap_or(u64::MAX);
    let Some(available) = memory::available() else { return Ok(()) };
    ensure!(
        needed <= available,
        "{jobs} jobs, {seeds} times under each of {policies} policies, need about {} of memory, and {} \
         are available; lower --jobs or --seeds, name fewer policies, or leave out --out",
        size(needed),
        size(available)
    );
    Ok(())
}

/// Checks, before the work, that the result can be written to a file.
fn writable(path: &Path) -> Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    ensure!(
        directory.is_none_or(Path::is_dir),
        "cannot write {}: there is no such directory",
        path.display()
    );
    let opened = fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).with_context(|| format!("cannot write {}", path.display()))
}
