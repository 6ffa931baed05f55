//! Whole systems; each test is named after its case.

use std::time::Duration;

use crate::exact::{check_exact, describe};
use tributary_controller::outcomes::{Outcome as Fate, Outcomes};
use tributary_controller::programs::Source;
use tributary_model::jobfile::parse;
use tributary_model::{HostId, Scenario, SwitchId};
use tributary_p4::Architecture;
use tributary_protocol::Tensor;
use tributary_sim::{Inputs, Options, Outcome, Program, Run, run};
use tributary_wire::JobId;

pub(crate) fn scenario(file: &str) -> Scenario {
    parse(file, "case.toml").unwrap()
}

/// Tensors for every worker of every job, equal in number and length.
pub(crate) fn inputs(scenario: &Scenario, tensors: usize, values: usize) -> Inputs {
    let number = |job: usize, worker: usize, round: usize, at: usize| {
        ((job * 31 + worker * 17 + round * 7 + at) % 1013) as f32 / 8.0 - 60.0
    };
    let jobs = scenario.jobs.iter().enumerate();
    jobs.map(|(job, description)| {
        let tensor = |worker, round| {
            Tensor::F32((0..values).map(|at| number(job, worker, round, at)).collect())
        };
        let of_worker = |worker| (0..tensors).map(|round| tensor(worker, round)).collect();
        (0..description.workers.len()).map(of_worker).collect()
    })
    .collect()
}

/// The program of the scenario's protocol.
pub(crate) fn program(scenario: &Scenario) -> Program {
    program_for(Architecture::V1model, scenario)
}

pub(crate) fn program_for(architecture: Architecture, scenario: &Scenario) -> Program {
    let protocol = scenario.jobs[0].protocol.name();
    let source = Source::built_in_for(architecture, protocol).unwrap();
    Program::compile(&source, &scenario.network.switch).unwrap()
}

/// Runs a case with the programs of both architectures and checks the invariants. Returns the
/// outcome with v1model's.
pub(crate) fn run_exactly(file: &str, tensors: usize, values: usize) -> (Scenario, Outcome) {
    let scenario = scenario(file);
    let inputs = inputs(&scenario, tensors, values);
    let exactly = |architecture: Architecture, scenario: &Scenario| {
        let program = program_for(architecture, scenario);
        let options = Options::seeded(scenario.seed);
        let outcome = run(scenario, &program, inputs.clone(), &options).unwrap();
        assert!(outcome.complete, "{architecture}: {}", describe(&outcome));
        check_exact(scenario, &inputs, &outcome.sums).unwrap();
        assert_eq!(outcome.left_behind, 0, "{architecture}: {}", describe(&outcome));
        outcome
    };
    // One pipe of a Tofino cannot sum more values per packet.
    let mut narrow = scenario.clone();
    narrow.network.switch.values_per_packet = 32;
    exactly(Architecture::Tna, &narrow);
    let outcome = exactly(Architecture::V1model, &scenario);
    (scenario, outcome)
}

pub(crate) fn packets(outcomes: &Outcomes, fate: Fate) -> u64 {
    outcomes[fate].packets
}

const FRAGMENTS: usize = 200;

#[test]
fn without_faults_the_switch_sums_everything() {
    let file = "[topology]\nkind = \"star\"\n[switch]\npool = 65536\n[[job]]\nworkers = 4\n";
    let (_, outcome) = run_exactly(file, 1, 64 * FRAGMENTS);
    let at_switch = &outcome.outcomes[0][0];
    let server = &outcome.servers[0];
    assert_eq!(server.completed, FRAGMENTS as u64);
    assert_eq!(server.complete_on_arrival + server.collisions, FRAGMENTS as u64);
    assert_eq!(packets(at_switch, Fate::Completed), server.complete_on_arrival);
    assert_eq!(packets(at_switch, Fate::Added), 2 * server.complete_on_arrival);
    // Two slots of one job may collide in an aggregator, but rarely with a pool of this size.
    assert!(server.collisions <= 4, "{server:?}");
    assert_eq!(outcome.swept[0], 0, "results free all aggregators");
}

