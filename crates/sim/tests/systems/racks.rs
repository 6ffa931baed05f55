//! Jobs of more than 32 workers, whose packets name workers by rack.

use tributary_controller::outcomes::Outcome as Fate;

use crate::cases::{packets, run_exactly};

/// Five racks of eight workers: the eight in the rack of the parameter server have positions of
/// their own, the other racks one each.
fn forty(protocol: &str, more: &str) -> String {
    format!(
        "seed = 4\n[topology]\nkind = \"racks\"\nracks = 5\nhosts_per_rack = 8\nps_rack = 1\n\
         [protocol]\nkind = \"{protocol}\"\nslots = 16\n{more}[[job]]\nworkers = 40\n"
    )
}

const LOSSY: &str = "[faults]\nloss = 0.01\nduplicate = 0.01\nreorder = 0.02\njitter = \"5us\"\n";

/// A pool in which tasks meet.
const SMALL: &str = "[switch]\npool = 16\n";

#[test]
fn every_sum_passes_both_levels() {
    for protocol in ["atp", "esa"] {
        let (scenario, outcome) = run_exactly(&forty(protocol, ""), 1, 64 * 20);
        for (name, added) in [("rack1", 10), ("rack2", 6), ("spine", 2)] {
            let switch = scenario.network.topology.switch_named(name).unwrap().0;
            let counts = &outcome.outcomes[0][switch];
            assert!(packets(counts, Fate::Completed) > 0, "{protocol}, {name}: {counts:?}");
            assert!(packets(counts, Fate::Added) >= added * 10, "{protocol}, {name}: {counts:?}");
        }
    }
}

#[test]
fn atp_with_faults_and_collisions() {
    let (_, outcome) = run_exactly(&forty("atp", &format!("{SMALL}{LOSSY}")), 2, 64 * 40);
    assert!(outcome.servers[0].queries > 0, "{:?}", outcome.servers[0]);
}

#[test]
fn esa_with_faults_and_preemption() {
    let file = forty("esa", &format!("{SMALL}{LOSSY}"));
    let file = file.replace("workers = 40\n", "");
    let hosts = |from: usize| -> Vec<String> {
        let racks = (0..5).flat_map(|rack| (1..=4).map(move |host| 8 * rack + from + host));
        racks.map(|host| format!("\"w{host}\"")).collect()
    };
    let jobs =
        [0, 4].map(|from| format!("[[job]]\nlevels = 2\nworkers = [{}]\n", hosts(from).join(", ")));
    let file = file.replace("[[job]]\n", &jobs.concat());
    let (scenario, outcome) = run_exactly(&file, 2, 64 * 40);
    let preempted = |job: usize| -> u64 {
        let switches = 0..scenario.network.topology.switches.len();
        switches.map(|switch| packets(&outcome.outcomes[job][switch], Fate::Preempted)).sum()
    };
    assert!(preempted(0) + preempted(1) > 0);
}

#[test]
fn p4inc_over_five_units_with_faults() {
    let file = forty("p4inc", LOSSY);
    let (_, outcome) = run_exactly(&file, 2, 64 * 40);
    assert!(outcome.servers[0].completed >= 80, "{:?}", outcome.servers[0]);
}
