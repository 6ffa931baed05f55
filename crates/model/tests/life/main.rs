//! A job's life, searched exhaustively: each order of what workers, switches, the journal and the clock do, with
//! deaths, broken streams, changes that fail, and a controller that is killed at any step.
//!
//! In each world that can be reached:
//!
//! - no run is told that the journal does not have or that switches do not serve, and none is two things;
//! - workers that finish have the same sums;
//! - without further faults, each worker ends, or waits for a worker that has ended.

mod world;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tributary_model::OnDeath;

use world::{Budget, Kind, Step, World};

/// Tries all. Returns how many worlds there are.
fn search(workers: u16, kind: Kind, budget: Budget) -> usize {
    let first = World::new(workers, kind, budget);
    let mut seen = HashSet::from([first.key()]);
    let mut ways: Vec<(usize, Option<Step>)> = vec![(0, None)];
    let mut open = vec![(first, 0)];
    while let Some((world, at)) = open.pop() {
        let way = |mut at: usize| {
            let mut way = Vec::new();
            while let (before, Some(step)) = ways[at] {
                way.push(step);
                at = before;
            }
            way.reverse();
            way
        };
        let settling = AssertUnwindSafe(|| world.clone().settle());
        match catch_unwind(settling) {
            Ok(Ok(())) => {}
            Ok(Err(why)) => panic!("{why}, after {:?}: {world:?}", way(at)),
            Err(_) => panic!("some time after {:?}: {world:?}", way(at)),
        }
        let (due, faults) = world.steps();
        let mut more = Vec::new();
        for step in due.into_iter().chain(faults) {
            let mut next = world.clone();
            let stepped = catch_unwind(AssertUnwindSafe(|| next.step(step)));
            assert!(stepped.is_ok(), "{step:?} after {:?}: {world:?}", way(at));
            next.forget();
            if seen.insert(next.key()) {
                more.push((next, step));
            }
        }
        for (next, step) in more {
            ways.push((at, Some(step)));
            open.push((next, ways.len() - 1));
        }
    }
    seen.len()
}

const NONE: Budget = Budget {
    deaths: 0,
    starts: 0,
    crashes: 0,
    breaks: 0,
    delays: 0,
    refusals: 0,
    requests: 0,
    lapses: 0,
};

const ALL: [OnDeath; 3] = [OnDeath::End, OnDeath::Continue { least: 1 }, OnDeath::Wait];

fn each(workers: u16, budget: Budget) {
    each_of(workers, |kind| kind, budget);
}

/// The same for a job whose client lets each round begin.
fn each_stepped(workers: u16, budget: Budget) {
    each_of(workers, |kind| Kind { stepped: true, ..kind }, budget);
}

/// The same for a job whose workers go on in another run after a round, and that ends when none takes part.
fn each_of_a_group(workers: u16, budget: Budget) {
    each_of(workers, |kind| Kind { renews: true, leased: true, ..kind }, budget);
}

fn each_of(workers: u16, kind: fn(Kind) -> Kind, budget: Budget) {
    for on_death in ALL {
        let kind = kind(Kind::of(on_death));
        let worlds = search(workers, kind, budget);
        println!("{workers} workers, {kind:?}, {budget:?}: {worlds} worlds");
    }
}

#[test]
fn two_workers_and_a_controller_that_is_killed() {
    each(2, Budget { deaths: 1, crashes: 1, ..NONE });
}

#[test]
fn two_workers_that_die_in_turn() {
    each(2, Budget { deaths: 2, ..NONE });
}

#[test]
fn streams_that_break_while_a_worker_dies() {
    each(2, Budget { deaths: 1, breaks: 1, ..NONE });
}

#[test]
fn switches_and_a_journal_that_fail() {
    each(2, Budget { deaths: 1, delays: 1, refusals: 1, ..NONE });
}

#[test]
fn a_controller_that_is_killed_while_changes_fail() {
    each(2, Budget { deaths: 1, crashes: 1, delays: 1, ..NONE });
}

#[test]
fn two_workers_that_die_while_a_controller_is_killed() {
    each(2, Budget { deaths: 2, crashes: 1, ..NONE });
}

#[test]
fn streams_that_break_while_a_controller_is_killed() {
    each(2, Budget { deaths: 1, crashes: 1, breaks: 1, ..NONE });
}

#[test]
fn three_workers_and_a_controller_that_is_killed() {
    each(3, Budget { deaths: 1, crashes: 1, ..NONE });
}

#[test]
fn three_workers_of_which_two_die() {
    each(3, Budget { deaths: 2, ..NONE });
}

#[test]
fn too_few_workers_are_left() {
    search(3, Kind::of(OnDeath::Continue { least: 2 }), Budget { deaths: 2, ..NONE });
}

#[test]
fn iterations_while_a_worker_dies() {
    each_stepped(2, Budget { deaths: 1, ..NONE });
}

#[test]
fn iterations_while_streams_break() {
    each_stepped(2, Budget { breaks: 2, ..NONE });
}

#[test]
fn iterations_of_a_controller_that_is_killed() {
    each_stepped(2, Budget { crashes: 1, ..NONE });
}

#[test]
fn iterations_while_a_worker_dies_and_a_controller_is_killed() {
    each_stepped(2, Budget { deaths: 1, crashes: 1, ..NONE });
}

#[test]
fn iterations_while_changes_fail() {
    each_stepped(2, Budget { deaths: 1, delays: 1, ..NONE });
}

#[test]
fn switches_that_lose_their_memory() {
    each(2, Budget { lapses: 2, ..NONE });
    each(3, Budget { lapses: 1, ..NONE });
    each_stepped(2, Budget { lapses: 1, ..NONE });
    each_of_a_group(2, Budget { lapses: 1, ..NONE });
}

#[test]
fn switches_that_lose_their_memory_while_a_worker_dies_or_a_controller_is_killed() {
    each(2, Budget { lapses: 1, deaths: 1, ..NONE });
    each(2, Budget { lapses: 1, crashes: 1, ..NONE });
    each(2, Budget { lapses: 1, delays: 1, ..NONE });
}

#[test]
fn a_group_that_renews_while_a_worker_dies() {
    each_of_a_group(2, Budget { deaths: 1, ..NONE });
}

#[test]
fn a_group_that_renews_while_a_controller_is_killed() {
    each_of_a_group(2, Budget { deaths: 1, crashes: 1, ..NONE });
}

#[test]
fn a_group_that_renews_while_streams_break() {
    each_of_a_group(2, Budget { deaths: 1, breaks: 1, ..NONE });
}

#[test]
fn a_group_that_renews_while_changes_and_its_release_fail() {
    each_of_a_group(2, Budget { deaths: 1, delays: 1, refusals: 1, ..NONE });
}

#[test]
fn a_group_of_three_that_renews_while_a_worker_dies() {
    each_of_a_group(3, Budget { deaths: 1, ..NONE });
}

#[test]
fn a_client_that_moves_or_releases_a_job_while_a_worker_dies() {
    each_stepped(2, Budget { deaths: 1, requests: 1, ..NONE });
    each_of_a_group(2, Budget { deaths: 1, requests: 1, ..NONE });
}

#[test]
fn two_requests_of_a_client_that_fail() {
    each_stepped(2, Budget { requests: 2, delays: 1, refusals: 1, ..NONE });
    each(2, Budget { requests: 2, delays: 1, refusals: 1, ..NONE });
}

#[test]
fn a_request_while_a_controller_is_killed() {
    each_stepped(2, Budget { requests: 1, crashes: 1, ..NONE });
    each_of_a_group(2, Budget { requests: 1, crashes: 1, ..NONE });
}
