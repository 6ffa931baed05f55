//! The invariants I1–I7 under random networks, jobs and faults: the endpoints and the P4 program
//! together, in virtual time. Parameter servers die and are replaced. With ESA there are also
//! priorities, deaths of agents and broken connections. With P4INC and SwitchML links go down, jobs
//! move to their servers and back or restart, and workers address aggregators of other jobs.
//!
//! Every run is also checked against a bound of liveness ([`liveness`]): how long a tensor may take
//! when nothing is lost any more. For that, disturbances end in half of the runs.
//!
//! A run is a function of its seed. `TRIBUTARY_SEED=n` runs one seed; `TRIBUTARY_SEEDS=n` runs that
//! many, on all cores. A failing seed is shrunk to a small case, which is printed as a sequence
//! chart. 200 000 seeds of ESA took 196 s on two cores, 40 000 with segments 31 s, without a
//! violation. Longer:
//!
//! ```sh
//! TRIBUTARY_SEEDS=1000000 cargo test -p tributary-sim --test systems random::hold
//! TRIBUTARY_SEEDS=1000000 cargo test -p tributary-sim --test systems random::segments_hold
//! ```

mod broken;
mod case;
mod circuits;
mod judge;
mod liveness;
mod seeds;
mod shrink;

use std::collections::BTreeMap;

use case::Case;
use judge::Judge;
use liveness::Wait;
use tributary_model::SummedAt;
use tributary_p4::Architecture;
use tributary_sim::{Act, EsaStats};

use crate::exact::seeds;

/// Default number of seeds.
const SEEDS: u64 = 2_000;

/// The random schedules must cover all interesting events.
#[test]
fn schedules_reach_everything() {
    let judge = Judge::new();
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..150 {
        let case = Case::esa(seed);
        let outcome = judge.judge(&case).unwrap();
        let mut see = |what, count: u64| *seen.entry(what).or_default() += count;
        for (fate, count) in outcome.outcomes.iter().flatten().flat_map(|at| at.iter()) {
            see(fate.name(), count.packets);
        }
        for EsaStats { server, agent } in &outcome.esa {
            see("completed by a server", server.completed);
            see("completed as floats", server.overflow_tasks);
            see("partial sums that overlap", server.overlaps);
            see("results known to workers", server.known);
            see("entries that were over", server.over);
            see("marked", server.marked);
            see("polls", agent.polls);
            see("rounds by timers", agent.timeouts);
            see("rounds by dupACK", agent.dup_acks);
            see("rounds by workers", agent.urgent);
            see("answers too late", agent.stale);
            see("not sent yet", agent.not_sent);
        }
        for worker in outcome.workers.iter().flatten() {
            see("values sent directly", worker.direct);
            see("results lent", worker.lent);
            see("results delivered", worker.delivered);
            see("results twice", worker.duplicates);
        }
        see("lost", outcome.faults.lost);
        see("duplicated", outcome.faults.duplicated);
        see("reordered", outcome.faults.reordered);
        see("agents apart", case.jobs.iter().filter(|job| job.agent_apart).count() as u64);
        see("two levels", u64::from(case.ps_rack.is_some()));
        see("eight jobs", u64::from(case.jobs.len() == 8));
        see("one aggregator", u64::from(case.pool == 1));
        see(case.preemption.name(), 1);
        for (_, act) in &case.acts {
            let name = match act {
                Act::StopServer(_) | Act::StartServer(_) => "servers replaced",
                Act::StopAgent(_) | Act::StartAgent(_) => "agents replaced",
                Act::Cut(..) => "connections broken",
                Act::End(_) => "jobs killed",
                other => unreachable!("{other:?} is not for ESA"),
            };
            see(name, 1);
        }
    }
    // Outcomes of ATP and P4INC; of packets that our endpoints do not send; of no job; and of limits, which
    // these jobs do not have.
    let others = ["resent", "flushed", "seized", "replied", "queried", "exceeded"];
    let segments = ["outside", "repeated", "asynchronous", "stale"];
    for never in
        others.into_iter().chain(segments).chain(["rejected", "malformed", "forwarded", "barred"])
    {
        assert_eq!(seen.remove(never), Some(0), "{never}");
    }
    seen.remove("swept");
    assert!(seen.values().all(|count| *count > 0), "{seen:#?}");
}

