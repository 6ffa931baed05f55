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
use tributary_cluster::simulate::{Communication, Options, Outcome};
use tributary_cluster::trace::{Format, Generator, MAX_JOBS, Trace};
use tributary_cluster::{Cluster, Collective, Job, Shape, file};
use tributary_lab::figures::compare::{self, Compared};
use tributary_lab::figures::{Run, factor, load};

use crate::commands::output::{show, write};
use tributary_base::program::{put, with_bar};

/// Number of warnings that are shown individually.
const SHOWN: usize = 5;

/// Approximate number of samples of a series while jobs arrive.
const SAMPLES: f64 = 400.0;

/// Arguments of all simulations.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// A trace: CSV or JSON of Philly, CSV of Helios, Acme or our own. Without one, a generated
    /// one.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// The trace's format, if its content does not determine it.
    #[arg(long, value_name = "NAME", requires = "trace")]
    format: Option<String>,
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
    /// The cluster (TOML). Without one, NetPack's: 16 racks of 16 servers of 4 GPUs.
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// Policies, or `all`. Rules may follow a name, such as `tetris:knapsack:apart`; they come before
    /// the options below.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "all")]
    policy: Vec<String>,
    /// Which jobs each policy tries, and in which order: `fifo`, `knapsack` (NetPack's step 1), or
    /// `shortest`, which takes durations as known. Default: the policy's own.
    #[arg(long, value_name = "RULE")]
    queue: Option<String>,
    /// Where parameter servers go: `beside` a worker of the job, `apart` from its workers, or `shared`
    /// (either); `by-count` or `by-flows` spreads them over the servers left. Default: the policy's own.
    #[arg(long, value_name = "RULES", value_delimiter = ',')]
    servers: Vec<String>,
    /// Whether plans within one rack come first where uplinks are slow: `racks-first`, or `any-racks`.
    /// Default: the policy's own.
    #[arg(long, value_name = "RULE")]
    racks: Option<String>,
    /// Use only the first jobs of the trace; of a generated one, their number (1 000).
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// How jobs sum their gradients.
    #[arg(long, value_enum, default_value_t = Summing::InNetwork)]
    communication: Summing,
    /// Time between two rounds of placement, in seconds; 0: a round whenever a job arrives or ends.
    #[arg(long, value_name = "S", default_value_t = 60.0, allow_negative_numbers = true)]
    period: f64,
    /// Growth of a waiting job's value in every round that passes it over.
    #[arg(long, value_name = "VALUE", default_value_t = 1.0, allow_negative_numbers = true)]
    ageing: f64,
    /// Scales submission times until the jobs would keep this fraction of the GPUs busy while they are
    /// submitted, if none waited.
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
    let trace = args.trace.read(args.jobs)?;
    fits(trace.submissions.len(), args.seeds, policies.len())?;
    let large = trace.too_large(&cluster);
    ensure!(
        large.len() < trace.submissions.len(),
        "{}: each of its {} jobs wants more GPUs than the {} of the cluster; choose a larger one",
        trace.file,
        large.len(),
        cluster.gpus()
    );
    warn(&large);
    let profiles = args.trace.profiles()?;
    let jobs: Vec<Vec<Job>> = (0..args.seeds)
        .map(|seed| {
            let mut jobs = trace.jobs(profiles.all(), seed);
            if let Some(wished) = args.load {
                let factor = factor(&jobs, submitted_s(&jobs), &cluster, wished);
                let factor = factor.with_context(|| {
                    format!(
                        "--load {wished}: no spacing of these jobs gives it, as if they come all at once, or are too few \
                         for the cluster; choose less or leave it out"
                    )
                })?;
                jobs.iter_mut().for_each(|job| job.submit_s *= factor);
            }
            Ok(jobs)
        })
        .collect::<Result<_>>()?;
    let options = |jobs: &[Job]| Options {
        period_s: args.period,
        ageing: args.ageing,
        communication: args.communication.communication(),
        sample_s: Some((submitted_s(jobs)[1] / SAMPLES).max(1.0)),
        // All jobs have records; measures over time are of the time in which jobs come.
        window_s: Some(submitted_s(jobs)),
    };
    let runs: Vec<Run<'_>> = policies
        .iter()
        .flat_map(|policy| {
            let cluster = &cluster;
            jobs.iter().map(move |jobs| Run {
                cluster,
                jobs,
                policy,
                options: options(jobs),
                packets: None,
            })
        })
        .collect();
    let mut outcomes = with_bar("jobs", |progress| tributary_lab::figures::run(&runs, progress))?;
    let compared: Vec<Compared> = policies
        .iter()
        .map(|policy| {
            let outcomes = outcomes.drain(..jobs.len()).collect();
            Compared { policy: policy.clone(), outcomes }
        })
        .collect();
    report(args, &cluster, &trace, &profiles, &jobs[0], &compared)
}

