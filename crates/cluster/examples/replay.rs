//! Replays a trace as fast as possible, with a policy of almost no cost, and prints the speed:
//!
//! ```sh
//! cargo run --release -p tributary-cluster --example replay -- philly.csv [cluster.toml]
//! ```

use std::error::Error;
use std::time::Instant;

use tributary_cluster::metrics::{Metric, Tally};
use tributary_cluster::model::Profiles;
use tributary_cluster::simulate::{Input, Observer, Options, SteadyState, simulate_each};
use tributary_cluster::trace::Trace;
use tributary_cluster::validate::Validator;
use tributary_cluster::{
    Cluster, Job, JobId, Pending, Plan, Policy, Round, ServerIndex, Shape, State, file,
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let trace = arguments.next().ok_or("give the path of a trace")?;
    let cluster = match arguments.next() {
        Some(path) => file::load(path)?.cluster,
        None => Cluster::uniform(&Shape::default()),
    };

    let begin = Instant::now();
    let trace = Trace::open(trace, None)?;
    let read = begin.elapsed();
    println!(
        "read {} jobs in {:.3} s, {} warnings, {:.0} MB at most",
        trace.submissions.len(),
        read.as_secs_f64(),
        trace.warnings.len(),
        peak_mb().unwrap_or(f64::NAN)
    );

    let begin = Instant::now();
    let mut observer = Check { validator: Validator::new(&cluster, true), checking_s: 0.0 };
    let profiles = Profiles::netpack();
    let input = Input {
        cluster: &cluster,
        occupants: &[],
        jobs: trace.stream(profiles.all(), 1),
        measured: trace.submissions.len(),
    };
    let mut tally = Tally::default();
    let Ok((totals, _)) = simulate_each(
        input,
        &mut FirstFit,
        &Options::default(),
        &mut observer,
        &mut SteadyState,
        &mut tally,
    );
    let took_s = begin.elapsed().as_secs_f64() - observer.checking_s;
    println!(
        "simulated in {took_s:.2} s: {:.0} jobs/s, {} rounds, {} steady states, {:.0} MB at most",
        trace.submissions.len() as f64 / took_s,
        totals.rounds,
        totals.settlings,
        peak_mb().unwrap_or(f64::NAN)
    );
    let violations = observer.validator.violations();
    println!("checked in {:.2} s: {} violations", observer.checking_s, violations.len());
    violations.iter().take(5).for_each(|violation| println!("  {violation}"));
    let summary = tally.summary(&totals);
    for metric in Metric::ALL {
        println!("{:34} {:.6}", metric.key(), summary.get(metric));
    }
    Ok(())
}

/// Peak memory of the process in megabytes; Linux only.
fn peak_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kb: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kb / 1000.0)
}

/// The validator, and the time that it took.
struct Check<'c> {
    validator: Validator<'c>,
    checking_s: f64,
}

impl<'c> Check<'c> {
    fn time(&mut self, check: impl FnOnce(&mut Validator<'c>)) {
        let begin = Instant::now();
        check(&mut self.validator);
        self.checking_s += begin.elapsed().as_secs_f64();
    }
}

impl Observer for Check<'_> {
    fn started(&mut self, now_s: f64, job: &Job, plan: &Plan) {
        self.time(|validator| validator.started(now_s, job, plan));
    }

    fn ended(&mut self, now_s: f64, job: JobId) {
        self.time(|validator| validator.ended(now_s, job));
    }

    fn network(&mut self, now_s: f64, state: &mut State<'_>) {
        self.time(|validator| validator.network(now_s, state));
    }
}

/// Places each job on the first servers with free GPUs.
struct FirstFit;

impl Policy for FirstFit {
    fn name(&self) -> &'static str {
        "first fit"
    }

    fn place(&mut self, round: &mut Round<'_, '_>, waiting: &[Pending]) {
        for pending in waiting {
            if round.free_total() < pending.job.gpus {
                continue;
            }
            let plan = first_fit(round, pending.job.gpus);
            round.start(&pending.job, plan).expect("its GPUs are free");
        }
    }
}

fn first_fit(state: &State<'_>, mut wanted: u32) -> Plan {
    let cluster = state.cluster();
    if let Some(server) = cluster.server_indices().find(|&server| state.free(server) >= wanted) {
        return Plan::on_one(server, wanted);
    }
    let mut shares: Vec<(ServerIndex, u32)> = Vec::new();
    for server in cluster.server_indices() {
        let taken = state.free(server).min(wanted);
        if taken > 0 {
            shares.push((server, taken));
            wanted -= taken;
        }
    }
    Plan::spread(cluster, &shares, shares[0].0)
}
