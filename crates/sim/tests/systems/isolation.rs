//! What a tenant's host can do to another tenant's job with the frames that it sends: the sums stay the
//! same, and with limits the job keeps most of its throughput. `docs/concepts/isolation.md` lists
//! the attacks.

use std::time::Duration;

use tributary_controller::outcomes::Outcome as Fate;
use tributary_model::{HostId, Protocol, Scenario, SwitchId};
use tributary_netio::packet;
use tributary_protocol::Tensor;
use tributary_sim::{Options, Outcome, Run};
use tributary_wire::agg::{Kind, Repr};
use tributary_wire::{
    AggregatorIndex, Audience, Bitmap, Ecn, Envelope, Flags, Host, Rack, Sequence, emit_frame,
};

use crate::cases::{inputs, packets, program, scenario};
use crate::exact::check_exact;

const VALUES: usize = 64;
const PROTOCOLS: [&str; 4] = ["atp", "esa", "p4inc", "switchml"];

/// How long an attack lasts: many times as long as the victim takes by itself.
const ATTACK: Duration = Duration::from_millis(60);

/// What the operator has limited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Limits {
    Nothing,
    /// The rate alone, in Mb/s.
    Rate(u32),
    /// A rate of 2.5 Gb/s, and that of packets with a priority, in Mb/s (ESA).
    Preemption(u32),
    All,
}

/// Job 0 is the victim's, job 1 the attacker's. They share the host w1, and that of their servers.
fn file(protocol: &str, limits: Limits) -> String {
    let max_rate = match limits {
        Limits::Nothing => String::new(),
        Limits::Rate(rate) => format!("max_rate = \"{rate}Mb/s\""),
        Limits::Preemption(rate) => {
            format!("max_rate = \"2500Mb/s\"\nmax_preemption = \"{rate}Mb/s\"")
        }
        Limits::All => "max_rate = \"250Mb/s\"".to_owned(),
    };
    let [other, ceiling] = match limits {
        Limits::All => ["other_traffic = \"500Mb/s\"", "max_priority = 100"],
        Limits::Nothing | Limits::Rate(_) | Limits::Preemption(_) => [""; 2],
    };
    let ceiling = if protocol == "esa" { ceiling } else { "" };
    let partitions = if protocol == "switchml" { "partitions = 2" } else { "" };
    let (servers, server) = match protocol {
        "p4inc" | "switchml" => ("ps_hosts = 0", ""),
        _ => ("ps_hosts = 1", "ps = \"ps\""),
    };
    format!(
        "protocol = \"{protocol}\"\n\
         [topology]\nkind = \"star\"\nworkers = 4\n{servers}\nrate = \"10Gb/s\"\n\
         [switch]\npool = 512\n{other}\n{partitions}\n\
         [[job]]\nname = \"victim\"\nworkers = [\"w1\", \"w2\", \"w3\"]\n{server}\nwindow = 128\n\
         slots = 128\n\
         [[job]]\nname = \"attacker\"\nworkers = [\"w1\", \"w4\"]\n{server}\nwindow = 32\nslots = 32\n\
         {max_rate}\n{ceiling}\n"
    )
}

/// What the attacker sends from the port of its worker on w4, or of its parameter server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Attack {
    /// Frames of no job, to the victim's worker and server.
    Plain,
    /// The same as super-frames, which the port cuts.
    SuperFrames,
    /// Its own contributions again and again, which its server must see.
    Resends,
    /// Contributions of tasks that nobody completes, to hold aggregators.
    Hoarding,
    /// Results, which the switch multicasts to a host that has a worker of the victim's, too.
    Results,
    /// Packets of the victim's job and run.
    Forged,
    /// The same of runs that are over, or never were.
    OtherRuns,
}

const ATTACKS: [Attack; 7] = [
    Attack::Plain,
    Attack::SuperFrames,
    Attack::Resends,
    Attack::Hoarding,
    Attack::Results,
    Attack::Forged,
    Attack::OtherRuns,
];

impl Attack {
    /// The host that it comes from.
    fn from(self, scenario: &Scenario) -> HostId {
        let attacker = &scenario.jobs[1];
        match (self, attacker.ps) {
            (Self::Results, Some(ps)) => ps,
            _ => attacker.workers[1],
        }
    }