fn report(
    args: &CompareArgs,
    cluster: &Cluster,
    trace: &Trace,
    profiles: &Profiles,
    jobs: &[Job],
    compared: &[Compared],
) -> Result<()> {
    let title = format!(
        "{} jobs of {} on {} servers with {} GPUs",
        jobs.len(),
        trace.file,
        cluster.servers().len(),
        cluster.gpus()
    );
    let mut figure = compare::figure(&title, compared);
    figure.notes.push(format!(
        "{}{}; rounds every {} s; models drawn with {}. Every plan and every rate was checked.",
        // The load is undefined if all jobs arrive at once.
        Some(load(jobs, submitted_s(jobs), cluster))
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
    let measured = |policy, seed, outcome: &Outcome| Measured {
        policy,
        seed,
        measures: Summary::of(outcome)
            .iter()
            .map(|(metric, value)| (metric.key(), Some(value).filter(|value| value.is_finite())))
            .collect(),
    };
    let runs: Vec<Measured<'_>> = compared
        .iter()
        .flat_map(|one| {
            let outcomes = one.outcomes.iter().enumerate();
            outcomes.map(|(seed, outcome)| measured(&one.policy, seed, outcome))
        })
        .collect();
    let all = serde_json::json!({ "title": title, "runs": runs });
    serde_json::to_string_pretty(&all).context("cannot write JSON")
}

/// From the first submission to the last one.
fn submitted_s(jobs: &[Job]) -> [f64; 2] {
    let times = jobs.iter().map(|job| job.submit_s);
    [times.clone().fold(f64::INFINITY, f64::min), times.fold(0.0, f64::max)]
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
        let format = self.format.as_deref().map(|name| {
            Format::by_name(name).with_context(|| {
                format!("--format {name}: there are {}", Format::ALL.map(Format::name).join(", "))
            })
        });
        let trace = Trace::open(path, format.transpose()?)?;
        warn(&trace.warnings);
        Ok(match jobs {
            Some(jobs) => trace.first(jobs),
            None => trace,
        })
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
fn warn(warnings: &[tributary_cluster::trace::Warning]) {
    for warning in warnings.iter().take(SHOWN) {
        eprintln!("warning: {warning}");
    }
    if warnings.len() > SHOWN {
        let (more, file) = (warnings.len() - SHOWN, &warnings[0].file);
        eprintln!("warning: {file}: {more} more jobs like these");
    }
}

/// Bytes per waiting or running job, including its records.
const JOB_BYTES: u64 = 512;

/// Checks that the memory suffices: every run's outcome is kept until the report.
fn fits(jobs: usize, seeds: u64, policies: usize) -> Result<()> {
    let runs = u128::from(seeds) * policies as u128;
    let needed = runs * jobs as u128 * u128::from(JOB_BYTES);
    let needed = u64::try_from(needed).unwrap_or(u64::MAX);
    let Some(available) = memory::available() else { return Ok(()) };
    ensure!(
        needed <= available,
        "{jobs} jobs, {seeds} times under each of {policies} policies, need about {} of memory, and {} \
         are available; lower --jobs or --seeds, or name fewer policies",
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
