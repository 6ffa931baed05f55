//! ESA beyond the paper's cases: jobs that are killed, servers and agents that die and come back,
//! and invalid packets and messages.

use std::time::Duration;

use tributary_controller::outcomes::Outcome as Fate;
use tributary_controller::programs::Source;
use tributary_model::jobfile::parse;
use tributary_model::{Scenario, SwitchId};
use tributary_protocol::priority::Priority;
use tributary_protocol::{Recovery, Tensor, esa};
use tributary_sim::{Act, Held, Inputs, Options, Outcome, Process, Program, Run};
use tributary_wire::agg::{Kind, Repr};
use tributary_wire::channel::{FromWorker, Role, Values};
use tributary_wire::{
    AggregatorIndex, Audience, Bitmap, Ecn, Envelope, Flags, JobId, Protocol, Rack, Sequence,
    WorkerIndex, emit_frame,
};

use crate::exact::{check_exact, describe};

const VALUES: usize = 32;
const POOL: u32 = 4;

/// Two jobs of three workers each on a pool of a few cells.
fn scenario(more: &str, agent: &str) -> Scenario {
    let file = format!(
        "[topology]\nkind = \"star\"\nworkers = 6\nps_hosts = 4\n\
         [protocol]\nkind = \"esa\"\nvalues_per_packet = {VALUES}\nslots = 16\nwindow = 8\n\
         [switch]\npool = {POOL}\n{more}\
         [[job]]\nworkers = [\"w1\", \"w2\", \"w3\"]\nps = \"ps1\"\n{agent}\
         [[job]]\nworkers = [\"w4\", \"w5\", \"w6\"]\nps = \"ps2\"\n"
    );
    parse(&file, "esa.toml").unwrap()
}

fn inputs(scenario: &Scenario, fragments: usize) -> Inputs {
    let tensor = |job: usize, worker: usize| {
        let value = |at| ((job * 31 + worker * 17 + at) % 1013) as f32 / 8.0 - 60.0;
        Tensor::F32((0..VALUES * fragments).map(value).collect())
    };
    let jobs = scenario.jobs.iter().enumerate();
    jobs.map(|(job, its)| (0..its.workers.len()).map(|w| vec![tensor(job, w)]).collect()).collect()
}

fn start<'a>(scenario: &'a Scenario, inputs: &Inputs) -> Run<'a> {
    let program =
        Program::compile(&Source::built_in("esa").unwrap(), &scenario.network.switch).unwrap();
    let mut run = Run::start(scenario, &program, inputs.clone(), &Options::seeded(7)).unwrap();
    run.prioritize(vec![vec![Priority::new(20).unwrap()], vec![Priority::new(90).unwrap()]]);
    run
}

fn finish_exactly(run: Run<'_>, scenario: &Scenario, inputs: &Inputs) -> Outcome {
    let outcome = run.finish().unwrap();
    assert!(outcome.complete, "{}", describe(&outcome));
    check_exact(scenario, inputs, &outcome.sums).unwrap();
    assert_eq!((outcome.left_behind, outcome.leaks.len()), (0, 0), "{}", describe(&outcome));
    outcome
}

fn go_to(run: &mut Run<'_>, time: Duration) {
    let until = tributary_protocol::Time::ZERO + time;
    while run.system.network.now() < until && run.step().unwrap() {}
}

fn job_id(number: u16) -> JobId {
    JobId::new(number).unwrap()
}

#[test]
fn a_killed_job_leaves_no_aggregator_at_whatever_time_it_dies() {
    let scenario = scenario("[faults]\nloss = 0.05\nduplicate = 0.1\nreorder = 0.1\n", "");
    let inputs = inputs(&scenario, 40);
    let mut held_when_killed = 0;
    // The job that frees its aggregators, and the one that takes them.
    for (job, microseconds) in (0..2).flat_map(|job| (0..200).step_by(10).map(move |at| (job, at)))
    {
        let mut run = start(&scenario, &inputs);
        go_to(&mut run, Duration::from_micros(microseconds));
        let held = |run: &Run<'_>| {
            let id = job_id(job as u16 + 1);
            run.held().into_iter().filter(|held| held.job == Some(id)).count()
        };
        held_when_killed += held(&run);
        run.at(Duration::from_micros(microseconds), Act::End(job));
        // The sweep, and everything of the job that was still in flight.
        while run.step().unwrap() {
            if run.has_ended(job) {
                assert_eq!(held(&run), 0, "{job} killed after {microseconds} µs");
            }
        }
        let outcome = run.finish().unwrap();
        assert_eq!((outcome.left_behind, outcome.leaks.len()), (0, 0), "{microseconds} µs");
        assert_eq!(outcome.outstanding, 0, "the other job goes on");
    }
    assert!(
        held_when_killed > 20,
        "jobs held {held_when_killed} aggregators when they were killed"
    );
}