    /// Its next frames, and the bytes that they take on its link.
    fn frames(self, run: &Run<'_>, scenario: &Scenario, number: u32) -> (Vec<Vec<u8>>, usize) {
        if self == Self::SuperFrames {
            let [from, to] = plain_ends(self, scenario, number);
            let buffer = super_frame(from, to);
            let mut frames = Vec::new();
            let cut = packet::cut(&buffer, None, &mut |frame| frames.push(frame.to_vec()));
            assert_eq!(cut, Some(LONG.div_ceil(SEGMENT)), "the port cuts it");
            return (frames, buffer.len());
        }
        let frame = self.frame(run, scenario, number);
        let bytes = frame.len() + 24;
        (vec![frame], bytes)
    }

    fn frame(self, run: &Run<'_>, scenario: &Scenario, number: u32) -> Vec<u8> {
        let [victim, attacker] = [0, 1].map(|job| &scenario.jobs[job]);
        let job = if matches!(self, Self::Forged) { victim } else { attacker };
        let host = |host: HostId| scenario.network.topology.host(host).address;
        let source = host(self.from(scenario));
        if self == Self::Plain {
            let [from, to] = plain_ends(self, scenario, number);
            return plain(from, to);
        }
        let (kind, destination) = match self {
            Self::Results => (Kind::Parameter, Host::service(job.id)),
            _ => (Kind::Gradient, job.ps.map_or(Host::service(job.id), host)),
        };
        let assignment = run.assignment(usize::from(job.id == attacker.id));
        let rounds = matches!(job.protocol, Protocol::P4inc | Protocol::SwitchMl);
        let index = match rounds {
            true => assignment.segment.offset.0 + number % assignment.segment.size,
            false => number % 512,
        };
        let epoch = match self {
            Self::OtherRuns => tributary_wire::Epoch::new(number + 1000).unwrap(),
            _ => job.epoch,
        };
        let repr = Repr {
            protocol: job.protocol,
            kind,
            flags: if self == Self::Resends { Flags::RESEND } else { Flags::NONE },
            priority: if rounds { assignment.service.get() } else { 255 },
            job: job.id,
            epoch,
            values: VALUES as u16,
            sequence: Sequence(if rounds { 0 } else { 1_000_000 + number }),
            bitmap: if kind == Kind::Gradient { Bitmap::of(1) } else { Bitmap(0b11) },
            rack: Rack::NONE,
            audience: Audience::ALL,
            index: AggregatorIndex(index),
        };
        let mut frame = Vec::new();
        let envelope = Envelope { source, destination, ecn: Ecn::Ect0 };
        emit_frame(&mut frame, &envelope, &repr).fill(1);
        frame
    }
}

/// Where a frame of no job comes from, and the victim's worker or server, by turns.
fn plain_ends(attack: Attack, scenario: &Scenario, number: u32) -> [Host; 2] {
    let victim = &scenario.jobs[0];
    let to = [Some(victim.workers[0]), victim.ps][number as usize % 2];
    let ends = [attack.from(scenario), to.unwrap_or(victim.workers[1])];
    ends.map(|host| scenario.network.topology.host(host).address)
}

/// Bytes of payload of a super-frame, and of each of its segments, which are as long as an aggregation packet.
const LONG: usize = 60_000;
const SEGMENT: usize = 4 * VALUES + 16;

/// TCP that the kernel has not cut into segments.
fn super_frame(from: Host, to: Host) -> Vec<u8> {
    let ethernet = etherparse::PacketBuilder::ethernet2(from.mac.0, to.mac.0);
    let packet = ethernet.ipv4(from.ip.octets(), to.ip.octets(), 64).tcp(4000, 4000, 1, 1000);
    // A `virtio_net_hdr`: with a partial checksum, TCP over IPv4, the size of a segment, and where the
    // TCP header and its checksum are.
    let mut buffer = vec![1, 1];
    for word in [54, SEGMENT as u16, 34, 16] {
        buffer.extend(word.to_ne_bytes());
    }
    packet.write(&mut buffer, &[7; LONG]).unwrap();
    buffer
}

