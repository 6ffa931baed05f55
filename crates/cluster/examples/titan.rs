//! Prints the results of docs/evaluation/titan.md: the `gap` to the exact optimum, the `testbed` of
//! figures 8 to 11, the `speed` of placing the jobs of a trace, and the results of a `trace` on
//! Titan's cluster.
//! ```text
//! cargo run --release -p tributary-cluster --example titan -- gap|testbed|speed [servers]|trace FILE [Gb/s]
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_cluster::metrics::Metric;
use tributary_cluster::model::Profiles;
use tributary_cluster::placement::titan::gap::{Cases, gaps};
use tributary_cluster::placement::titan::testbed::Testbed;
use tributary_cluster::placement::{ALL_REDUCE_NAMES, all_reduce};
use tributary_cluster::simulate::{Communication, Options, simulate};
use tributary_cluster::trace::Trace;
use tributary_cluster::{Cluster, Collective, Job, JobId, Pending, Round, Shape, State};

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("gap") => gap(),
        Some("testbed") => testbed(),
        Some("speed") => {
            let servers = arguments.get(1).map_or(Ok(512), |servers| servers.parse());
            speed(servers.expect("servers is a number"));
        }
        Some("trace") => {
            let link_gbps = arguments.get(2).map_or(Ok(100.0), |link_gbps| link_gbps.parse());
            let link_gbps = link_gbps.expect("the links' Gb/s is a number");
            trace(arguments.get(1).expect("trace FILE"), link_gbps);
        }
        _ => eprintln!("say which: gap, testbed, speed or trace FILE"),
    }
}

/// Titan §V-B: 64 racks of 8 machines of 8 GPUs, with jobs placed on arrival.
fn trace(file: &str, link_gbps: f64) {
    let shape =
        Shape { racks: 64, servers_per_rack: 8, gpus_per_server: 8, link_gbps, ..Shape::default() };
    let cluster = Cluster::uniform(&shape);
    let trace = Trace::open(file, None).unwrap_or_else(|error| panic!("{error}"));
    let jobs = trace.jobs(Profiles::known().all(), 1);
    let options = Options {
        period_s: 0.0,
        communication: Communication::AllReduce(Collective::HalvingDoubling),
        ..Options::default()
    };
    println!("{} jobs; averages over the time in which a machine is used", jobs.len());
    println!("policy       machines  machine h  fragmentation  crossing MB  profit rate  JCT s");
    for name in ALL_REDUCE_NAMES {
        let began = Instant::now();
        let mut policy = all_reduce(name, Collective::HalvingDoubling).expect("it is a policy");
        let outcome = simulate(&cluster, &jobs, policy.as_mut(), &options, &mut ());
        println!(
            "{name:<11}  {:>8.1}  {:>9.0}  {:>12.1}%  {:>11.1}  {:>11.2}  {:>5.0}  ({:.1} s)",
            Metric::UsedMachines.of(&outcome),
            Metric::MachineHours.of(&outcome),
            100.0 * Metric::Fragmentation.of(&outcome),
            Metric::Traffic.of(&outcome) / 1e6,
            Metric::ProfitRate.of(&outcome),
            Metric::AverageJct.of(&outcome),
            began.elapsed().as_secs_f64(),
        );
    }
}

fn gap() {
    for link_gbps in [1e6, 400.0, 200.0] {
        let cases = Cases { count: 1000, link_gbps, ..Cases::default() };
        let (solved, gaps) = gaps(&cases);
        println!("links of at most {link_gbps} Gb/s: {solved} of {} cases solved", cases.count);
        println!("policy        placed  feasible  launched  of the job  crossing");
        for gap in gaps {
            println!(
                "{:<12}  {:>6}  {:>8}  {:>+7.1}%  {:>+9.1}%  {:>+7.1}%",
                gap.policy,
                gap.placed,
                gap.feasible,
                100.0 * gap.launched.gap(),
                100.0 * gap.machines.gap(),
                100.0 * gap.crossing.gap(),
            );
        }
        println!();
    }
}

