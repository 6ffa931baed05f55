//! Parsing ends on any text: with a consistent scenario, or with one line that points into the
//! text.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tributary_model::Aggregation::{self, Network};
use tributary_model::jobfile::{Error, parse};
use tributary_model::{Profile, Protocol, Scenario};
use tributary_protocol::Mode;
use tributary_protocol::rtt::RttConfig;

const SEEDS: [&str; 18] = [
    include_str!("../../../../examples/digits.toml"),
    include_str!("../../../../examples/two-racks.toml"),
    include_str!("../../../../examples/two-jobs.toml"),
    include_str!("../../../../examples/lossy.toml"),
    include_str!("../../../../examples/esa-two-jobs.toml"),
    include_str!("../../../../examples/esa-two-racks.toml"),
    include_str!("../../../../examples/esa-lossy.toml"),
    include_str!("../../../../examples/p4inc-local.toml"),
    include_str!("../../../../examples/p4inc-two-units.toml"),
    include_str!("../../../../examples/p4inc-both.toml"),
    include_str!("../../../../examples/switchml.toml"),
    include_str!("../../../../examples/tensors.toml"),
    "timeout = \"1s\"\n[[topology.switch]]\nname = \"s1\"\n[[topology.host]]\nname = \"a\"\nmac = \
     \"02:00:00:00:00:01\"\nip = \"10.1.2.3\"\n[[topology.host]]\nname = \"b\"\nrole = \"ps\"\n\
     [[topology.link]]\nbetween = [\"a\", \"s1\"]\nmtu = 1400\nrate = \"1Gb/s\"\nlatency = \"1us\"\n[[topology.link]]\nbetween = [\"b\", \
     \"s1\"]\n[[job]]\nps = \"b\"\nworkers = [\"a\"]\n",
    "[protocol]\nkind = \"esa\"\n[topology]\nps_hosts = 2\n[switch]\npool = 4\npreemption = \
     \"always\"\n[[job]]\nworkers = 2\nlayers = 3\ncommunication = \"2ms\"\ncomputation = \
     \"1ms\"\nremaining = \"30s\"\nagent = \"ps2\"\n[[job]]\nprotocol = \"esa\"\nworkers = 2\n",
    "protocol = \"p4inc\"\n[topology]\nracks = 2\nps_hosts = 1\n[switch]\npool = 100\n[[job]]\nworkers = \
     [\"w1\", \"w2\"]\nsegment = 40\n[[job]]\nworkers = 4\nslots = 64\nps = \"ps\"\n[[job]]\naggregation = \
     \"server\"\n",
    "profile = \"esa-paper\"\n[protocol]\nwindow = 9\npriority_unit = 2.5\nlater_results = \"halve\"\n\
     initial_timeout = \"2ms\"\nmin_timeout = \"1ms\"\nmax_timeout = \"3ms\"\n[[job]]\n",
    "profile = \"switchml-paper\"\nprotocol = \"switchml\"\n[[job]]\nworkers = 2\n",
    "[protocol]\nkind = \"switchml\"\nslots = 4\nwindow = 2\n[switch]\npool = 100\npartitions = \
     8\n[[job]]\n[[job]]\nworkers = 2\n",
];

/// Tokens with a meaning, or nearly one, somewhere in a job file.
const PIECES: [&str; 52] = [
    "0",
    "1",
    "-1",
    "33",
    "2048",
    "65536",
    "1e9",
    "nan",
    "-inf",
    "0x10",
    "99999999999999999999",
    "1.5",
    "\"\"",
    "\"w1\"",
    "\"s1\"",
    "\"4MB\"",
    "\"99999999999GB\"",
    "\"50ms\"",
    "true",
    "1979-05-27",
    "[]",
    "{}",
    "[[job]]\n",
    "[topology]\n",
    "[[topology.link]]\n",
    "[faults]\n",
    "workers = ",
    "racks = 256\n",
    "hosts_per_rack = 254\n",
    "\n",
    " = ",
    "\"",
    "é\u{7f}",
    "kind = \"racks\"\n",
    ", ",
    "job.workers = 1\n",
    "\"esa\"",
    "\"atp\"",
    "protocol = \"esa\"\n",
    "agent = ",
    "preemption = ",
    "\"p4inc\"",
    "\"switchml\"",
    "protocol = \"p4inc\"\n",
    "segment = ",
    "aggregation = ",
    "\"server\"",
    "partitions = ",
    "ps_hosts = 0\n",
    "profile = \"esa-paper\"\n",
    "\"atp-paper\"",
    "recovery = ",
];