#[test]
fn hold_under_random_schedules() {
    let judge = Judge::new();
    let (seeds, single) = seeds(SEEDS);
    let waits = seeds::hold(&judge, seeds, Case::esa);
    for (rules, longest) in longest_waits(&waits) {
        // A bound that nothing comes near would hide a fault.
        assert!(single || longest >= 0.1, "{rules}: {longest}");
    }
}

/// Prints how much of their bounds of liveness the slowest tensors took. Returns the largest part by
/// protocol and rules of recovery.
fn longest_waits(waits: &[(Case, Wait)]) -> BTreeMap<String, f64> {
    let mut parts: BTreeMap<String, Vec<(f64, u64, Wait)>> = BTreeMap::new();
    for (case, wait) in waits {
        let rules = format!("{}, {}", case.protocol.name(), case.recovery.name());
        parts.entry(rules).or_default().push((wait.part(), case.seed, *wait));
    }
    let longest = parts.into_iter().map(|(rules, mut parts)| {
        parts.sort_by(|one, other| one.0.total_cmp(&other.0));
        let at = |percent: usize| parts[(parts.len() - 1) * percent / 100];
        let quantiles = [50, 90, 99, 100].map(|percent| format!("{:.4}", at(percent).0));
        let (part, seed, wait) = at(100);
        println!("{rules}: {} at 50, 90, 99, 100 % of {} seeds", quantiles.join(", "), parts.len());
        println!("    the most in seed {seed}: {:?} of {:?}", wait.took, wait.bound);
        (rules, part)
    });
    longest.collect()
}

/// The same with the programs for TNA, whose pool sizes are powers of two.
#[test]
fn hold_under_random_schedules_with_tna() {
    let judge = Judge::of(Architecture::Tna);
    let (seeds, _) = seeds(SEEDS / 2);
    seeds::hold(&judge, seeds, |seed| with_tna(Case::esa(seed)));
}

#[test]
fn segments_hold_under_random_schedules_with_tna() {
    let judge = Judge::of(Architecture::Tna);
    let (seeds, _) = seeds(SEEDS / 2);
    seeds::hold(&judge, seeds, |seed| with_tna(Case::segments(seed)));
}

fn with_tna(case: Case) -> Case {
    Case { pool: case.pool.next_power_of_two(), ..case }
}

/// The same for P4INC and SwitchML.
#[test]
fn schedules_with_segments_reach_everything() {
    let judge = Judge::new();
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..400 {
        let case = Case::segments(seed);
        let outcome = judge.judge(&case).unwrap();
        let mut see = |what, count: u64| *seen.entry(what).or_default() += count;
        for (fate, count) in outcome.outcomes.iter().flatten().flat_map(|at| at.iter()) {
            see(fate.name(), count.packets);
        }
        for server in &outcome.servers {
            see("completed by a server", server.completed);
            see("completed too great", server.overflow_tasks);
            see("marked", server.marked);
            see("of another service, at a server", server.rejected.other_service);
            see("results taken from workers", server.adopted);
        }
        for worker in outcome.workers.iter().flatten() {
            see("sent again", worker.resent);
            see("timeouts", worker.timeouts);
            see("taken for lost by later results", worker.fast_resends);
            see("results for one worker", worker.replies);
            see("results twice", worker.duplicates);
            see("turned back", worker.asynchronous);
            see("repeated at a coarser scale", worker.coarser);
            see("queries", worker.queries);
            see("of another service, at a worker", worker.rejected.other_service);
            see("results handed over", worker.handed_over);
        }
        see("lost", outcome.faults.lost);
        see("duplicated", outcome.faults.duplicated);
        see("reordered", outcome.faults.reordered);
        see("cut off", outcome.faults.cut_off);
        see(case.protocol.name(), 1);
        let jobs = 0..case.jobs.len();
        see("jobs over two units", jobs.filter(|job| !case.is_local(*job)).count() as u64);
        see("jobs at their servers", case.jobs.iter().filter(|job| job.at_server).count() as u64);
        see("four jobs", u64::from(case.jobs.len() == 4));
        see("window 1", u64::from(case.slots == 1));
        for (_, act) in &case.acts {
            let name = match act {
                Act::End(_) => "jobs killed",
                Act::Again(_) => "jobs begun anew",
                Act::Move(_, SummedAt::Switch(_)) => "jobs moved to one switch",
                Act::Move(..) => "jobs moved",
                Act::Stray { .. } => "strays",
                Act::StopServer(_) | Act::StartServer(_) => "servers replaced",
                other => unreachable!("{other:?} is for ESA"),
            };
            see(name, 1);
        }
    }
    // Outcomes of other protocols, of no job, and of limits, which these jobs do not have.
    let others = ["collided", "flushed", "seized", "preempted", "reminded", "absent", "answered"];
    for never in others.into_iter().chain(["malformed", "forwarded", "barred", "exceeded"]) {
        assert_eq!(seen.remove(never), Some(0), "{never}");
    }
    seen.remove("swept");
    assert!(seen.values().all(|count| *count > 0), "{seen:#?}");
}