#[test]
fn two_racks_add_at_both_levels() {
    let file = "[topology]\nkind = \"racks\"\nracks = 2\nhosts_per_rack = 2\nps_rack = 1\n\
                [switch]\npool = 65536\n[[job]]\nworkers = 4\n";
    let (scenario, outcome) = run_exactly(file, 1, 64 * FRAGMENTS);
    let near = scenario.network.topology.switch_named("rack1").unwrap().0;
    let far = scenario.network.topology.switch_named("rack2").unwrap().0;
    let (near, far) = (&outcome.outcomes[0][near], &outcome.outcomes[0][far]);
    let whole = outcome.servers[0].complete_on_arrival;
    assert!(whole >= FRAGMENTS as u64 - 4, "{:?}", outcome.servers[0]);
    // The far rack adds its two workers; the near one adds that sum to its own two.
    assert!(packets(far, Fate::Completed) >= whole);
    assert!(packets(near, Fate::Added) >= whole);
    assert!(packets(near, Fate::Completed) >= whole);
    assert_eq!(packets(far, Fate::Added), 0, "with two workers the second one completes");
}

#[test]
fn three_racks_meet_in_a_spine() {
    let file = "[topology]\nkind = \"racks\"\nracks = 3\nhosts_per_rack = 2\nps_rack = 2\n\
                [switch]\npool = 65536\n[[job]]\nworkers = 6\n";
    let (_, outcome) = run_exactly(file, 2, 64 * 50);
    assert!(outcome.servers[0].complete_on_arrival >= 96, "{:?}", outcome.servers[0]);
}

#[test]
fn two_jobs_share_a_pool_smaller_than_their_windows() {
    let file = "[topology]\nkind = \"star\"\nworkers = 4\n[protocol]\nslots = 64\n\
                window = 64\n[switch]\npool = 16\n\
                [[job]]\nworkers = [\"w1\", \"w2\"]\n[[job]]\nworkers = [\"w3\", \"w4\"]\n";
    let (_, outcome) = run_exactly(file, 3, 64 * 400);
    for job in 0..2 {
        let at_switch = &outcome.outcomes[job][0];
        assert!(packets(at_switch, Fate::Collided) > 0, "job {job} collides");
        assert!(packets(at_switch, Fate::Completed) > 0, "job {job} does not starve");
    }
}

#[test]
fn lossy_links_and_a_straggler() {
    let file = "seed = 3\n[topology]\nkind = \"star\"\n\
                [faults]\nloss = 0.1\nduplicate = 0.05\nreorder = 0.1\njitter = \"20us\"\n\
                [[job]]\nworkers = 4\n[[job.straggler]]\nworker = 2\ndelay = \"20ms\"\n";
    let (_, outcome) = run_exactly(file, 3, 64 * FRAGMENTS);
    assert!(outcome.faults.lost > 100 && outcome.faults.duplicated > 50);
    let at_switch = &outcome.outcomes[0][0];
    assert!(packets(at_switch, Fate::Flushed) > 0 && packets(at_switch, Fate::Duplicate) > 0);
}

#[test]
fn a_value_too_large_is_summed_as_floats() {
    let file = "[topology]\nkind = \"star\"\n[protocol]\nscale = 1e6\n[[job]]\nworkers = 3\n";
    let scenario = scenario(file);
    let mut inputs = inputs(&scenario, 1, 64 * 10);
    if let Tensor::F32(values) = &mut inputs[0][1][0] {
        values[64 * 4 + 7] = 1e9;
    }
    let outcome = run(&scenario, &program(&scenario), inputs.clone(), &Options::seeded(1)).unwrap();
    assert!(outcome.complete, "{}", describe(&outcome));
    check_exact(&scenario, &inputs, &outcome.sums).unwrap();
    assert_eq!(outcome.servers[0].overflow_tasks, 1);
    assert_eq!(outcome.workers[0][0].overflow_results, 1);
    assert_eq!(outcome.left_behind, 0);
}