#[test]
fn aggregators_belong_to_live_tasks_or_are_freed() {
    let scenario = scenario("[faults]\nloss = 0.1\nduplicate = 0.1\n", "");
    let inputs = inputs(&scenario, 60);
    let mut run = start(&scenario, &inputs);
    while run.step().unwrap() {
        for Held { cell, job, sequence, .. } in run.held() {
            let job = job.unwrap();
            assert!(cell < u64::from(POOL) && (1..=2).contains(&job.get()), "{cell} {job}");
            assert!(sequence.0 < 60, "{sequence}");
        }
    }
    finish_exactly(run, &scenario, &inputs);
}

#[test]
fn the_server_dies_and_comes_back() {
    let scenario = scenario("[faults]\nloss = 0.05\n", "");
    let inputs = inputs(&scenario, 240);
    // At many times, because different state is lost each time.
    let mut reopened = 0;
    for microseconds in (20..2_000).step_by(90) {
        let mut run = start(&scenario, &inputs);
        run.at(Duration::from_micros(microseconds), Act::StopServer(0));
        run.at(Duration::from_micros(microseconds + 700), Act::StartServer(0));
        let roles = [0, 1, 2].map(|index| Role::Worker(WorkerIndex::new(index).unwrap()));
        while run.step().unwrap() {
            let twice = |role: &Role| run.system.network.openings(job_id(1), *role) == 2;
            reopened += u64::from(roles.iter().any(twice));
        }
        finish_exactly(run, &scenario, &inputs);
    }
    assert!(reopened > 0, "workers connected again");
}

#[test]
fn a_server_that_stays_away_fails_the_job_clearly_and_no_other() {
    let scenario = scenario("[faults]\nloss = 0.1\n", "");
    let inputs = inputs(&scenario, 60);
    let program =
        Program::compile(&Source::built_in("esa").unwrap(), &scenario.network.switch).unwrap();
    let mut run = Run::start(&scenario, &program, inputs.clone(), &Options::seeded(7)).unwrap();
    run.at(Duration::from_micros(50), Act::StopServer(0));
    while run.step().unwrap() {}
    let outcome = run.finish().unwrap();
    assert!(outcome.outstanding > 0);
    let named = |stall: &String| stall.starts_with("worker of job 1") && stall.contains("Stalled");
    assert!(outcome.stalls.iter().any(named), "{:?}", outcome.stalls);
    assert!(outcome.sums[1].iter().all(|own| own.len() == 1), "job 2 is complete");
    assert_eq!((outcome.left_behind, outcome.leaks.len()), (0, 0));
}

#[test]
fn an_agent_on_a_host_of_its_own_dies_and_comes_back() {
    let mut scenario = scenario("[faults]\nloss = 0.05\n", "agent = \"ps3\"\n");
    // Under these rules, nothing but the channels repairs and ends a job.
    scenario.network.recovery = Recovery::Papers;
    let inputs = inputs(&scenario, 60);
    for microseconds in (20..2_000).step_by(190) {
        let mut run = start(&scenario, &inputs);
        run.at(Duration::from_micros(microseconds), Act::StopAgent(0));
        run.at(Duration::from_micros(microseconds + 700), Act::StartAgent(0));
        run.at(Duration::from_micros(2 * microseconds), Act::Cut(0, 1));
        while run.step().unwrap() {}
        let outcome = finish_exactly(run, &scenario, &inputs);
        assert!(outcome.messages > 0);
    }
}

/// A packet of job 1, as the worker with this number sends it.
fn packet(scenario: &Scenario, worker: usize, kind: Kind, priority: u8, sequence: u32) -> Vec<u8> {
    let job = &scenario.jobs[0];
    let address = |host: tributary_model::HostId| scenario.network.topology.host(host).address;
    let envelope = Envelope {
        source: address(job.workers[worker]),
        destination: address(job.server()),
        ecn: Ecn::Ect0,
    };
    let repr = Repr {
        protocol: Protocol::Esa,
        kind,
        flags: Flags::NONE,
        priority,
        job: job.id,
        epoch: job.epoch,
        values: VALUES as u16,
        sequence: Sequence(sequence),
        bitmap: Bitmap::of(worker as u8),
        rack: Rack::NONE,
        audience: Audience::ALL,
        index: AggregatorIndex(0),
    };
    let mut frame = Vec::new();
    emit_frame(&mut frame, &envelope, &repr);
    frame
}

