//! The paper's figures 3 and 4, packet by packet.

use tributary_controller::outcomes::Outcome as Fate;

use crate::walks::{course, figure_3, figure_4};

fn assert_course(course: &[String], expected: &[&str]) {
    assert_eq!(course, expected, "\n{}", course.join("\n"));
}

#[test]
fn figure_3_packet_by_packet() {
    let outcome = figure_3().run();
    assert_course(
        &course(&outcome),
        &[
            // 1, 2: job 1 takes the aggregator, and waits for its stragglers.
            "w1 → s1: gradient j1 s0 {0} p=10 (absorbed)",
            "w2 → s1: gradient j1 s0 {1} p=10 (added)",
            // 3, 4: job 2 has the higher priority; job 1's partial sum goes to its server.
            "w5 → s1: gradient j2 s0 {0} p=200 (preempted)",
            "s1 → ps1: collided gradient j1 s0 {0,1}",
            // 5, 6: job 2 is complete: the switch multicasts the result and frees the aggregator.
            "w6 → s1: gradient j2 s0 {1} p=200 (completed)",
            "s1 → w5: parameter j2 s0 {0,1}",
            "s1 → w6: parameter j2 s0 {0,1}",
            // 7, 8: the stragglers of job 1 find the aggregator free.
            "w3 → s1: gradient j1 s0 {2} p=10 (absorbed)",
            "w4 → s1: gradient j1 s0 {3} p=10 (added)",
            // 9: the reminder (footnote 1) fetches their sum.
            "ps1 → s1: reminder j1 s0 {0,1,2,3} (reminded)",
            "s1 → ps1: fetched gradient j1 s0 {2,3}",
            // 10: the server adds the two partial sums.
            "ps1 → s1: parameter j1 s0 {0,1,2,3} (distributed)",
            "s1 → w1: parameter j1 s0 {0,1,2,3}",
            "s1 → w2: parameter j1 s0 {0,1,2,3}",
            "s1 → w3: parameter j1 s0 {0,1,2,3}",
            "s1 → w4: parameter j1 s0 {0,1,2,3}",
        ],
    );
    assert_eq!(outcome.outcomes[1][0][Fate::Preempted].packets, 1);
    assert_eq!(outcome.outcomes[0][0][Fate::Reminded].packets, 1);
    let (first, second) = (outcome.esa[0], outcome.esa[1]);
    assert_eq!((first.server.gradients, first.server.brought, first.server.completed), (1, 1, 1));
    assert_eq!((first.agent.timeouts, first.agent.fetched, first.agent.queries), (1, 1, 0));
    // The server and the agent learn nothing of job 2, except when its workers leave.
    assert_eq!(second, tributary_sim::EsaStats::default());
}

#[test]
fn figure_4_packet_by_packet() {
    let outcome = figure_4().run();
    assert_course(
        &course(&outcome),
        &[
            // 1, 2: the first contribution loses its aggregator; the server creates an entry.
            "w1 → s1: gradient j1 s0 {0} p=10 (absorbed)",
            "w4 → s1: gradient j2 s0 {0} p=200 (preempted)",
            "s1 → ps1: collided gradient j1 s0 {0}",
            "w5 → s1: gradient j2 s0 {1} p=200 (completed)",
            "s1 → w4: parameter j2 s0 {0,1}",
            "s1 → w5: parameter j2 s0 {0,1}",
            // 3: the other contributions wait for it in the switch.
            "w2 → s1: gradient j1 s0 {1} p=10 (absorbed)",
            "w3 → s1: gradient j1 s0 {2} p=10 (added)",
            // 4, 5, 6: the entry's timer fires; the reminder fetches their sum.
            "ps1 → s1: reminder j1 s0 {0,1,2} (reminded)",
            "s1 → ps1: fetched gradient j1 s0 {1,2}",
            // 7, 8: the entry is complete, and is multicast.
            "ps1 → s1: parameter j1 s0 {0,1,2} (distributed)",
            "s1 → w1: parameter j1 s0 {0,1,2}",
            "s1 → w2: parameter j1 s0 {0,1,2}",
            "s1 → w3: parameter j1 s0 {0,1,2}",
        ],
    );
    let agent = outcome.esa[0].agent;
    assert_eq!((agent.timeouts, agent.reminders, agent.fetched), (1, 1, 1));
    assert_eq!((agent.reminded, agent.queries), (0, 0));
}