/// A UDP datagram as long as an aggregation packet.
fn plain(from: Host, to: Host) -> Vec<u8> {
    let ethernet = etherparse::PacketBuilder::ethernet2(from.mac.0, to.mac.0);
    let packet = ethernet.ipv4(from.ip.octets(), to.ip.octets(), 64).udp(4000, 4000);
    let mut frame = Vec::new();
    packet.write(&mut frame, &[0; 4 * VALUES + 28]).unwrap();
    frame
}

/// The victim's sums, its time, and the whole outcome, while the attacker's port sends at line rate.
fn attacked(file: &str, attack: Option<Attack>) -> (Vec<Vec<Tensor>>, Duration, Outcome) {
    let scenario = scenario(file);
    let mut inputs = inputs(&scenario, 1, VALUES * 20_000);
    for tensor in inputs[1].iter_mut().flatten() {
        *tensor = Tensor::F32(std::iter::repeat_n(1.0, VALUES).collect());
    }
    let options = Options::seeded(1);
    let program = program(&scenario);
    let mut run = Run::start(&scenario, &program, inputs.clone(), &options).unwrap();
    let port = attack.map(|attack| scenario.network.topology.attachment(attack.from(&scenario)).1);
    let (mut sent, mut number) = (0, 0);
    // Frames of a buffer arrive one after the other, as the port takes turns with others.
    let (mut waiting, mut share) = (Vec::new().into_iter(), 0);
    while run.step().unwrap() {
        let (Some(attack), Some(port)) = (attack, port) else { continue };
        if run.finished(0) == 1 || run.elapsed() > ATTACK {
            continue;
        }
        // Bytes that 10 Gb/s have brought.
        while sent < run.elapsed().as_nanos() * 10 / 8 {
            let Some(frame) = waiting.next() else {
                let (frames, bytes) = attack.frames(&run, &scenario, number);
                share = (bytes / frames.len()) as u128;
                waiting = frames.into_iter();
                number += 1;
                continue;
            };
            run.system.network.inject(SwitchId(0), port, &frame);
            sent += share;
        }
    }
    let mut outcome = run.finish().unwrap();
    if attack.is_none() {
        check_exact(&scenario, &inputs, &outcome.sums).unwrap();
    }
    assert_eq!(outcome.left_behind, 0, "{attack:?}");
    (outcome.sums.swap_remove(0), outcome.times[0], outcome)
}

/// Throughput of the victim under each attack, as a share of that without one. Panics if a sum changes.
fn shares(protocol: &str, limits: Limits, attacks: &[Attack]) -> Vec<f64> {
    let file = file(protocol, limits);
    let (sums, alone, _) = attacked(&file, None);
    let share = |&attack: &Attack| {
        let (under_attack, time, outcome) = attacked(&file, Some(attack));
        assert!(sums == under_attack, "{protocol}, {attack:?}: the sums are others");
        let exceeded = packets(&outcome.outcomes[1][0], Fate::Exceeded);
        if limits == Limits::Nothing {
            assert_eq!(exceeded, 0, "{protocol}, {attack:?}");
        }
        alone.as_secs_f64() / time.as_secs_f64()
    };
    attacks.iter().map(share).collect()
}

/// The least share that the victim keeps where the attacker has limits. An iteration is short here, so that
/// what the attacker may send at once has a part in it.
fn promised(protocol: &str, attack: Attack) -> f64 {
    match (attack, protocol) {
        (Attack::Plain | Attack::SuperFrames, _) => 0.9,
        (Attack::Resends, _) => 0.8,
        (Attack::Results, _) => 0.7,
        // All aggregators are the attacker's: the server alone sums, over one link instead of three.
        (Attack::Hoarding, "atp") => 0.3,
        (Attack::Hoarding, _) => 0.95,
        (Attack::Forged | Attack::OtherRuns, _) => 0.98,
    }
}

