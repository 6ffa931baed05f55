//! The control loop over simulated units: sums stay exact while jobs move, circuits change and rates
//! follow, and what goes wrong with one job stays with it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use tributary_controller::outcomes::Outcome as Happens;
use tributary_controller::programs::Source;
use tributary_model::{Scenario, SummedAt};
use tributary_optical::orchestrator::planner::End;
use tributary_optical::orchestrator::simulated::{Error, run};
use tributary_optical::orchestrator::slots::SlotReport;
use tributary_protocol::{Rate, Tensor};
use tributary_sim::{Inputs, Options, Outcome, Program};
use tributary_wire::JobId;

fn scenario(text: &str) -> Scenario {
    tributary_model::jobfile::parse(text, "units").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Integers: their sums are exact in any order.
fn inputs(scenario: &Scenario, rounds: usize, values: usize) -> Inputs {
    let number = |job: usize, worker: usize, round: usize, at: usize| {
        ((job * 31 + worker * 17 + round * 7 + at) % 1013) as i32 - 500
    };
    let tensor = |job, worker, round| {
        Tensor::I32((0..values).map(|at| number(job, worker, round, at)).collect())
    };
    let worker = |job, worker| (0..rounds).map(|round| tensor(job, worker, round)).collect();
    let jobs = scenario.jobs.iter().enumerate();
    jobs.map(|(job, its)| (0..its.workers.len()).map(|own| worker(job, own)).collect()).collect()
}

fn simulate(scenario: &Scenario, inputs: &Inputs) -> (Outcome, Vec<SlotReport>) {
    let source = Source::built_in("p4inc").unwrap();
    let program = Program::compile(&source, &scenario.network.switch).unwrap();
    let options = Options { limit: Duration::from_secs(10), ..Options::seeded(scenario.seed) };
    run(scenario, &program, inputs.clone(), &options, |_| ()).unwrap()
}

/// Every worker of a job that is not left out has every sum of all workers' values.
fn check_sums(inputs: &Inputs, outcome: &Outcome, left_out: &BTreeSet<usize>) {
    for (job, (inputs, sums)) in inputs.iter().zip(&outcome.sums).enumerate() {
        for round in 0..inputs[0].len() {
            let values = |tensor: &Tensor| match tensor {
                Tensor::I32(values) => values.clone(),
                Tensor::F32(_) => unreachable!("the inputs are integers"),
            };
            let all = inputs.iter().map(|own| values(&own[round]));
            let expected =
                all.reduce(|sum, own| sum.iter().zip(&own).map(|(a, b)| a + b).collect());
            for worker in sums {
                match worker.get(round) {
                    Some(sum) => {
                        assert_eq!(Some(values(sum)), expected, "job {job}, round {round}")
                    }
                    None => assert!(left_out.contains(&job), "job {job} lacks round {round}"),
                }
            }
        }
    }
}

/// The same, where nothing goes wrong: all sums are there, and nothing is left in the switches.
fn simulate_whole(scenario: &Scenario, inputs: &Inputs) -> (Outcome, Vec<SlotReport>) {
    let (outcome, reports) = simulate(scenario, inputs);
    let problems: Vec<_> = reports.iter().flat_map(|report| &report.problems).collect();
    assert_eq!(problems, Vec::<&String>::new());
    let late: Vec<_> = reports.iter().flat_map(|report| &report.late).collect();
    assert_eq!(late, Vec::<&(JobId, Rate)>::new(), "no worker is slow");
    assert!(outcome.complete, "{:?}\n{:#?}", outcome.stalls, &reports[..reports.len().min(20)]);
    check_sums(inputs, &outcome, &BTreeSet::new());
    assert_eq!(outcome.left_behind, 0);
    (outcome, reports)
}

const FOUR_UNITS: &str = "[protocol]\nkind = \"p4inc\"\nslots = 32\nwindow = 32\n\
    [topology]\nunits = 4\nhosts_per_unit = 3\noptical_ports = 1\nreconfiguration = \"1ms\"\n\
    [orchestrator]\nslot = \"10ms\"\nport_rate = \"400Mb/s\"\nswitch_rate = \"4Gb/s\"\n\
    step = \"100Mb/s\"\ninc = 1\n";

#[test]
fn jobs_of_four_units_take_turns_with_one_port_each() {
    // Two jobs in one unit, of which its switch takes one, one over two units, and one in a fourth.
    let file = format!(
        "{FOUR_UNITS}[[job]]\nworkers = [\"w1\", \"w2\"]\nps = \"ps2\"\n\
         [[job]]\nworkers = [\"w3\", \"w7\"]\nps = \"ps3\"\n\
         [[job]]\nworkers = [\"w4\", \"w5\"]\nps = \"ps1\"\n\
         [[job]]\nworkers = [\"w6\"]\nps = \"ps4\"\n\
         [[job]]\nworkers = [\"w10\"]\nps = \"ps2\"\n"
    );
    let scenario = scenario(&file);
    let inputs = inputs(&scenario, 4, 40_000);
    let (_, reports) = simulate_whole(&scenario, &inputs);
    let started = |report: &SlotReport| report.started.len();
    assert_eq!(reports.iter().map(started).sum::<usize>(), 5 * 4, "each iteration once");
    assert!(reports.iter().map(|report| report.new_circuits).sum::<usize>() > 1);
    assert!(reports.iter().flat_map(|report| &report.moved).any(|m| m.1 == SummedAt::Server));
}

#[test]
fn a_job_that_never_finishes_is_released_and_the_others_go_on() {
    // The link of w4 loses everything: its job's iteration does not end.
    let file = format!(
        "{FOUR_UNITS}iteration_timeout = \"200ms\"\n\
         [[job]]\nworkers = [\"w1\", \"w2\"]\nps = \"ps2\"\n\
         [[job]]\nworkers = [\"w4\", \"w5\"]\nps = \"ps3\"\n\
         [[faults.link]]\nbetween = [\"w4\", \"unit2\"]\nloss = 1.0\n"
    );
    let scenario = scenario(&file);
    let inputs = inputs(&scenario, 60, 10_000);
    let (outcome, reports) = simulate(&scenario, &inputs);
    assert!(outcome.complete, "{:?}", outcome.stalls);
    check_sums(&inputs, &outcome, &BTreeSet::from([1]));
    assert_eq!((outcome.left_behind, outcome.leaks.len()), (0, 0));
    let released: Vec<_> = reports.iter().flat_map(|report| report.released.clone()).collect();
    assert_eq!(released.len(), 1, "{released:?}");
    assert_eq!(released[0].0, scenario.jobs[1].id);
}

#[test]
fn a_job_that_no_slot_can_carry_is_released_at_once() {
    // Two units send to a third, which has one port.
    let file = format!(
        "{FOUR_UNITS}[[job]]\nworkers = [\"w1\", \"w4\"]\nps = \"ps3\"\n\
         [[job]]\nworkers = [\"w2\", \"w3\"]\nps = \"ps4\"\n"
    );
    let scenario = scenario(&file);
    let inputs = inputs(&scenario, 3, 2_000);
    let (outcome, reports) = simulate(&scenario, &inputs);
    assert!(outcome.complete, "{:?}", outcome.stalls);
    check_sums(&inputs, &outcome, &BTreeSet::from([0]));
    assert_eq!(reports[0].released, [(scenario.jobs[0].id, End::Impossible)]);
}

#[test]
fn a_switch_without_room_leaves_its_job_at_the_server() {
    let file = format!(
        "{FOUR_UNITS}[switch]\npool = 64\n\
         [[job]]\nworkers = [\"w1\", \"w2\"]\nps = \"ps2\"\nsegment = 64\naggregation = \"server\"\n\
         [[job]]\nworkers = [\"w3\"]\nps = \"ps4\"\nsegment = 64\n"
    );
    let file = file.replace("inc = 1", "inc = 2");
    let scenario = scenario(&file);
    let inputs = inputs(&scenario, 5, 20_000);
    let (outcome, reports) = simulate(&scenario, &inputs);
    assert!(outcome.complete, "{:?}", outcome.stalls);
    check_sums(&inputs, &outcome, &BTreeSet::new());
    let problems: Vec<_> = reports.iter().flat_map(|report| &report.problems).collect();
    let job = scenario.jobs[0].id;
    let expected = format!(
        "job {job}: the switch that was to sum it has no room; it is scheduled elsewhere for a while"
    );
    assert_eq!(problems, [&expected]);
}

#[test]
fn sixty_four_units_run_a_hundred_jobs() {
    let mut file = "[switch]\npool = 8192\n\
        [protocol]\nkind = \"p4inc\"\nvalues_per_packet = 256\nslots = 32\n\
        [topology]\nunits = 64\nhosts_per_unit = 4\nps_hosts = 2\noptical_ports = 4\n\
        reconfiguration = \"1ms\"\n\
        [orchestrator]\nslot = \"20ms\"\nport_rate = \"4Gb/s\"\nswitch_rate = \"40Gb/s\"\n\
        step = \"1Gb/s\"\ninc = 1\n"
        .to_owned();
    // Two jobs start in each of 50 units; every other one reaches into the next unit.
    for job in 0..100 {
        let unit = job / 2;
        let first = 4 * unit + 2 * (job % 2) + 1;
        let second = if job % 4 < 2 { first + 1 } else { 4 * ((unit + 7) % 50 + 13) + 1 + job % 4 };
        let second = if second == first { first + 1 } else { second };
        let server = 2 * ((unit + 31) % 64) + job % 2 + 1;
        let free = !file.contains(&format!("\"w{second}\"")) && second <= 256;
        let workers =
            if free { format!("\"w{first}\", \"w{second}\"") } else { format!("\"w{first}\"") };
        if file.contains(&format!("\"w{first}\"")) || file.contains(&format!("\"ps{server}\"\n")) {
            continue;
        }
        let _ = writeln!(file, "[[job]]\nworkers = [{workers}]\nps = \"ps{server}\"");
    }
    let scenario = scenario(&file);
    assert!(scenario.jobs.len() > 60, "{}", scenario.jobs.len());
    let inputs = inputs(&scenario, 2, 20_000);
    let (outcome, reports) = simulate(&scenario, &inputs);
    assert!(outcome.complete, "{:?}", outcome.stalls);
    check_sums(&inputs, &outcome, &BTreeSet::new());
    assert_eq!(outcome.left_behind, 0);
    let problems: Vec<_> = reports.iter().flat_map(|report| &report.problems).collect();
    assert_eq!(problems, Vec::<&String>::new());
    println!(
        "{} jobs, {} slots, {} new circuits, {:?}",
        scenario.jobs.len(),
        reports.len(),
        reports.iter().map(|report| report.new_circuits).sum::<usize>(),
        outcome.time
    );
}

#[test]
fn what_cannot_be_scheduled_is_one_clear_line() {
    let text = "protocol = \"p4inc\"\n[[job]]\n";
    let other = scenario(text);
    let program =
        Program::compile(&Source::built_in("p4inc").unwrap(), &other.network.switch).unwrap();
    let options = Options::seeded(1);
    let refused = |scenario: &Scenario| {
        let inputs = inputs(scenario, 1, 64);
        run(scenario, &program, inputs, &options, |_| ()).unwrap_err()
    };
    assert!(matches!(refused(&other), Error::NoCrossConnect));
    let alone = scenario(&format!("{FOUR_UNITS}[[job]]\nworkers = [\"w1\"]\n"));
    if alone.jobs[0].ps.is_none() {
        let message = refused(&alone).to_string();
        assert!(message.contains("needs a parameter server"), "{message}");
    }
}

/// Three workers in one unit, one in another, and their server in a third.
fn over_two_units(partial_inc: bool) -> (Scenario, Outcome, Vec<SlotReport>) {
    let file = format!(
        "{FOUR_UNITS}partial_inc = {partial_inc}\n\
         [[job]]\nworkers = [\"w1\", \"w2\", \"w3\", \"w4\"]\nps = \"ps3\"\naggregation = \"server\"\n"
    );
    let file = file.replace("optical_ports = 1", "optical_ports = 2");
    let scenario = scenario(&file);
    let inputs = inputs(&scenario, 4, 40_000);
    let (outcome, reports) = simulate_whole(&scenario, &inputs);
    (scenario, outcome, reports)
}

#[test]
fn the_switch_of_one_unit_adds_for_a_job_over_several() {
    let moved = |reports: &[SlotReport]| -> Vec<SummedAt> {
        reports.iter().flat_map(|report| &report.moved).map(|(_, to)| *to).collect()
    };
    let (scenario, without, reports) = over_two_units(false);
    assert_eq!(moved(&reports), []);
    let (_, with, reports) = over_two_units(true);
    let unit = scenario.network.topology.switch_named("unit1").unwrap();
    assert_eq!(moved(&reports), [SummedAt::Switch(unit)], "it stays there");
    let completed =
        |outcome: &Outcome, switch: usize| outcome.outcomes[0][switch][Happens::Completed].packets;
    assert_eq!((0..4).map(|unit| completed(&without, unit)).sum::<u64>(), 0);
    assert!(completed(&with, unit.0) > 0);
    assert_eq!((1..4).map(|unit| completed(&with, unit)).sum::<u64>(), 0, "only that switch");
    // One gradient leaves the unit instead of three.
    assert!(with.time < without.time, "{:?} against {:?}", with.time, without.time);
}

/// How long jobs take that share a circuit, first come, first served. The worker of the first one has a slow link.
fn behind_a_slow_worker(jobs: &[&str]) -> Vec<Duration> {
    let jobs = jobs.iter().map(|worker| {
        format!("[[job]]\nworkers = [\"{worker}\"]\nps = \"ps2\"\naggregation = \"server\"\n")
    });
    let file = format!(
        "{FOUR_UNITS}scheduler = \"noINC-FCFS\"\n{}\
         [[topology.link]]\nbetween = [\"w1\", \"unit1\"]\nrate = \"50Mb/s\"\n",
        jobs.collect::<String>()
    );
    let scenario = scenario(&file);
    let inputs = inputs(&scenario, 10, 100_000);
    let (outcome, reports) = simulate(&scenario, &inputs);
    assert!(outcome.complete, "{:?}", outcome.stalls);
    check_sums(&inputs, &outcome, &BTreeSet::new());
    let late: Vec<_> = reports.iter().flat_map(|report| &report.late).collect();
    let slow = scenario.jobs[0].id;
    assert!(late.len() >= 5 && late.iter().all(|(job, _)| *job == slow), "{late:?}");
    outcome.times
}

#[test]
fn a_slow_worker_delays_only_its_job() {
    let alone = behind_a_slow_worker(&["w1"]);
    let [slow, other] = behind_a_slow_worker(&["w1", "w2"])[..] else { panic!("two jobs") };
    // An iteration of the first takes nine slots, and one of the other one slot or two.
    assert!(other < slow / 2, "{other:?} beside {slow:?}");
    assert!(slow < alone[0].mul_f64(1.05), "{slow:?}, alone {:?}", alone[0]);
}

/// What a circuit carries, in kilobits of values per second: 256 of 350 bytes of a frame, and of what lies between two.
const CIRCUIT: u64 = 100_000 * 256 / 350;

/// How long the sums of a job take whose workers are in one unit and whose server is in the other, with so many circuits
/// between the two. Workers send at what the circuits carry.
fn over_circuits(circuits: u64, workers: u64, values: usize) -> Duration {
    let names: Vec<String> = (1..=workers).map(|at| format!("\"w{at}\"")).collect();
    let (names, rate) = (names.join(", "), CIRCUIT / workers.div_ceil(circuits));
    let file = format!(
        "[protocol]\nkind = \"p4inc\"\nrate = \"{rate}kb/s\"\n\
         [topology]\nunits = 2\nhosts_per_unit = {workers}\noptical_ports = {circuits}\nrate = \"100Mb/s\"\n\
         [[topology.link]]\nbetween = [\"ps2\", \"unit2\"]\nrate = \"1Gb/s\"\n\
         [[job]]\nworkers = [{names}]\nps = \"ps2\"\naggregation = \"server\"\n"
    );
    let scenario = scenario(&file);
    let inputs = inputs(&scenario, 1, values);
    let source = Source::built_in("p4inc").unwrap();
    let program = Program::compile(&source, &scenario.network.switch).unwrap();
    let options = Options { limit: Duration::from_secs(60), ..Options::seeded(scenario.seed) };
    let outcome = tributary_sim::run(&scenario, &program, inputs.clone(), &options).unwrap();
    assert!(outcome.complete, "{:?}", outcome.stalls);
    check_sums(&inputs, &outcome, &BTreeSet::new());
    let resent: u64 = outcome.workers[0].iter().map(|worker| worker.resent).sum();
    assert_eq!(resent, 0, "{circuits} circuits, {workers} workers");
    outcome.time
}

#[test]
fn circuits_between_two_units_share_the_load() {
    const VALUES: usize = 120_000;
    let one = over_circuits(1, 6, VALUES).as_secs_f64() / 6.0;
    for (circuits, workers) in [(1, 3), (2, 6), (3, 6), (6, 6), (2, 3), (4, 6), (5, 6), (4, 3)] {
        let several = over_circuits(circuits, workers, VALUES).as_secs_f64() / workers as f64;
        let gain = one / several;
        eprintln!("{circuits} circuits, {workers} workers: {gain:.3} times what one carries");
        // The fullest decides.
        let most = workers as f64 / workers.div_ceil(circuits) as f64;
        assert!((0.98 * most..=1.01 * most).contains(&gain), "{circuits} circuits: {gain}");
    }
}
