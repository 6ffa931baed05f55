//! Settings for slow switches.

use std::time::Duration;

use tributary_model::Scenario;
use tributary_model::jobfile::parse;

fn paced(text: &str) -> Scenario {
    let mut scenario = parse(text, "job.toml").unwrap_or_else(|error| panic!("{error}"));
    scenario.pace_for_bmv2();
    scenario
}

#[test]
fn packets_in_flight_fit_in_the_queues_of_bmv2() {
    for (workers, slots) in [(1, 64), (2, 32), (3, 16), (4, 16), (5, 8), (16, 4), (32, 4)] {
        let scenario = paced(&format!("[topology]\nworkers = {workers}\n[[job]]\n"));
        let job = &scenario.jobs[0];
        assert_eq!((job.slots, job.window), (slots, slots), "{workers} workers");
    }
    let two = paced("[topology]\nworkers = 4\n[[job]]\nworkers = 2\n[[job]]\nworkers = 2\n");
    assert!(two.jobs.iter().all(|job| job.slots == 16), "jobs share the queues");
}

#[test]
fn settings_that_are_already_slow_are_kept() {
    let text = "[topology]\nworkers = 2\n[protocol]\nslots = 8\nwindow = 3\n\
                [switch]\necn_threshold = 5\nidle_timeout = \"3s\"\n[[job]]\n";
    let scenario = paced(text);
    assert_eq!((scenario.jobs[0].slots, scenario.jobs[0].window), (8, 3));
    assert_eq!(scenario.network.switch.ecn_threshold, 5);
    assert_eq!(scenario.network.switch.idle_timeout, Duration::from_secs(3));
}

#[test]
fn timeouts_are_longer_than_the_delays_of_bmv2() {
    let of = |keys: &str| {
        let timeouts = paced(&format!("{keys}[[job]]\n")).network.timeouts;
        [timeouts.initial, timeouts.min, timeouts.max].map(|timeout| timeout.as_millis())
    };
    assert_eq!(of(""), [50, 10, 200]);
    assert_eq!(of("[protocol]\ninitial_timeout = \"1ms\"\nmax_timeout = \"1s\"\n"), [50, 10, 1000]);
    assert_eq!(of("[protocol]\nmin_timeout = \"90ms\"\n"), [50, 90, 200]);
}

#[test]
fn segments_hold_the_slots_that_are_left() {
    for protocol in ["p4inc", "switchml"] {
        let text = format!("protocol = \"{protocol}\"\n[topology]\nworkers = 4\n[[job]]\n");
        let before = parse(&text, "job.toml").unwrap();
        let after = paced(&text);
        assert_eq!(before.jobs[0].segment, after.jobs[0].segment, "aggregators are not slow");
        assert!(after.jobs[0].slots <= after.jobs[0].segment);
    }
}