#[test]
fn congestion_marks_reach_the_workers() {
    // The collided packets of many workers meet at the port of the parameter server.
    let file = "[topology]\nkind = \"star\"\n[protocol]\nslots = 256\nwindow = 256\n\
                [switch]\npool = 1\necn_threshold = 4\n[[job]]\nworkers = 8\n";
    let (_, outcome) = run_exactly(file, 1, 64 * 1000);
    assert!(outcome.servers[0].marked > 0);
    assert!(outcome.workers[0].iter().all(|worker| worker.marked > 0));
}

#[test]
fn a_dead_worker_is_named_and_the_switch_is_clean_afterwards() {
    let file = "worker_timeout = \"200ms\"\n[topology]\nkind = \"star\"\n[[job]]\nworkers = 3\n";
    let scenario = scenario(file);
    let inputs = inputs(&scenario, 1, 64 * 2000);
    let options = Options { limit: Duration::from_secs(2), ..Options::seeded(1) };
    let mut run = Run::start(&scenario, &program(&scenario), inputs, &options).unwrap();
    let dies = run.system.network.now() + Duration::from_micros(300);
    while run.system.network.now() < dies {
        assert!(run.step().unwrap());
    }
    run.system.network.kill(HostId(1), JobId::new(1).unwrap());
    while run.step().unwrap() {}
    let outcome = run.finish().unwrap();
    assert!(!outcome.complete);
    let named =
        |stall: &String| stall.starts_with("server") && stall.contains("missing: worker 1,");
    assert!(outcome.stalls.iter().any(named), "{:?}", outcome.stalls);
    assert_eq!(outcome.left_behind, 0);
}

/// Runs to the end while the host at port 4, which is in no job, sends packets of all protocols,
/// unchanged and with every header byte changed in turn, and all hosts receive parts of them.
pub(crate) fn bombard(run: &mut Run<'_>, scenario: &Scenario) {
    let golden: Vec<Vec<u8>> =
        tributary_wire::golden::VECTORS.iter().map(|vector| vector.bytes()).collect();
    let mut at = 0usize;
    while run.step().unwrap() {
        at += 1;
        let frame = &golden[at % golden.len()];
        run.system.network.inject(SwitchId(0), 4, frame);
        let mut mutated = frame.clone();
        let place = at % mutated.len().min(70);
        mutated[place] ^= 1 << (at % 8);
        run.system.network.inject(SwitchId(0), 4, &mutated);
        for host in scenario.network.topology.host_ids() {
            run.system.network.inject_host(host, &mutated[..mutated.len() - at % mutated.len()]);
        }
    }
}

#[test]
fn foreign_and_mutated_frames_change_no_sum() {
    let file = "[topology]\nkind = \"star\"\nworkers = 4\n[switch]\npool = 64\n\
                [[job]]\nworkers = [\"w1\", \"w2\", \"w3\"]\n";
    let scenario = scenario(file);
    let inputs = inputs(&scenario, 1, 64 * 300);
    let options = Options::seeded(1);
    let mut run = Run::start(&scenario, &program(&scenario), inputs.clone(), &options).unwrap();
    bombard(&mut run, &scenario);
    let outcome = run.finish().unwrap();
    assert!(outcome.complete, "{}", describe(&outcome));
    check_exact(&scenario, &inputs, &outcome.sums).unwrap();
    assert_eq!(outcome.left_behind, 0);
    let unattributed = &outcome.unattributed[0];
    assert!(
        packets(unattributed, Fate::Rejected) > 0 && packets(unattributed, Fate::Malformed) > 0
    );
}
