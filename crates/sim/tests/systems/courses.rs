//! Small systems of P4INC with a completely known course, which the documentation's charts show.

use tributary_controller::outcomes::Outcome as Fate;
use tributary_sim::{Chart, Options, Outcome, Run};
use tributary_wire::agg::{Kind, Repr};

use crate::cases::{inputs, packets, program, scenario};
use crate::exact::{check_exact, describe};

/// A system and its losses.
pub(crate) struct Course {
    pub(crate) name: &'static str,
    title: &'static str,
    columns: &'static [&'static str],
    /// The job file without the common part.
    file: &'static str,
    fragments: usize,
    /// The name of a worker that does not receive a result.
    loser: Option<&'static str>,
}

/// A result is lost, and the others have begun the aggregator's next round when its worker resends.
pub(crate) fn result_lost() -> Course {
    Course {
        name: "p4inc-result-lost",
        title: "A lost result is answered from the copy, while the aggregator is at the next round",
        columns: &["w1", "w2", "w3", "s1"],
        file: "slots = 1\nwindow = 1\n[switch]\npool = 1\n\
               [topology]\nkind = \"star\"\nworkers = 3\nps_hosts = 0\n[[job]]\nsegment = 1\n",
        fragments: 2,
        loser: Some("w2"),
    }
}

/// A window of two fragments on a segment of one aggregator.
pub(crate) fn asynchronous() -> Course {
    Course {
        name: "p4inc-asynchronous",
        title: "An asynchronous error: the second fragment comes before the aggregator is done with the first",
        columns: &["w1", "w2", "rack1", "ps", "rack2", "w3"],
        file: "slots = 2\nwindow = 2\n[switch]\npool = 1\n\
               [topology]\nkind = \"racks\"\nracks = 2\nhosts_per_rack = 2\nps_hosts = 1\nps_rack = 1\n\
               [[job]]\nworkers = [\"w1\", \"w2\", \"w3\"]\nsegment = 1\n",
        fragments: 2,
        loser: None,
    }
}

pub(crate) fn all() -> Vec<Course> {
    vec![result_lost(), asynchronous()]
}

impl Course {
    /// Runs the course, and checks what holds in every course.
    pub(crate) fn run(&self) -> Outcome {
        let file = format!(
            "[protocol]\nkind = \"p4inc\"\nvalues_per_packet = 32\nrecovery = \"papers\"\n{}",
            self.file
        );
        let scenario = scenario(&file);
        let inputs = inputs(&scenario, 1, 32 * self.fragments);
        let options = Options { trace: true, ..Options::seeded(1) };
        let mut run = Run::start(&scenario, &program(&scenario), inputs.clone(), &options).unwrap();
        if let Some(loser) = self.loser {
            run.system.network.lose("s1", loser, 0, |packet: &Repr| packet.kind == Kind::Parameter);
        }
        while run.step().unwrap() {}
        let outcome = run.finish().unwrap();
        assert!(outcome.complete, "{}", describe(&outcome));
        check_exact(&scenario, &inputs, &outcome.sums).unwrap();
        assert_eq!((outcome.losses_to_come, outcome.left_behind), (0, 0), "{}", describe(&outcome));
        outcome
    }

    pub(crate) fn chart(&self) -> Chart {
        Chart::new(self.title, self.columns, self.run().trace.as_ref().unwrap())
    }
}

fn assert_course(outcome: &Outcome, expected: &[&str]) {
    let seen = outcome.trace.as_ref().unwrap().sightings();
    let course: Vec<String> = seen.iter().map(ToString::to_string).collect();
    assert_eq!(course, expected, "\n{}", course.join("\n"));
}

