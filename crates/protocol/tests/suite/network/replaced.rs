//! A PS dies in the middle of a job, and one without state replaces it.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_protocol::worker::Tensor;
use tributary_protocol::{Endpoint, ParameterServer, Time};
use tributary_wire::agg::Repr;
use tributary_wire::{Bitmap, Flags, Kind};

use crate::network::exact::{Load, random_faults, random_setup, run_in};
use crate::network::frames::{Sent, frame, index, repr, sent, us};
use crate::network::net::{Fabric, Net, Node, QUIET, Setup, host};

const FABRICS: [Fabric; 3] = [Fabric::Direct, Fabric::OneSwitch, Fabric::TwoLevels];
const RESEND: Flags = Flags::RESEND;

/// Runs a tensor of ten fragments through a network that drops the frames selected by the filter,
/// and replaces the PS as soon as `when` holds.
fn run(
    fabric: Fabric,
    setup: Setup,
    filter: impl FnMut(Node, Node, &Repr) -> bool + 'static,
    when: impl Fn(&Net) -> bool,
) -> Net {
    let mut net = Net::new(1, fabric, QUIET, &[setup]);
    net.filter = Some(Box::new(filter));
    for (w, worker) in net.jobs[0].workers.iter_mut().enumerate() {
        let values = (0..40).map(|i| i * (w as i32 + 1)).collect();
        worker.submit(Tensor::I32(values)).unwrap();
    }
    net.run_until("the death", when);
    net.replace_server(0);
    net.filter = None;
    net.run_until(&format!("{fabric:?}"), Net::all_idle);
    let sums = Tensor::I32((0..40).map(|i| i * 6).collect());
    assert!(net.jobs[0].results.iter().all(|results| results[0].1 == sums));
    net
}

fn is_result(repr: &Repr) -> bool {
    matches!(repr.kind, Kind::Parameter | Kind::Reply)
}

fn adopted(net: &Net) -> u64 {
    net.jobs[0].server.stats().adopted
}

#[test]
fn before_the_server_has_sent_a_result() {
    for fabric in FABRICS {
        let nothing = |from, _, repr: &Repr| matches!(from, Node::Server(_)) && is_result(repr);
        let net =
            run(fabric, Setup::default(), nothing, |net| net.jobs[0].server.stats().completed >= 3);
        assert_eq!(adopted(&net), 0, "{fabric:?}");
    }
}

#[test]
fn when_some_workers_have_a_result_that_others_lack() {
    for fabric in FABRICS {
        for lacking in [0, 1, 2] {
            // The results of the first and the last fragment do not reach one worker.
            let lost = move |_, to, repr: &Repr| {
                to == Node::Worker(0, lacking)
                    && is_result(repr)
                    && [0, 9].contains(&repr.sequence.0)
            };
            let net = run(fabric, Setup::default(), lost, |net| {
                let others = (0..3).filter(|w| *w != lacking);
                let ends: Vec<u32> =
                    others.map(|w| net.jobs[0].workers[w].outstanding().start.0).collect();
                ends.iter().all(|end| *end == 8 || *end == 10)
            });
            assert!(adopted(&net) > 0, "{fabric:?}");
            let handed = |w: usize| net.jobs[0].workers[w].stats().handed_over;
            assert_eq!(handed(lacking), 0, "who lacks a result cannot hand it over");
            assert!((0..3).map(handed).sum::<u64>() > 0);
        }
    }
}

#[test]
fn when_only_one_worker_has_a_result() {
    for fabric in FABRICS {
        for has in [0, 1, 2] {
            let lost = move |_, to, repr: &Repr| match to {
                Node::Worker(_, w) => w != has && is_result(repr) && repr.sequence.0 == 4,
                _ => false,
            };
            let net = run(fabric, Setup::default(), lost, |net| {
                net.jobs[0].workers[has].stats().results >= 8
            });
            assert_eq!(adopted(&net), 1, "{fabric:?}");
        }
    }
}

#[test]
fn when_switches_hold_partial_sums_or_flushed_them_to_the_old_server() {
    for fabric in [Fabric::OneSwitch, Fabric::TwoLevels] {
        // Worker 2 is silent until then. The other workers' values wait in the switch, and are
        // resent.
        let late = |from, _, repr: &Repr| from == Node::Worker(0, 2) && repr.kind == Kind::Gradient;
        for resends in [0, 1] {
            run(fabric, Setup::default(), late, move |net| {
                let counters = net.switches.iter().map(|switch| switch.counters);
                let (held, flushed) =
                    counters.fold((0, 0), |(h, f), c| (h + c.absorbed, f + c.flushed));
                held > 0 && flushed >= resends
            });
        }
    }
}