fn port_of(scenario: &Scenario, host: tributary_model::HostId) -> u16 {
    scenario.network.topology.attachment(host).1
}

#[test]
fn a_priority_out_of_range_is_dropped_and_counted() {
    let scenario = scenario("", "");
    let inputs = inputs(&scenario, 20);
    let mut run = start(&scenario, &inputs);
    let port = port_of(&scenario, scenario.jobs[0].workers[1]);
    for sequence in 0..20 {
        run.system.network.inject(
            SwitchId(0),
            port,
            &packet(&scenario, 1, Kind::Gradient, 0, sequence),
        );
    }
    while run.step().unwrap() {}
    let outcome = finish_exactly(run, &scenario, &inputs);
    assert_eq!(outcome.outcomes[0][0][Fate::Malformed].packets, 20);
}

#[test]
fn reminders_of_unknown_jobs_or_senders_are_dropped_and_counted() {
    let scenario = scenario("", "");
    let inputs = inputs(&scenario, 20);
    let mut run = start(&scenario, &inputs);
    let worker = port_of(&scenario, scenario.jobs[0].workers[0]);
    let server = port_of(&scenario, scenario.jobs[0].server());
    // A worker may not send reminders, whatever they name.
    for sequence in 0..20 {
        run.system.network.inject(
            SwitchId(0),
            worker,
            &packet(&scenario, 0, Kind::Reminder, 0, sequence),
        );
    }
    // At the agent's port, for an unknown job.
    let mut unknown = packet(&scenario, 0, Kind::Reminder, 0, 3);
    let job = tributary_wire::agg::OFFSET + tributary_wire::agg::field::JOB.start;
    unknown[job..job + 2].copy_from_slice(&77_u16.to_be_bytes());
    run.system.network.inject(SwitchId(0), server, &unknown);
    while run.step().unwrap() {}
    let outcome = finish_exactly(run, &scenario, &inputs);
    let rejected = outcome.unattributed[0][Fate::Rejected].packets;
    assert_eq!(rejected, 21, "{:?}", outcome.unattributed[0]);
    assert_eq!(outcome.outcomes[0][0][Fate::Reminded].packets, outcome.esa[0].agent.fetched);
}

#[test]
fn a_reminder_for_an_unknown_task_finds_nothing_and_frees_nothing() {
    let scenario = scenario("", "");
    let inputs = inputs(&scenario, 20);
    let mut run = start(&scenario, &inputs);
    let server = port_of(&scenario, scenario.jobs[0].server());
    let mut frame = packet(&scenario, 0, Kind::Reminder, 0, 1_000_000);
    let bitmap = tributary_wire::agg::OFFSET + tributary_wire::agg::field::BITMAP.start;
    frame[bitmap..bitmap + 4].copy_from_slice(&0b111_u32.to_be_bytes());
    let before = run.held();
    run.system.network.inject(SwitchId(0), server, &frame);
    assert_eq!(run.held(), before);
    while run.step().unwrap() {}
    let outcome = finish_exactly(run, &scenario, &inputs);
    assert_eq!(outcome.outcomes[0][0][Fate::Absent].packets, outcome.esa[0].agent.absent + 1);
}

/// Counters of the server and the agent of job 1.
fn counted(run: &Run<'_>, scenario: &Scenario) -> (esa::Server, esa::agent::Stats) {
    let processes = run.system.network.processes(scenario.jobs[0].server());
    let both = processes.iter().find_map(|process| match process {
        Process::Esa(_, backend) => Some(backend),
        _ => None,
    });
    let both = both.unwrap();
    (both.servers()[0].clone(), *both.agent().stats().next().unwrap().1)
}

/// Sends messages for fragments far ahead, as if from a worker of job 1, during a run, and
/// continues until they have been `taken`.
fn forge<'a>(
    scenario: &'a Scenario,
    inputs: &Inputs,
    messages: impl Fn(Sequence, Values) -> Vec<FromWorker>,
    taken: impl Fn(&esa::Server, &esa::agent::Stats) -> bool,
) -> Run<'a> {
    let mut run = start(scenario, inputs);
    go_to(&mut run, Duration::from_micros(400));
    let worker = WorkerIndex::new(2).unwrap();
    for ahead in 0..FORGED {
        let sequence = Sequence(1_000_000 + 977 * ahead);
        let values = Values { float: false, payload: vec![0x55; 4 * VALUES].into() };
        for message in messages(sequence, values) {
            assert!(run.system.network.inject_message(job_id(1), worker, &message));
        }
    }
    let is_taken = |run: &Run<'_>| {
        let (server, agent) = counted(run, scenario);
        taken(&server, &agent)
    };
    while !is_taken(&run) && run.step().unwrap() {}
    run
}