fn testbed() {
    println!("model      workers  policy       machines  machine h  images/s  comm. s/epoch  GPUs");
    for row in Testbed::default().rows().expect("there is room") {
        let gpus: Vec<_> = row
            .plan
            .workers()
            .iter()
            .map(|(server, gpus)| format!("{}:{gpus}", server.0))
            .collect();
        println!(
            "{:<9}  {:>7}  {:<11}  {:>8}  {:>9.2}  {:>8.0}  {:>13.2}  {}",
            row.model,
            row.workers,
            row.policy,
            row.machines,
            row.machine_hours,
            row.images_per_s,
            row.communication_s,
            gpus.join(" "),
        );
        if row.published != Default::default() {
            let or =
                |number: Option<f64>| number.map_or(String::new(), |number| number.to_string());
            println!(
                "{:<40} {:>9}  {:>8}  {:>13}",
                "  the paper",
                or(row.published.machine_hours),
                or(row.published.images_per_s),
                or(row.published.communication_s),
            );
        }
    }
}

/// Places a trace's number of jobs on machines of 8 GPUs, with as many running as fit. Measures the
/// time in `Policy::place` alone.
fn speed(servers: u32) {
    const JOBS: u32 = 70_000;
    let shape = Shape {
        racks: servers.div_ceil(8),
        servers_per_rack: 8,
        gpus_per_server: 8,
        racks_per_pod: Some(8),
        ..Shape::default()
    };
    let cluster = Cluster::uniform(&shape);
    println!("{JOBS} jobs, {} servers", cluster.servers().len());
    for name in ALL_REDUCE_NAMES {
        let mut policy = all_reduce(name, Collective::HalvingDoubling).expect("it is a policy");
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut state = State::new(&cluster);
        let mut ends = BinaryHeap::new();
        let (mut spent, mut slowest, mut spread, mut now) =
            (Duration::ZERO, Duration::ZERO, 0_u32, 0_u64);
        for id in 0..JOBS {
            let job = draw(&mut random, id);
            let pending = [Pending { job, value: 1.0 }];
            let job = &pending[0].job;
            now += random.random_range(0..2);
            loop {
                while let Some(&Reverse((end, ended))) = ends.peek()
                    && end <= now
                {
                    state.end(JobId(ended));
                    ends.pop();
                }
                let before = Instant::now();
                policy.place(&mut Round::new(&mut state), &pending);
                let took = before.elapsed();
                spent += took;
                slowest = slowest.max(took);
                if let Some(running) = state.running().get(&job.id) {
                    spread += u32::from(running.plan.is_distributed());
                    ends.push(Reverse((now + random.random_range(1..4000), id)));
                    break;
                }
                now = ends.peek().expect("something runs").0.0;
            }
        }
        println!(
            "{name:<12} {:>7.3} s in all, {:>7.2} µs a job, slowest {:>8.1} µs, {spread} on several machines",
            spent.as_secs_f64(),
            1e6 * spent.as_secs_f64() / f64::from(JOBS),
            1e6 * slowest.as_secs_f64(),
        );
    }
}

/// A job whose number of GPUs is drawn as in the Philly trace, but with fewer single GPUs.
fn draw(random: &mut ChaCha8Rng, id: u32) -> Job {
    const GPUS: [(f64, u32); 7] =
        [(0.60, 1), (0.75, 2), (0.87, 4), (0.97, 8), (0.99, 16), (0.998, 32), (1.0, 64)];
    let drawn = random.random::<f64>();
    let gpus = GPUS.iter().find(|&&(below, _)| drawn < below).map_or(1, |&(_, gpus)| gpus);
    let gradient_bytes = if random.random() { 553e6 } else { 102e6 };
    Job {
        id: JobId(id),
        submit_s: 0.0,
        gpus,
        iterations: 1.0,
        compute_s: 1.0,
        gradient_bytes,
        value: 1.0,
    }
}