#[derive(Clone, Debug)]
enum Edit {
    Delete {
        at: prop::sample::Index,
        length: usize,
    },
    Insert {
        at: prop::sample::Index,
        piece: &'static str,
    },
    Replace {
        at: prop::sample::Index,
        length: usize,
        piece: &'static str,
    },
    /// Replaces the value after `=` number n.
    Value {
        which: prop::sample::Index,
        piece: &'static str,
    },
    Character {
        at: prop::sample::Index,
        character: char,
    },
    DoubleLine {
        line: prop::sample::Index,
    },
}

fn edit() -> impl Strategy<Value = Edit> {
    let index = any::<prop::sample::Index>;
    let piece = || prop::sample::select(&PIECES[..]);
    prop_oneof![
        1 => (index(), 1..20_usize).prop_map(|(at, length)| Edit::Delete { at, length }),
        1 => (index(), piece()).prop_map(|(at, piece)| Edit::Insert { at, piece }),
        1 => (index(), 1..12_usize, piece())
            .prop_map(|(at, length, piece)| Edit::Replace { at, length, piece }),
        4 => (index(), piece()).prop_map(|(which, piece)| Edit::Value { which, piece }),
        1 => (index(), any::<char>()).prop_map(|(at, character)| Edit::Character { at, character }),
        1 => index().prop_map(|line| Edit::DoubleLine { line }),
    ]
}

fn apply(text: &mut String, edit: &Edit) {
    let position =
        |text: &str, at: &prop::sample::Index| text.floor_char_boundary(at.index(text.len() + 1));
    let end = |text: &str, start: usize, length: usize| {
        text.ceil_char_boundary((start + length).min(text.len()))
    };
    match edit {
        Edit::Delete { at, length } => {
            let start = position(text, at);
            text.replace_range(start..end(text, start, *length), "");
        }
        Edit::Insert { at, piece } => text.insert_str(position(text, at), piece),
        Edit::Replace { at, length, piece } => {
            let start = position(text, at);
            text.replace_range(start..end(text, start, *length), piece);
        }
        Edit::Value { which, piece } => {
            let starts: Vec<usize> = text.match_indices("= ").map(|(at, _)| at + 2).collect();
            if !starts.is_empty() {
                let start = starts[which.index(starts.len())];
                let length = text[start..].find([',', '\n', '}']).unwrap_or(text.len() - start);
                text.replace_range(start..start + length, piece);
            }
        }
        Edit::Character { at, character } => text.insert(position(text, at), *character),
        Edit::DoubleLine { line } => {
            let lines: Vec<&str> = text.lines().collect();
            if !lines.is_empty() {
                let double = format!("{}\n", lines[line.index(lines.len())]);
                text.push('\n');
                text.push_str(&double);
            }
        }
    }
}