const FORGED: u32 = 2_000;

#[test]
fn forged_answers_for_fragments_far_ahead_are_dropped_and_counted() {
    let scenario = scenario("[faults]\nloss = 0.02\n", "");
    let inputs = inputs(&scenario, 3_000);
    let messages = |sequence, values: Values| {
        vec![
            FromWorker::Values { sequence, values: values.clone() },
            FromWorker::Result { sequence, values },
            FromWorker::NotSent { sequence },
            FromWorker::Over { sequence },
        ]
    };
    let forged = u64::from(FORGED);
    let taken = |_: &esa::Server, agent: &esa::agent::Stats| agent.over >= forged;
    let mut run = forge(&scenario, &inputs, messages, taken);
    let (server, agent) = counted(&run, &scenario);
    // These values and results were not requested; other messages count only for watched fragments.
    assert!(agent.stale >= 2 * forged, "{agent:?}");
    assert!(agent.not_sent >= forged && agent.over >= forged, "{agent:?}");
    // An entry is closed by a requested answer, or because all workers are past it.
    let (known, asked) = (server.stats().known, server.stats().questions);
    let closed = known + server.stats().over;
    assert!(
        known <= asked + agent.queries && closed < forged / 10,
        "{agent:?}, {:?}",
        server.stats()
    );
    while run.step().unwrap() {}
    finish_exactly(run, &scenario, &inputs);
}

#[test]
fn forged_reminders_for_fragments_far_ahead_cost_no_memory_and_stop_nobody() {
    let scenario = scenario("[faults]\nloss = 0.02\n", "");
    let inputs = inputs(&scenario, 1_000);
    let remind = |sequence, _| vec![FromWorker::Remind { sequence }];
    let refused = u64::from(FORGED) - 32;
    let taken = |server: &esa::Server, _: &esa::agent::Stats| server.stats().full >= refused;
    let mut run = forge(&scenario, &inputs, remind, taken);
    let (server, agent) = counted(&run, &scenario);
    // A dictionary holds at most twice the 16 slots.
    assert!(server.pending_tasks() <= 32, "{}", server.pending_tasks());
    assert!(server.stats().full >= refused, "{:?}", server.stats());
    assert!(agent.watched <= 32 + server.stats().entries, "{agent:?}");
    // A lower fragment replaces the highest one's entry, so the job itself also continues.
    while run.step().unwrap() {}
    finish_exactly(run, &scenario, &inputs);
}

/// The channels are TCP over the same links, so no message passes a link that loses everything.
#[test]
fn nothing_is_summed_over_links_that_lose_everything() {
    for agent in ["", "agent = \"ps3\"\n"] {
        let scenario = scenario("[faults]\nloss = 1.0\n", agent);
        let inputs = inputs(&scenario, 3);
        let program =
            Program::compile(&Source::built_in("esa").unwrap(), &scenario.network.switch).unwrap();
        let options = Options { limit: Duration::from_secs(100), ..Options::seeded(1) };
        let mut run = Run::start(&scenario, &program, inputs.clone(), &options).unwrap();
        while run.step().unwrap() {}
        let worker = Role::Worker(WorkerIndex::new(0).unwrap());
        assert_eq!(run.system.network.openings(job_id(1), worker), 0);
        let outcome = run.finish().unwrap();
        assert!(!outcome.complete && outcome.sums.iter().flatten().all(Vec::is_empty));
        assert_eq!((outcome.messages, outcome.outstanding), (0, 6));
    }
}

/// A result that only the channel can deliver arrives when TCP has resent its segments, and not
/// before.
#[test]
fn a_link_that_is_down_delays_the_channel() {
    let scenario = scenario("", "");
    let inputs = inputs(&scenario, 30);
    let link = scenario.network.topology.host(scenario.jobs[0].workers[0]).link;
    let mut run = start(&scenario, &inputs);
    run.at(Duration::from_micros(3), Act::Down(link));
    run.at(Duration::from_millis(300), Act::Up(link));
    while run.step().unwrap() {}
    let outcome = finish_exactly(run, &scenario, &inputs);
    assert!(outcome.time > Duration::from_millis(300), "{:?}", outcome.time);
    assert!(outcome.messages > 0);
}
