//! How reminders reach switches.

use tributary_model::Error;
use tributary_model::jobfile::parse;
use tributary_model::plan::{JobAtSwitch, Membership, Part, Placement, job, targets};
use tributary_wire::{Bitmap, Kind, Protocol, Rack};

/// A job's memberships by switch name, and the targets of its reminders: the switch, its
/// workers, and the worker that reminders are addressed to.
struct Plan {
    memberships: Vec<(String, Vec<Membership>)>,
    targets: Vec<(String, u32, String)>,
}

impl Plan {
    fn of(text: &str) -> Self {
        let scenario = parse(&format!("protocol = \"esa\"\n{text}"), "test");
        let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
        let topology = &scenario.network.topology;
        let placement = Placement::unassigned(&scenario.jobs[0]);
        let name = |switch| topology.switch(switch).name.clone();
        let parts = job(topology, &placement).into_iter();
        let entries = |part: JobAtSwitch| {
            let mut entries = part.memberships(Protocol::Esa);
            entries.sort_by_key(|entry| (entry.kind as u8, entry.port));
            (name(part.switch), entries)
        };
        let targets = targets(topology, &placement).unwrap().into_iter().map(|target| {
            let via = topology.host(target.via).name.clone();
            (name(target.switch), target.members.0, via)
        });
        Self { memberships: parts.map(entries).collect(), targets: targets.collect() }
    }

    fn at(&self, switch: &str) -> &[Membership] {
        let mut all = self.memberships.iter().filter(|(name, _)| name == switch);
        let (_, entries) = all.next().unwrap_or_else(|| panic!("no part in {switch}"));
        assert!(all.next().is_none(), "one part in {switch}");
        entries
    }

    fn targets(&self) -> Vec<(&str, u32, &str)> {
        let targets = self.targets.iter();
        targets.map(|(switch, members, via)| (&**switch, *members, &**via)).collect()
    }
}

fn contribute(port: u16, unit: u32, members: u32, top: bool) -> Membership {
    let (unit, members) = (Bitmap(unit), Bitmap(members));
    let part = Part::Contribute { unit, members, upward: members, top };
    Membership { port, kind: Kind::Gradient, rack: Rack::NONE, part }
}

fn distribute(port: u16) -> Membership {
    Membership { port, kind: Kind::Parameter, rack: Rack::NONE, part: Part::Distribute }
}

fn remind(port: u16, members: u32) -> Membership {
    let part = Part::Remind { members: Bitmap(members) };
    Membership { port, kind: Kind::Reminder, rack: Rack::NONE, part }
}

/// A reminder for another switch.
fn forward(port: u16) -> Membership {
    Membership { port, kind: Kind::Reminder, rack: Rack::NONE, part: Part::Answer }
}

/// The answer of another switch that had no partial sum.
fn absent(port: u16) -> Membership {
    Membership { port, kind: Kind::Absent, rack: Rack::NONE, part: Part::Answer }
}

/// The answer of another switch that had a partial sum, on a port without gradients.
fn fetched(port: u16) -> Membership {
    Membership { port, kind: Kind::Gradient, rack: Rack::NONE, part: Part::Pass }
}