#[test]
fn when_slots_have_moved_by_collisions() {
    // Two jobs in a pool of two aggregators: salts change all the time.
    let setup = Setup { pool: 2, ..Setup::default() };
    let mut net = Net::new(5, Fabric::OneSwitch, QUIET, &[setup, setup]);
    let mut replaced = 0;
    for job in &mut net.jobs {
        for worker in &mut job.workers {
            worker.submit(Tensor::I32((0..2000).collect())).unwrap();
        }
    }
    while !net.all_idle() {
        let done = net.jobs[0].workers[0].stats().results;
        if done / 50 > replaced {
            replaced += 1;
            net.replace_server(0);
        }
        assert!(net.step() && net.now < Time::from_nanos(60_000_000_000));
    }
    net.drain();
    assert!(replaced >= 9, "{replaced}");
    let moved: u64 = net.jobs[0].gone.iter().map(|stats| stats.collisions).sum();
    assert!(moved > 100, "{moved}");
    let sums = Tensor::I32((0..2000).map(|i| 3 * i).collect());
    assert!(net.jobs.iter().flat_map(|job| &job.results).all(|results| results[0].1 == sums));
}

#[test]
fn random_jobs_whose_servers_are_replaced_at_random_times_are_exact() {
    let (mut replaced, mut adopted, mut floats) = (0, 0, 0);
    for (fabric, jobs) in FABRICS.into_iter().zip([1, 1, 2]) {
        for seed in 0..150 {
            let rng = &mut ChaCha8Rng::seed_from_u64(seed ^ 0x6465_6164);
            let faults = random_faults(rng);
            let pool = rng.random_range(1..=64);
            let loads: Vec<Load> = (0..jobs)
                .map(|_| {
                    let setup = Setup { pool, ..random_setup(rng) };
                    Load::random(rng, setup, 0.01)
                })
                .collect();
            let setups: Vec<Setup> = loads.iter().map(|load| load.setup).collect();
            let mut net = Net::new(seed, fabric, faults, &setups);
            let spread = *[300_000, 3_000_000, 40_000_000].get(seed as usize % 3).unwrap();
            let mut at = Time::ZERO;
            for _ in 0..20 {
                at += Duration::from_nanos(rng.random_range(0..spread));
                net.replacements.insert(0, (at, rng.random_range(0..jobs)));
            }
            let net = run_in(net, &format!("seed {seed}, {fabric:?}, {setups:?}"), &loads);
            for job in &net.jobs {
                replaced += job.gone.len();
                let all = job.gone.iter().chain([job.server.stats()]);
                adopted += all.clone().map(|stats| stats.adopted).sum::<u64>();
                floats += all.map(|stats| stats.overflow_tasks).sum::<u64>();
            }
        }
    }
    // The tested case did occur.
    assert!(replaced > 2000 && adopted > 500 && floats > 200, "{replaced} {adopted} {floats}");
}

// --- Unit tests of the successor ----------------------------------------------------------------

fn successor() -> ParameterServer {
    let setup = Setup { workers: 3, values: 2, slots: 4, ..Setup::default() };
    ParameterServer::successor(setup.server(0)).unwrap()
}

fn give(ps: &mut ParameterServer, at: u64, repr: Repr, words: &[i32]) -> Vec<Sent> {
    ps.handle_frame(us(at), &frame(&repr, words));
    sent(ps, us(at))
}

