//! ESA's invariants I1–I7 under random networks, jobs, priorities, faults, deaths and broken
//! connections: the endpoints and the P4 program together, in virtual time.
//!
//! A seed decides everything. `TRIBUTARY_SEED=n` runs one of them; `TRIBUTARY_SEEDS=n` runs as many
//! as that, on all cores. One that fails is shrunk to a small case, whose course is printed as a
//! sequence chart. A million take some 35 minutes on two cores (100,000 took 213 s):
//!
//! ```sh
//! TRIBUTARY_SEEDS=1000000 cargo test -p tributary-sim --test systems random::hold
//! ```

mod broken;
mod case;
mod judge;
mod seeds;
mod shrink;

use std::collections::BTreeMap;

use case::Case;
use judge::Judge;
use tributary_controller::programs::Source;
use tributary_sim::{Act, EsaStats};

use crate::exact::seeds;

/// Seeds of a test run without further orders.
const SEEDS: u64 = 2_000;

/// What happens in the schedules must be worth looking at: no seed shows what never happens.
#[test]
fn schedules_reach_everything() {
    let judge = Judge::new(Source::built_in("esa").unwrap());
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..150 {
        let case = Case::random(seed);
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
    // ATP's and P4INC's; what no endpoint of ours sends; and what is counted for no job.
    let others = ["resent", "flushed", "seized", "replied", "queried"];
    let segments = ["outside", "repeated", "asynchronous", "stale"];
    for never in others.into_iter().chain(segments).chain(["rejected", "malformed", "forwarded"]) {
        assert_eq!(seen.remove(never), Some(0), "{never}");
    }
    seen.remove("swept");
    assert!(seen.values().all(|count| *count > 0), "{seen:#?}");
}

#[test]
fn hold_under_random_schedules() {
    let judge = Judge::new(Source::built_in("esa").unwrap());
    let (seeds, _) = seeds(SEEDS);
    seeds::hold(&judge, seeds);
}