/// Two connected racks. Rack 1 has w1 at port 1, w2 at 2, the PS at 3 and rack 2 at 4; rack 2
/// has w3 at 1, w4 at 2 and rack 1 at 3. `agent` names the switch of the agent's host, which
/// gets the next port; ports are numbered in the order of the links.
fn racks(agent: &str) -> String {
    let mut text = String::new();
    for switch in ["rack1", "rack2", "far"] {
        if switch != "far" || agent.contains("far") {
            text += &format!("[[topology.switch]]\nname = \"{switch}\"\n");
        }
    }
    let hosts = [("w1", "worker"), ("w2", "worker"), ("w3", "worker"), ("w4", "worker")];
    for (name, role) in hosts.into_iter().chain([("ps", "ps"), ("agent", "ps")]) {
        text += &format!("[[topology.host]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    }
    let cables = "w1-rack1 w2-rack1 ps-rack1 w3-rack2 w4-rack2 rack1-rack2";
    for cable in cables.split(' ').chain(agent.split(' ')) {
        let (a, b) = cable.split_once('-').unwrap();
        text += &format!("[[topology.link]]\nbetween = [\"{a}\", \"{b}\"]\n");
    }
    text + "[[job]]\nps = \"ps\"\nagent = \"agent\"\n"
}

#[test]
fn in_one_rack_an_agent_apart_has_a_port_of_its_own() {
    let star = "[topology]\nkind = \"star\"\nworkers = 2\nps_hosts = 2\n[[job]]\nps = \"ps1\"\n";
    let gradients = [contribute(1, 0b01, 0b11, true), contribute(2, 0b10, 0b11, true)];
    let together = Plan::of(star);
    assert_eq!(together.targets(), [("s1", 0b11, "w1")]);
    let expected = [&gradients[..], &[distribute(3), remind(3, 0b11)]].concat();
    assert_eq!(together.at("s1"), expected);

    let apart = Plan::of(&format!("{star}agent = \"ps2\"\n"));
    assert_eq!(apart.targets(), together.targets());
    // A result comes only from the PS, and a reminder only from the agent.
    let expected = [&gradients[..], &[distribute(3), remind(4, 0b11)]].concat();
    assert_eq!(apart.at("s1"), expected);
    assert_eq!(apart.memberships.len(), 1);
}

#[test]
fn in_two_racks_an_agent_beside_the_ps_reminds_through_the_upper_one() {
    let plan = Plan::of(&racks("agent-rack1"));
    assert_eq!(plan.targets(), [("rack1", 0b1111, "w1"), ("rack2", 0b1100, "w3")]);
    let expected = [
        contribute(1, 0b0001, 0b1111, true),
        contribute(2, 0b0010, 0b1111, true),
        contribute(4, 0b1100, 0b1111, true),
        distribute(3),
        remind(5, 0b1111),
        absent(4),
    ];
    assert_eq!(plan.at("rack1"), expected);
    let expected = [
        contribute(1, 0b0100, 0b1100, false),
        contribute(2, 0b1000, 0b1100, false),
        distribute(3),
        remind(3, 0b1100),
    ];
    assert_eq!(plan.at("rack2"), expected);
}

#[test]
fn in_two_racks_an_agent_in_the_lower_one_reminds_the_upper_one_from_below() {
    let plan = Plan::of(&racks("agent-rack2"));
    // Packets from there to worker 1 pass both racks.
    assert_eq!(plan.targets(), [("rack1", 0b1111, "w1"), ("rack2", 0b1100, "w1")]);
    // On lower ports gradients are contributions; on the other side they can only be answers.
    let expected = [
        contribute(1, 0b0100, 0b1100, false),
        contribute(2, 0b1000, 0b1100, false),
        fetched(3),
        distribute(3),
        remind(4, 0b1100),
        absent(3),
    ];
    assert_eq!(plan.at("rack2"), expected);
    let expected = [
        contribute(1, 0b0001, 0b1111, true),
        contribute(2, 0b0010, 0b1111, true),
        contribute(4, 0b1100, 0b1111, true),
        distribute(3),
        remind(4, 0b1111),
    ];
    assert_eq!(plan.at("rack1"), expected);
}

#[test]
fn a_switch_that_only_reminders_pass_lets_them_and_their_answers_by() {
    let plan = Plan::of(&racks("far-rack2 agent-far"));
    assert_eq!(plan.targets(), [("rack1", 0b1111, "w1"), ("rack2", 0b1100, "w1")]);
    assert_eq!(plan.at("far"), [fetched(1), forward(2), absent(1)]);
    assert!(plan.at("rack2").contains(&remind(4, 0b1100)));
    assert_eq!(plan.memberships.last().unwrap().0, "far", "it is not on the tree");
}

#[test]
fn a_rack_of_one_worker_is_not_reminded() {
    let text = format!("{}workers = [\"w1\", \"w2\", \"w3\"]\n", racks("agent-rack2"));
    let plan = Plan::of(&text);
    assert_eq!(plan.targets(), [("rack1", 0b111, "w1")]);
    let expected =
        [contribute(1, 0b100, 0b100, false), fetched(3), distribute(3), forward(4), absent(3)];
    assert_eq!(plan.at("rack2"), expected);
}

#[test]
fn an_agent_that_cannot_reach_a_switch_is_named() {
    // Three switches in a ring: the agent's path to any worker passes only that worker's rack.
    // The PS's switch, where the racks meet, is on none of these paths.
    let mut text = String::new();
    for switch in ["top", "left", "right"] {
        text += &format!("[[topology.switch]]\nname = \"{switch}\"\n");
    }
    for (name, role) in [("w1", "worker"), ("w2", "worker"), ("ps", "ps"), ("agent", "ps")] {
        text += &format!("[[topology.host]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    }
    let cables = "left-top right-top left-right w1-left w2-right ps-top agent-left";
    for cable in cables.split(' ') {
        let (a, b) = cable.split_once('-').unwrap();
        text += &format!("[[topology.link]]\nbetween = [\"{a}\", \"{b}\"]\n");
    }
    text += "[[job]]\nps = \"ps\"\nagent = \"agent\"\n";
    let scenario = parse(&format!("protocol = \"esa\"\n{text}"), "test").unwrap();
    let placement = Placement::unassigned(&scenario.jobs[0]);
    let error = targets(&scenario.network.topology, &placement).unwrap_err();
    assert!(matches!(error, Error::AgentAside { .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains("agent") && message.contains("top"), "{message}");
    // The switches get no reminders, so none is accepted on a wrong port.
    let parts = job(&scenario.network.topology, &placement);
    assert!(parts.iter().all(|part| part.reminders.is_empty()));
    // Beside the PS it reaches all switches.
    let beside = Placement { agent: placement.ps, ..placement };
    assert_eq!(targets(&scenario.network.topology, &beside).unwrap().len(), 1);
}