#[test]
fn asks_for_a_lost_result_and_forwards_it() {
    let mut ps = successor();
    let job = ps.config().job;
    let gradient = |sequence, bitmap, flags| repr(&job, Kind::Gradient, sequence, bitmap, flags);
    // Worker 0 already has the result of 1000.
    assert!(give(&mut ps, 0, gradient(1004, 0b001, Flags::NONE), &[5, 5]).is_empty());
    let asked = give(&mut ps, 1, gradient(1000, 0b010, RESEND), &[1, 1]);
    let queries: Vec<_> = asked.iter().map(|s| (s.repr.kind, s.repr.sequence.0)).collect();
    assert_eq!(queries, [(Kind::Query, 1000); 3]);
    assert!(asked.iter().all(|query| query.repr.flags == Flags::HAND_OVER));
    // At most once per timeout, whatever arrives.
    assert!(give(&mut ps, 2, gradient(1000, 0b010, RESEND), &[1, 1]).is_empty());
    // Worker 0 hands it over. Its slot has advanced to the next salt.
    let mut result = gradient(1000, 0b001, Flags::RESULT);
    (result.index, result.priority) = (index(&job, 1000, 1), 1);
    let replies = give(&mut ps, 3, result, &[70, 80]);
    let to: Vec<_> = replies.iter().map(|s| (s.repr.kind, s.envelope.destination)).collect();
    assert_eq!(to, [(Kind::Reply, host(0, 1))]);
    let repr = replies[0].repr;
    assert_eq!((repr.sequence.0, repr.bitmap, repr.flags), (1000, job.whole(), Flags::NONE));
    assert_eq!((repr.index, repr.priority, &replies[0].words), (result.index, 1, &vec![70, 80]));
    // It is now served like any other result, and values collected meanwhile are kept.
    let again = give(&mut ps, 4, gradient(1000, 0b100, RESEND), &[1, 1]);
    assert_eq!(again[0].words, [70, 80]);
    let done = give(&mut ps, 5, gradient(1004, 0b110, RESEND), &[1, 2]);
    assert_eq!((done[0].repr.kind, &done[0].words), (Kind::Parameter, &vec![6, 7]));
    assert_eq!((ps.stats().adopted, ps.stats().completed), (1, 1));
}

#[test]
fn discards_a_partial_task_when_its_result_is_handed_over() {
    let mut ps = successor();
    let job = ps.config().job;
    let gradient = |sequence, bitmap, flags| repr(&job, Kind::Gradient, sequence, bitmap, flags);
    // Worker 1 lacks the result of 8. The PS assumes that the task is due.
    give(&mut ps, 0, gradient(8, 0b010, RESEND), &[1, 1]);
    assert_eq!(ps.pending_tasks(), 1);
    let at = ps.poll_timeout().unwrap();
    ps.handle_timeout(at);
    let asked = sent(&mut ps, at);
    let queries: Vec<_> = asked.iter().map(|s| (s.repr.bitmap.0, s.repr.flags)).collect();
    assert_eq!(queries, [(0b001, Flags::HAND_OVER), (0b100, Flags::HAND_OVER)]);
    let replies = give(&mut ps, 30_000, gradient(8, 0b001, Flags::RESULT), &[70, 80]);
    assert_eq!(replies.len(), 1);
    assert_eq!((replies[0].envelope.destination, ps.pending_tasks()), (host(0, 1), 0));
    // A late copy finds the result. One of the preceding task has no effect.
    let merged = ps.stats().merged;
    assert!(give(&mut ps, 30_001, gradient(8, 0b100, Flags::NONE), &[1, 1]).is_empty());
    assert!(give(&mut ps, 30_001, gradient(4, 0b100, RESEND), &[1, 1]).is_empty());
    assert!(give(&mut ps, 30_001, gradient(4, 0b100, Flags::RESULT), &[9, 9]).is_empty());
    assert_eq!((ps.stats().merged, ps.stats().adopted), (merged, 1));
}

#[test]
fn a_result_with_a_wrong_aggregator_or_several_workers_is_rejected() {
    let mut ps = successor();
    let job = ps.config().job;
    let good = repr(&job, Kind::Gradient, 8, 0b001, Flags::RESULT);
    give(&mut ps, 0, Repr { index: index(&job, 8, 1), ..good }, &[1, 1]);
    assert_eq!(ps.stats().rejected.wrong_index, 1);
    give(&mut ps, 0, Repr { bitmap: Bitmap(0b011), ..good }, &[1, 1]);
    assert_eq!((ps.stats().rejected.wrong_bitmap, ps.stats().adopted), (1, 0));
    // A PS that is present from the beginning has all results itself.
    let config = Setup { workers: 3, values: 2, slots: 4, ..Setup::default() }.server(0);
    let mut first = ParameterServer::new(config).unwrap();
    give(&mut first, 0, good, &[1, 1]);
    assert_eq!((first.stats().adopted, first.stats().duplicates), (0, 1));
    assert_eq!(first.pending_tasks(), 0);
}
