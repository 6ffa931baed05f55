//! The five cases of loss of ESA §5.3, each with the loss of the packet in question.
//!
//! Every walk checks that the sums are exact, that the packet was lost and that the switch is empty
//! afterwards. These tests check how the loss was repaired.

use tributary_controller::outcomes::Outcome as Fate;
use tributary_sim::Outcome;

use crate::walks::{
    Walk, loss_1, loss_2_all, loss_2_some, loss_3, loss_4, loss_5_entry, loss_5_no_entry,
};

/// Counters of a job's recovery.
#[derive(PartialEq, Eq, Debug, Default)]
struct Recovery {
    /// Rounds of the reminder agent, by cause: a worker's reminder, an entry's timer.
    by_worker: u64,
    by_timer: u64,
    /// Reminder packets that fetched a partial sum, and those that found nothing.
    fetched: u64,
    absent: u64,
    /// Workers that sent their values over the reliable channel, and those that sent a result for
    /// others.
    direct: u64,
    lent: u64,
    /// Results that the server sent to all workers, and to single workers.
    multicast: u64,
    delivered: u64,
}

fn recovery(outcome: &Outcome, job: usize) -> Recovery {
    let (server, agent) = (outcome.esa[job].server, outcome.esa[job].agent);
    let workers = || outcome.workers[job].iter();
    assert!(workers().all(|worker| worker.resent == 0), "nothing enters the switch twice");
    assert_eq!(agent.reminders, agent.fetched + agent.absent);
    let at_switch = &outcome.outcomes[job][0];
    assert_eq!(at_switch[Fate::Reminded].packets, agent.fetched);
    assert_eq!(at_switch[Fate::Absent].packets, agent.absent);
    Recovery {
        by_worker: agent.urgent,
        by_timer: agent.timeouts,
        fetched: agent.fetched,
        absent: agent.absent,
        direct: workers().map(|worker| worker.direct).sum(),
        lent: workers().map(|worker| worker.lent).sum(),
        multicast: server.parameters,
        delivered: server.deliveries,
    }
}

fn preempted(outcome: &Outcome) -> u64 {
    outcome.outcomes.iter().map(|job| job[0][Fate::Preempted].packets).sum()
}

fn run(walk: &Walk) -> Outcome {
    walk.run()
}

#[test]
fn case_1_a_gradient_is_lost_on_its_way_to_the_switch() {
    let outcome = run(&loss_1());
    // The worker reminds; the others' sum is fetched; its own values use the channel.
    let expected =
        Recovery { by_worker: 1, fetched: 1, direct: 1, multicast: 1, ..Recovery::default() };
    assert_eq!(recovery(&outcome, 0), expected);
    assert_eq!(outcome.workers[0][0].direct, 1);
}

#[test]
fn case_2_some_workers_miss_the_result() {
    let outcome = run(&loss_2_some());
    // No switch has a partial sum; two workers have the result cached, and the third gets it.
    let expected = Recovery {
        by_worker: 1,
        absent: 1,
        direct: 1,
        lent: 2,
        delivered: 1,
        ..Recovery::default()
    };
    assert_eq!(recovery(&outcome, 0), expected);
    assert_eq!(outcome.workers[0][1].delivered, 1);
    assert_eq!((outcome.esa[0].server.known, outcome.esa[0].server.completed), (1, 0));
}

#[test]
fn case_2_all_workers_miss_the_result() {
    let outcome = run(&loss_2_all());
    // No endpoint has the result: the server aggregates instead of the switch.
    let expected =
        Recovery { by_worker: 1, absent: 1, direct: 3, multicast: 1, ..Recovery::default() };
    assert_eq!(recovery(&outcome, 0), expected);
    assert_eq!((outcome.esa[0].server.known, outcome.esa[0].server.completed), (0, 1));
}

#[test]
fn case_3_a_gradient_that_failed_to_preempt_is_lost() {
    let outcome = run(&loss_3());
    assert_eq!(preempted(&outcome), 0);
    assert_eq!(outcome.outcomes[1][0][Fate::Collided].packets, 1);
    assert_eq!(outcome.esa[1].server.gradients, 0, "no gradient makes an entry");
    let expected =
        Recovery { by_worker: 1, fetched: 1, direct: 1, multicast: 1, ..Recovery::default() };
    assert_eq!(recovery(&outcome, 1), expected);
    assert_eq!(recovery(&outcome, 0), Recovery::default(), "job 1 is not concerned");
}

#[test]
fn case_4_an_evicted_partial_sum_is_lost() {
    let outcome = run(&loss_4());
    assert_eq!(preempted(&outcome), 1);
    assert_eq!(outcome.esa[0].server.gradients, 0, "no gradient makes an entry");
    // The two workers whose values were evicted send them again.
    let expected =
        Recovery { by_worker: 1, fetched: 1, direct: 2, multicast: 1, ..Recovery::default() };
    assert_eq!(recovery(&outcome, 0), expected);
    assert_eq!(recovery(&outcome, 1), Recovery::default());
}

#[test]
fn case_5_after_a_preemption_another_gradient_is_lost_and_the_server_has_an_entry() {
    let outcome = run(&loss_5_entry());
    assert_eq!(preempted(&outcome), 1);
    assert_eq!(outcome.esa[0].server.gradients, 1, "the evicted partial sum makes an entry");
    let expected =
        Recovery { by_timer: 1, fetched: 1, direct: 1, multicast: 1, ..Recovery::default() };
    assert_eq!(recovery(&outcome, 0), expected);
    assert_eq!(outcome.esa[0].agent.reminded, 0, "no worker had to remind");
}

#[test]
fn case_5_after_a_preemption_another_gradient_is_lost_and_the_server_has_no_entry() {
    let outcome = run(&loss_5_no_entry());
    assert_eq!(preempted(&outcome), 1);
    assert_eq!(outcome.esa[0].server.gradients, 0, "no gradient makes an entry");
    let expected =
        Recovery { by_worker: 1, fetched: 1, direct: 3, multicast: 1, ..Recovery::default() };
    assert_eq!(recovery(&outcome, 0), expected);
}
