//! Requirements of a job file that a host or a switch may not meet.

use std::fmt::Write as _;
use std::time::Duration;

use tributary_model::Scenario;

use super::check::{Area, Check};

/// A restarted switch gets its program and entries back within this time (measured: well under a
/// second); workers should not give up earlier.
const RESTART: Duration = Duration::from_secs(2);

/// The judged facts of a job file.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) hosts: usize,
    pub(super) switches: usize,
    pub(super) packet_bytes: u32,
    pub(super) smallest_mtu: u32,
    pub(super) worker_timeout: Duration,
    /// The rules of `[protocol]` or of a profile, with all defaults.
    pub(super) rules: String,
}

impl Facts {
    pub(super) fn of(scenario: &Scenario) -> Self {
        let topology = &scenario.network.topology;
        Self {
            hosts: topology.hosts.len(),
            switches: topology.switches.len(),
            packet_bytes: scenario.network.switch.packet_bytes(),
            smallest_mtu: topology.links.iter().map(|link| link.mtu).min().unwrap_or(0),
            worker_timeout: scenario.network.worker_timeout,
            rules: rules(scenario),
        }
    }
}

/// The rules of a job file, and the windows of its jobs.
fn rules(scenario: &Scenario) -> String {
    let mut rules = scenario.network.rules();
    for (_, job) in scenario.whole_jobs() {
        let _ = write!(rules, "; {}: windows of {} to {} packets", job.name, job.window, job.slots);
    }
    rules
}

/// Judges the facts.
pub(super) fn judge(name: &str, facts: &Facts) -> Vec<Check> {
    let mut area = Area::new(format!("job file {name}"));
    area.ok(
        "topology",
        format!(
            "{} hosts, {} switches, links of {} bytes or more",
            facts.hosts, facts.switches, facts.smallest_mtu
        ),
    );
    area.ok("rules", facts.rules.clone());
    area.ok("packets", format!("{} bytes from the IP header on", facts.packet_bytes));
    let found = format!("worker_timeout is {:?}", facts.worker_timeout);
    match facts.worker_timeout < RESTART {
        true => area.warn(
            "time-outs",
            format!("{found}: a switch that is started again may be back too late"),
            "set worker_timeout = \"10s\" in the job file",
        ),
        false => area.ok("time-outs", found),
    }
    area.into_checks()
}

#[cfg(test)]
mod tests {
    use tributary_model::jobfile::parse;

    use super::super::check::Verdict;
    use super::super::check::tests::named;
    use super::*;

    #[test]
    fn short_timeouts_are_detected() {
        for (text, expected) in [("", Verdict::Ok), ("worker_timeout = \"1s\"\n", Verdict::Warn)] {
            let scenario = parse(&format!("{text}[[job]]\nworkers = 2\n"), "test").unwrap();
            let checks = judge("test", &Facts::of(&scenario));
            assert_eq!(named(&checks, "time-outs").verdict, expected);
            assert_eq!(named(&checks, "packets").found, "312 bytes from the IP header on");
        }
    }

    #[test]
    fn the_rules_of_a_profile_are_named() {
        let text = "profile = \"esa-paper\"\n[[job]]\nworkers = 2\n";
        let checks = judge("test", &Facts::of(&parse(text, "test").unwrap()));
        assert_eq!(
            named(&checks, "rules").found,
            "protocol \"esa\"; recovery \"papers\", later results leave windows; addressing \"hashed\"; \
             timeouts of 1ms to 100ms, first 1ms; job1: windows of 196 to 1024 packets"
        );
    }
}