#[test]
fn a_lost_result_packet_by_packet() {
    let outcome = result_lost().run();
    assert_eq!(packets(&outcome.outcomes[0][0], Fate::Repeated), 1);
    assert_course(
        &outcome,
        &[
            "w1 → s1: gradient j1 f0 {0} v1 c0 (absorbed)",
            "w2 → s1: gradient j1 f0 {1} v1 c0 (added)",
            // The last contribution becomes the result, and leaves a copy.
            "w3 → s1: gradient j1 f0 {2} v1 c0 (completed)",
            "s1 → w2: parameter j1 f0 {0,1,2} v1 c0 LOST",
            "s1 → w1: parameter j1 f0 {0,1,2} v1 c0",
            "s1 → w3: parameter j1 f0 {0,1,2} v1 c0",
            // Two workers have the result and continue with the same aggregator.
            "w1 → s1: gradient j1 f1 {0} v1 c0 (absorbed)",
            "w3 → s1: gradient j1 f1 {2} v1 c0 (added)",
            // All three time out; the worker without the result gets it from the copy.
            "w1 → s1: resent gradient j1 f1 {0} v1 c0 (duplicate)",
            "w2 → s1: resent gradient j1 f0 {1} v1 c0 (repeated)",
            "w3 → s1: resent gradient j1 f1 {2} v1 c0 (duplicate)",
            "s1 → w2: reply j1 f0 {0,1,2} v1 c0",
            // It catches up.
            "w2 → s1: gradient j1 f1 {1} v1 c0 (completed)",
            "s1 → w1: parameter j1 f1 {0,1,2} v1 c0",
            "s1 → w2: parameter j1 f1 {0,1,2} v1 c0",
            "s1 → w3: parameter j1 f1 {0,1,2} v1 c0",
        ],
    );
}

#[test]
fn an_asynchronous_error_packet_by_packet() {
    let outcome = asynchronous().run();
    assert_eq!(packets(&outcome.outcomes[0][0], Fate::Asynchronous), 2);
    let returned = outcome.workers[0].iter().map(|own| own.asynchronous);
    assert_eq!(returned.collect::<Vec<_>>(), [1, 1, 0]);
    assert_course(
        &outcome,
        &[
            "w1 → rack1: gradient j1 f0 {0} v1 c0 (absorbed)",
            // The unit's complete sum goes to the server; the aggregator waits for its answer.
            "w2 → rack1: gradient j1 f0 {1} v1 c0 (completed)",
            // The other unit has nothing to add.
            "w3 → rack2: gradient j1 f0 {2} v1 c0 (bypassed)",
            // The next fragment comes too early and is returned.
            "w1 → rack1: gradient j1 f1 {0} v1 c0 (asynchronous)",
            "w2 → rack1: gradient j1 f1 {1} v1 c0 (asynchronous)",
            "w3 → rack2: gradient j1 f1 {2} v1 c0 (bypassed)",
            "rack1 → ps: gradient j1 f0 {0,1} v1 c0",
            "rack2 → rack1: gradient j1 f0 {2} v1 c0 (bypassed)",
            "rack1 → w1: marked asynchronous j1 f1 {0} v1 c0",
            "rack1 → w2: marked asynchronous j1 f1 {1} v1 c0",
            "rack2 → rack1: gradient j1 f1 {2} v1 c0 (bypassed)",
            "rack1 → ps: gradient j1 f0 {2} v1 c0",
            "rack1 → ps: gradient j1 f1 {2} v1 c0",
            // The answer finishes the round: the aggregator is free for the next fragment.
            "ps → rack1: parameter j1 f0 {0,1,2} v1 c0 (distributed)",
            "rack1 → w1: parameter j1 f0 {0,1,2} v1 c0",
            "rack1 → w2: parameter j1 f0 {0,1,2} v1 c0",
            "rack1 → rack2: parameter j1 f0 {0,1,2} v1 c0 (distributed)",
            // The answer also tells the workers that they can send the returned fragment.
            "w1 → rack1: resent gradient j1 f1 {0} v1 c0 (absorbed)",
            "w2 → rack1: resent gradient j1 f1 {1} v1 c0 (completed)",
            "rack2 → w3: parameter j1 f0 {0,1,2} v1 c0",
            "rack1 → ps: gradient j1 f1 {0,1} v1 c0",
            "ps → rack1: parameter j1 f1 {0,1,2} v1 c0 (distributed)",
            "rack1 → w1: parameter j1 f1 {0,1,2} v1 c0",
            "rack1 → w2: parameter j1 f1 {0,1,2} v1 c0",
            "rack1 → rack2: parameter j1 f1 {0,1,2} v1 c0 (distributed)",
            "rack2 → w3: parameter j1 f1 {0,1,2} v1 c0",
        ],
    );
}
