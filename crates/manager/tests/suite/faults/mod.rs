//! Fault injection at every step: the manager, agents and connections fail at every point.

mod world;

use std::collections::VecDeque;

use proptest::prelude::*;
use tributary_manager::database::Redb;
use tributary_manager::durable::Store;

use world::{InMemory, Moment, World, request};

/// Inputs besides those that follow automatically.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Submit(u64, u32),
    Cancel(u32),
}

/// A job on one server, one on two, and one that waits for the second job's GPUs.
const THREE_JOBS: &[Deed] = &[Deed::Submit(1, 1), Deed::Submit(2, 4), Deed::Submit(3, 3)];

/// A job on three servers that is cancelled.
const CANCELLED: &[Deed] = &[Deed::Submit(1, 5), Deed::Cancel(1)];

/// A fault before step n.
#[derive(Clone, Copy, Debug)]
enum Fault {
    KillAgent(&'static str),
    Cut(&'static str),
    /// For longer than a lease.
    Isolate(&'static str),
    Wipe,
    LongNight,
}

/// Runs a scenario: a few steps after each input, then to the end. Returns the number of steps and
/// the world.
fn play<S: Store>(
    store: S,
    deeds: &[Deed],
    crashes: &[usize],
    fault: Option<(usize, Fault)>,
) -> (usize, World<S>) {
    let mut world = World::new(store);
    world.crashes = crashes.iter().map(|&at| Moment(at)).collect::<VecDeque<_>>();
    let mut steps = 0;
    let mut step = |world: &mut World<S>| {
        if let Some((at, fault)) = fault
            && at == steps
        {
            match fault {
                Fault::KillAgent(name) => world.kill_agent(name),
                Fault::Cut(name) => world.cut(name),
                Fault::Isolate(name) => world.isolate(name),
                Fault::Wipe => world.wipe_switches(),
                Fault::LongNight => world.long_night(),
            }
        }
        steps += 1;
        world.start_manager();
        for name in ["w1", "w2", "w3"] {
            world.start_agent(name);
        }
        let choice = world.choices().remove(0);
        world.step(choice);
    };
    world.start_manager();
    for &deed in deeds {
        for _ in 0..12 {
            step(&mut world);
        }
        world.start_manager();
        match deed {
            Deed::Submit(ticket, gpus) => world.submit(ticket, request(&ticket.to_string(), gpus)),
            Deed::Cancel(job) => world.cancel(job),
        }
    }
    for _ in 0..60 {
        step(&mut world);
    }
    world.drain();
    world.check_over();
    (steps, world)
}

#[test]
fn without_faults_every_job_is_started_once() {
    let (_, world) = play(InMemory::default(), THREE_JOBS, &[], None);
    assert_eq!(world.ends(), ["finished"; 3]);
    assert_eq!(world.attempts(), [1; 3]);
    let (_, world) = play(InMemory::default(), CANCELLED, &[], None);
    assert_eq!(world.ends(), ["cancelled"]);
}

/// The manager dies before and after each of its actions. No job is lost, started twice or set
/// back: agents keep their processes running.
#[test]
fn the_manager_may_die_at_every_moment() {
    let (_, world) = play(InMemory::default(), THREE_JOBS, &[], None);
    let moments = world.moment.0;
    assert!(moments > 60, "{moments}");
    for at in 1..=moments {
        let (_, world) = play(InMemory::default(), THREE_JOBS, &[at], None);
        assert_eq!(world.ends(), ["finished"; 3], "at {at}: {:#?}", world.log);
        assert_eq!(world.attempts(), [1; 3], "at {at}: {:#?}", world.log);
    }
}

/// The manager dies a second time while it restores its state.
#[test]
fn the_manager_may_die_at_every_two_moments() {
    let (_, world) = play(InMemory::default(), &THREE_JOBS[..2], &[], None);
    let moments = world.moment.0;
    for first in 1..=moments {
        for second in 1..=24 {
            let crashes = [first, first + second];
            let (_, world) = play(InMemory::default(), &THREE_JOBS[..2], &crashes, None);
            assert_eq!(world.ends(), ["finished"; 2], "{crashes:?}: {:#?}", world.log);
            assert_eq!(world.attempts(), [1; 2], "{crashes:?}: {:#?}", world.log);
        }
    }
}

/// The same with a real database file, which is opened anew each time.
#[test]
fn the_manager_may_die_at_every_moment_with_a_database() {
    let directory = tempfile::tempdir().unwrap();
    let (_, world) = play(InMemory::default(), &THREE_JOBS[1..2], &[], None);
    for at in 1..=world.moment.0 {
        let path = directory.path().join(format!("{at}.redb"));
        let (_, world) = play(Redb::open(&path).unwrap(), &THREE_JOBS[1..2], &[at], None);
        assert_eq!(world.ends(), ["finished"], "at {at}: {:#?}", world.log);
        let before = world.store.load().unwrap();
        drop(world);
        assert_eq!(Redb::open(&path).unwrap().load().unwrap(), before);
    }
}

#[test]
fn a_cancelled_job_stays_cancelled_whenever_the_manager_dies() {
    let (_, world) = play(InMemory::default(), CANCELLED, &[], None);
    for at in 1..=world.moment.0 {
        // A client whose cancellation was not answered would repeat it. Here no client does, so the
        // job may finish.
        let (_, world) = play(InMemory::default(), CANCELLED, &[at], None);
        let ends = world.ends();
        assert!(matches!(ends[..], ["cancelled" | "finished"]), "at {at}: {ends:?}");
    }
}

/// An agent dies at each step. Its processes run again; the processes of other agents are not
/// affected.
#[test]
fn an_agent_may_die_at_every_step() {
    let (steps, _) = play(InMemory::default(), THREE_JOBS, &[], None);
    let mut again = 0;
    for at in 0..steps {
        for name in ["w1", "w2", "w3"] {
            let fault = Some((at, Fault::KillAgent(name)));
            let (_, world) = play(InMemory::default(), THREE_JOBS, &[], fault);
            assert_eq!(world.ends(), ["finished"; 3], "{name} at {at}: {:#?}", world.log);
            let attempts = world.attempts();
            assert!(attempts.iter().all(|&attempts| attempts <= 2), "{attempts:?}");
            again += u32::from(attempts != [1; 3]);
        }
    }
    assert!(again > 20, "agents that die set jobs back: {again}");
}

/// A connection breaks at each step and is restored before the lease expires: no job is set back.
#[test]
fn a_connection_may_break_at_every_step() {
    let (steps, _) = play(InMemory::default(), THREE_JOBS, &[], None);
    for at in 0..steps {
        for name in ["w1", "w2", "w3"] {
            let fault = Some((at, Fault::Cut(name)));
            let (_, world) = play(InMemory::default(), THREE_JOBS, &[], fault);
            assert_eq!(world.ends(), ["finished"; 3], "{name} at {at}: {:#?}", world.log);
            assert_eq!(world.attempts(), [1; 3], "{name} at {at}: {:#?}", world.log);
        }
    }
}

/// From each step on, an agent is unreachable for longer than its lease. It ends its processes
/// before the manager runs them elsewhere.
#[test]
fn an_agent_may_be_isolated_at_every_step() {
    let (steps, _) = play(InMemory::default(), THREE_JOBS, &[], None);
    let mut again = 0;
    for at in 0..steps {
        for name in ["w1", "w2", "w3"] {
            let fault = Some((at, Fault::Isolate(name)));
            let (_, world) = play(InMemory::default(), THREE_JOBS, &[], fault);
            assert_eq!(world.ends(), ["finished"; 3], "{name} at {at}: {:#?}", world.log);
            again += u32::from(world.attempts() != [1; 3]);
        }
    }
    assert!(again > 10, "agents that are isolated set jobs back: {again}");
}

/// From each step on, there is no manager for longer than a lease. The agents end their processes,
/// and the next manager runs them again. This does not count as a failure.
#[test]
fn the_manager_may_be_away_for_long_at_every_step() {
    let (steps, _) = play(InMemory::default(), THREE_JOBS, &[], None);
    let mut again = 0;
    for at in 0..steps {
        let fault = Some((at, Fault::LongNight));
        let (_, world) = play(InMemory::default(), THREE_JOBS, &[], fault);
        assert_eq!(world.ends(), ["finished"; 3], "at {at}: {:#?}", world.log);
        again += u32::from(world.attempts() != [1; 3]);
    }
    assert!(again > 5, "jobs that were given up are run again: {again}");
}

#[test]
fn the_controller_may_be_started_again_at_every_step() {
    let (steps, _) = play(InMemory::default(), THREE_JOBS, &[], None);
    for at in 0..steps {
        let fault = Some((at, Fault::Wipe));
        let (_, world) = play(InMemory::default(), THREE_JOBS, &[], fault);
        assert_eq!(world.ends(), ["finished"; 3], "at {at}: {:#?}", world.log);
        assert_eq!(world.attempts(), [1; 3], "at {at}: {:#?}", world.log);
    }
}

/// An agent dies at each step and the manager at each moment around it.
#[test]
fn agent_and_manager_may_die_together() {
    let deeds = &THREE_JOBS[1..2];
    let (steps, world) = play(InMemory::default(), deeds, &[], None);
    for at in (0..steps).step_by(2) {
        for crash in 1..=world.moment.0 {
            let fault = Some((at, Fault::KillAgent("w2")));
            let (_, world) = play(InMemory::default(), deeds, &[crash], fault);
            assert_eq!(world.ends(), ["finished"], "{crash}, {at}: {:#?}", world.log);
        }
    }
}

/// The next step of a random history.
#[derive(Clone, Debug)]
enum Random {
    /// One of the possible steps.
    Step(usize),
    Submit(u32),
    Cancel(u32),
    KillManager,
    KillAgent(usize),
    StartAgent(usize),
    Cut(usize),
    Isolate(usize),
    Wipe,
    LongNight,
}

fn random() -> impl Strategy<Value = Random> {
    prop_oneof![
        60 => (0..64_usize).prop_map(Random::Step),
        4 => (1..=6_u32).prop_map(Random::Submit),
        1 => (1..=6_u32).prop_map(Random::Cancel),
        2 => Just(Random::KillManager),
        1 => (0..3_usize).prop_map(Random::KillAgent),
        4 => (0..3_usize).prop_map(Random::StartAgent),
        2 => (0..3_usize).prop_map(Random::Cut),
        1 => (0..3_usize).prop_map(Random::Isolate),
        1 => Just(Random::Wipe),
        1 => Just(Random::LongNight),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// In any order of events the invariants hold after every step, and in the end every job is
    /// over and has released its resources.
    #[test]
    fn random_histories(history in prop::collection::vec(random(), 1..250)) {
        let names = ["w1", "w2", "w3"];
        let mut world = World::new(InMemory::default());
        let mut tickets = 0;
        let mut cancelled = false;
        for random in history {
            match random {
                Random::Step(at) => {
                    world.start_manager();
                    let choices = world.choices();
                    world.step(choices[at % choices.len()].clone());
                }
                Random::Submit(gpus) => {
                    tickets += 1;
                    world.submit(tickets, request(&tickets.to_string(), gpus));
                }
                Random::Cancel(job) => {
                    cancelled = true;
                    world.cancel(job);
                }
                Random::KillManager => world.kill_manager(),
                Random::KillAgent(at) => world.kill_agent(names[at]),
                Random::StartAgent(at) => world.start_agent(names[at]),
                Random::Cut(at) => world.cut(names[at]),
                Random::Isolate(at) => world.isolate(names[at]),
                Random::Wipe => world.wipe_switches(),
                Random::LongNight => world.long_night(),
            }
        }
        world.drain();
        world.check_over();
        prop_assert_eq!(world.answered.len(), tickets as usize);
        if !cancelled {
            prop_assert!(world.ends().iter().all(|end| *end == "finished"), "{:#?}", world.log);
        }
    }
}