#[test]
fn with_limits_a_job_keeps_its_sums_and_its_share() {
    for protocol in PROTOCOLS {
        for (attack, share) in ATTACKS.iter().zip(shares(protocol, Limits::All, &ATTACKS)) {
            let promised = promised(protocol, *attack);
            println!("{protocol}: {share:.2} under {attack:?}");
            assert!(share >= promised, "{protocol}, {attack:?}: {share} of {promised}");
        }
    }
}

/// What the limits are for.
#[test]
fn without_limits_a_job_keeps_its_sums_only() {
    for (protocol, attacks) in [
        ("atp", &[Attack::Plain, Attack::Resends, Attack::Results, Attack::Hoarding][..]),
        ("esa", &[Attack::Hoarding]),
    ] {
        for (attack, share) in attacks.iter().zip(shares(protocol, Limits::Nothing, attacks)) {
            println!("{protocol}: {share:.2} under {attack:?}");
            assert!(share <= 0.6, "{protocol}, {attack:?}: {share}");
        }
    }
}

/// A rate bounds packets, and each may evict a partial sum or hold an aggregator.
#[test]
fn a_limited_rate_alone_bounds_neither_preemption_nor_hoarding() {
    for protocol in ["atp", "esa"] {
        let [.., last] = [250, 1000, 2500].map(|rate| {
            let share = shares(protocol, Limits::Rate(rate), &[Attack::Hoarding])[0];
            println!("{protocol}: {share:.3} under Hoarding at {rate} Mb/s");
            share
        });
        assert!(last <= 0.3, "{protocol}: {last}");
    }
}

/// The rate of packets that have a priority bounds both, whatever else the attacker sends.
#[test]
fn a_limited_rate_of_preemption_bounds_what_hoarding_takes() {
    let [first, .., last] = [10, 25, 100].map(|rate| {
        let share = shares("esa", Limits::Preemption(rate), &[Attack::Hoarding])[0];
        println!("esa: {share:.3} under Hoarding with priorities at {rate} Mb/s");
        share
    });
    assert!(first >= 0.9 && last >= 0.7, "{first}, {last}");
}

/// The byte of a repair's priority is a code; no limit makes another of it.
#[test]
fn limits_of_priorities_change_no_repair() {
    for limit in ["max_priority = 1", "max_priority = 3", "max_preemption = \"1Mb/s\""] {
        let file = format!(
            "protocol = \"esa\"\n[topology]\nkind = \"star\"\nworkers = 3\n[faults]\nloss = 0.05\n\
             [[job]]\n{limit}\n"
        );
        let scenario = scenario(&file);
        let inputs = inputs(&scenario, 1, 64 * 500);
        let options = Options::seeded(1);
        let mut run = Run::start(&scenario, &program(&scenario), inputs.clone(), &options).unwrap();
        while run.step().unwrap() {}
        let outcome = run.finish().unwrap();
        check_exact(&scenario, &inputs, &outcome.sums).unwrap();
    }
}

/// A worker keeps the limit of its job by itself, resends and headers included.
#[test]
fn a_limit_drops_nothing_of_a_job_that_keeps_it() {
    for protocol in PROTOCOLS {
        for faults in ["", "[faults]\nloss = 0.01\n"] {
            let file = format!(
                "protocol = \"{protocol}\"\n[switch]\npool = 65536\nother_traffic = \"10Mb/s\"\n\
                 {faults}[[job]]\nmax_rate = \"1Gb/s\"\n"
            );
            let scenario = scenario(&file);
            let inputs = inputs(&scenario, 1, VALUES * 6_000);
            let options = Options::seeded(1);
            let mut run =
                Run::start(&scenario, &program(&scenario), inputs.clone(), &options).unwrap();
            while run.step().unwrap() {}
            let outcome = run.finish().unwrap();
            check_exact(&scenario, &inputs, &outcome.sums).unwrap();
            assert_eq!(packets(&outcome.outcomes[0][0], Fate::Exceeded), 0, "{protocol} {faults}");
            let rate = (32 * VALUES * 6_000) as f64 / outcome.time.as_secs_f64();
            assert!(rate < 1.02e9, "{protocol}: {rate} b/s");
            if faults.is_empty() {
                assert!(rate > 0.98e9, "{protocol}: {rate} b/s");
            }
        }
    }
}