/// The same with a cross-connect between the units.
#[test]
fn schedules_with_circuits_reach_everything() {
    let judge = Judge::new();
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..200 {
        let case = Case::circuits(seed);
        let outcome = judge.judge(&case).unwrap();
        let optical = case.optical.as_ref().unwrap();
        let mut see = |what, count: u64| *seen.entry(what).or_default() += count;
        see("changes", optical.patches.len() as u64);
        // The last sum of a job that needs light, after the first change, before the last, or later.
        let needs_light = (0..case.jobs.len()).filter(|&job| !case.is_local(job));
        for end in needs_light.map(|job| outcome.times[job]) {
            let first = optical.patches[0].0;
            see("over before any change", u64::from(end < first));
            see("changed in the middle", u64::from(first < end && end < optical.settled()));
            see("over after all changes", u64::from(optical.settled() < end));
        }
        see("cut off", outcome.faults.cut_off);
        see("no outage", u64::from(optical.outage.is_zero()));
        see("queries", outcome.workers.iter().flatten().map(|worker| worker.queries).sum());
    }
    assert!(seen.values().all(|count| *count > 0), "{seen:#?}");
}

#[test]
fn circuits_change_under_random_schedules() {
    let judge = Judge::new();
    let (seeds, _) = seeds(SEEDS);
    longest_waits(&seeds::hold(&judge, seeds, Case::circuits));
}

#[test]
fn circuits_change_under_random_schedules_with_tna() {
    let judge = Judge::of(Architecture::Tna);
    let (seeds, _) = seeds(SEEDS / 2);
    seeds::hold(&judge, seeds, |seed| with_tna(Case::circuits(seed)));
}

/// The same for ATP: servers are replaced at critical moments.
#[test]
fn schedules_of_atp_reach_everything() {
    let judge = Judge::new();
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..150 {
        let case = Case::atp(seed);
        let outcome = judge.judge(&case).unwrap();
        let mut see = |what, count: u64| *seen.entry(what).or_default() += count;
        for (fate, count) in outcome.outcomes.iter().flatten().flat_map(|at| at.iter()) {
            see(fate.name(), count.packets);
        }
        for server in &outcome.servers {
            see("completed as floats", server.overflow_tasks);
            see("collisions", server.collisions);
            see("results taken from workers", server.adopted);
        }
        for worker in outcome.workers.iter().flatten() {
            see("results handed over", worker.handed_over);
        }
        let dies = |(_, act): &&(std::time::Duration, Act)| matches!(act, Act::StopServer(_));
        see("servers replaced", case.acts.iter().filter(dies).count() as u64);
        see("two levels", u64::from(case.ps_rack.is_some()));
    }
    let atp = ["completed", "collided", "resent", "flushed", "replied", "queried"];
    let ends = ["completed as floats", "collisions", "results taken from workers"];
    for what in
        atp.into_iter().chain(ends).chain(["results handed over", "servers replaced", "two levels"])
    {
        assert!(seen[what] > 0, "{what}: {seen:#?}");
    }
}

#[test]
fn servers_of_atp_are_replaced_under_random_schedules() {
    let judge = Judge::new();
    let (seeds, _) = seeds(SEEDS);
    longest_waits(&seeds::hold(&judge, seeds, Case::atp));
}

#[test]
fn servers_of_atp_are_replaced_under_random_schedules_with_tna() {
    let judge = Judge::of(Architecture::Tna);
    let (seeds, _) = seeds(SEEDS / 2);
    seeds::hold(&judge, seeds, |seed| with_tna(Case::atp(seed)));
}

#[test]
fn segments_hold_under_random_schedules() {
    let judge = Judge::new();
    let (seeds, _) = seeds(SEEDS);
    longest_waits(&seeds::hold(&judge, seeds, Case::segments));
}