/// Checks the guarantees of a scenario.
fn check(scenario: &Scenario) {
    let topology = &scenario.network.topology;
    assert!(!scenario.jobs.is_empty());
    let RttConfig { initial, min, max } = scenario.network.timeouts;
    assert!(!min.is_zero() && min <= max && initial <= max);
    let needed = scenario.network.switch.packet_bytes();
    assert!(topology.links.iter().all(|link| link.mtu >= needed));
    assert!(scenario.network.switch.ecn_threshold < scenario.network.switch.queue_capacity);
    for (index, job) in scenario.jobs.iter().enumerate() {
        assert_eq!(usize::from(job.id.get()), index + 1);
        assert!((1..=32 * 32).contains(&job.workers.len()));
        if job.workers.len() > 32 {
            let switch = |host| topology.attachment(host).0;
            let mut racks = job.workers.chunk_by(|&one, &next| switch(one) == switch(next));
            let mut seen = BTreeSet::new();
            assert!(racks.all(|rack| rack.len() <= 32 && seen.insert(switch(rack[0]))));
        }
        let others: Vec<_> = job.ps.iter().chain(&job.agent).collect();
        assert!(others.iter().all(|host| !job.workers.contains(host)));
        let mut hosts = job.workers.clone();
        hosts.sort();
        hosts.dedup();
        assert_eq!(hosts.len(), job.workers.len());
        assert!(job.window >= 1 && job.window <= job.slots && job.slots.is_power_of_two());
        assert!(job.scale.is_finite() && job.scale > 0.0);
        assert_eq!(job.protocol, scenario.network.protocol);
        let Profile { layers, communication, computation, remaining } = job.profile;
        assert!(layers > 0 && !communication.is_zero() && !computation.is_zero());
        assert!(remaining.is_none_or(|remaining| !remaining.is_zero()));
        if job.protocol != Protocol::Esa {
            assert_eq!((job.agent, job.profile), (None, Profile::default()));
        }
        let mode = scenario.network.mode(job);
        assert!(mode == Mode::Local || job.ps.is_some());
        let (pool, segment) = (scenario.network.switch.pool, job.segment);
        match job.protocol {
            Protocol::Atp | Protocol::Esa => {
                assert_eq!((mode, job.aggregation, segment), (Mode::Forwarded, Network, 0));
            }
            Protocol::P4inc => {
                assert!((1..=pool).contains(&segment));
                assert!(mode != Mode::Local || job.slots <= segment);
                assert_eq!(mode == Mode::Forwarded, job.aggregation == Aggregation::Server);
            }
            Protocol::SwitchMl => {
                assert_eq!((mode, job.aggregation, job.ps), (Mode::Local, Network, None));
                assert_eq!((segment, segment % 2), (scenario.network.switch.partition(), 0));
                assert!(
                    segment <= pool / scenario.network.switch.partitions
                        && 2 * job.slots <= segment
                );
            }
        }
    }
    for host in topology.host_ids() {
        let (switch, port) = topology.attachment(host);
        assert!(
            topology
                .ports(switch)
                .any(|(own, link, _)| own == port && link == topology.host(host).link)
        );
        let LinkProbabilities(probabilities) = topology.link(topology.host(host).link).into();
        assert!(probabilities.iter().all(|p| (0.0..=1.0).contains(p)));
    }
}

struct LinkProbabilities([f64; 3]);

impl From<&tributary_model::Link> for LinkProbabilities {
    fn from(link: &tributary_model::Link) -> Self {
        Self([link.faults.loss, link.faults.duplicate, link.faults.reorder])
    }
}

/// Parses a text. Returns whether it is valid.
fn examine(text: &str) -> bool {
    match parse(text, "f.toml") {
        Ok(scenario) => {
            check(&scenario);
            true
        }
        Err(error) => {
            let message = error.to_string();
            let Error::Invalid(fault) = &error else { panic!("{message}") };
            assert!(!message.contains(|c: char| c.is_control()), "{message:?}");
            assert!(message.starts_with(&format!("f.toml:{}:{}: ", fault.line, fault.column)));
            assert!(!fault.problem.is_empty() && !fault.fix.is_empty());
            let line = text.split('\n').nth(fault.line - 1);
            let length = line.map(|line| line.chars().count());
            assert!(length.is_some_and(|length| fault.column <= length + 1), "{message}\n{text}");
            false
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn mutated_files(seed in 0..SEEDS.len(), edits in prop::collection::vec(edit(), 0..6)) {
        let mut text = SEEDS[seed].to_owned();
        for edit in &edits {
            apply(&mut text, edit);
        }
        let good = examine(&text);
        prop_assert!(good || !edits.is_empty(), "an unchanged file is good");
    }

    #[test]
    fn any_text(text in "\\PC*") {
        examine(&text);
    }
}
