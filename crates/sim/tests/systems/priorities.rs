//! ESA's priorities with the default recovery, which sends gradients again with the lowest one.

use std::time::Duration;

use tributary_controller::outcomes::{Outcome as Fate, Outcomes};
use tributary_p4::Architecture;
use tributary_sim::{Options, Program, run};

use crate::cases::{inputs, packets, program_for, scenario};
use crate::exact::{check_exact, describe};

/// One aggregator. A task of priority 168 waits in it for its third worker. Shortly before that one,
/// both workers of a task of priority 28 ask for the aggregator.
fn file(straggler: Duration) -> String {
    let others = straggler - Duration::from_micros(200);
    format!(
        "seed = 1\n[protocol]\nkind = \"esa\"\nvalues_per_packet = 32\n[topology]\nkind = \"star\"\nworkers = 5\n\
         [switch]\npool = 1\n\
         [[job]]\nname = \"high\"\nworkers = [\"w1\", \"w2\", \"w3\"]\n\
         communication = \"100ms\"\ncomputation = \"1ms\"\nremaining = \"1s\"\n\
         [[job.straggler]]\nworker = \"w3\"\ndelay = \"{}us\"\n\
         [[job]]\nname = \"low\"\nworkers = [\"w4\", \"w5\"]\n\
         communication = \"1ms\"\ncomputation = \"100ms\"\nremaining = \"1000s\"\n\
         [[job.straggler]]\nworker = \"w4\"\ndelay = \"{1}us\"\n\
         [[job.straggler]]\nworker = \"w5\"\ndelay = \"{1}us\"\n",
        straggler.as_micros(),
        others.as_micros()
    )
}

/// The program of each architecture.
fn programs() -> [(Architecture, Program); 2] {
    let scenario = scenario(&file(Duration::from_millis(1)));
    [Architecture::V1model, Architecture::Tna]
        .map(|architecture| (architecture, program_for(architecture, &scenario)))
}

/// The outcomes of both jobs at the switch, with each of the programs.
fn outcomes(programs: &[(Architecture, Program); 2], straggler: Duration) -> [[Outcomes; 2]; 2] {
    let scenario = scenario(&file(straggler));
    let inputs = inputs(&scenario, 1, 32);
    programs.each_ref().map(|(architecture, program)| {
        let options = Options { trace: true, ..Options::seeded(scenario.seed) };
        let outcome = run(&scenario, program, inputs.clone(), &options).unwrap();
        assert!(outcome.complete, "{architecture}: {}", describe(&outcome));
        check_exact(&scenario, &inputs, &outcome.sums).unwrap();
        assert_eq!(outcome.left_behind, 0, "{architecture}: {}", describe(&outcome));
        let low = &outcome.outcomes[1][0];
        assert_eq!(packets(low, Fate::Preempted), 0, "{architecture}: {}", describe(&outcome));
        [0, 1].map(|job: usize| outcome.outcomes[job][0])
    })
}

#[test]
fn a_repeat_before_the_straggler_does_not_give_the_aggregator_away() {
    for [high, low] in outcomes(&programs(), Duration::from_micros(1700)) {
        // The first two workers have repeated their gradients.
        assert_eq!(packets(&high, Fate::Duplicate), 2);
        assert_eq!(packets(&low, Fate::Collided), 2);
        assert_eq!(packets(&high, Fate::Completed), 1);
    }
}

#[test]
fn a_straggler_before_any_repeat_finds_its_task() {
    for [high, low] in outcomes(&programs(), Duration::from_micros(700)) {
        assert_eq!(packets(&high, Fate::Duplicate), 0);
        assert_eq!(packets(&low, Fate::Collided), 2);
        assert_eq!(packets(&high, Fate::Completed), 1);
    }
}

#[test]
fn no_straggler_between_half_a_millisecond_and_20_ms_inverts_priorities() {
    let programs = programs();
    for quarters in 2..=80 {
        outcomes(&programs, Duration::from_micros(250 * quarters));
    }
}
