//! Random packets, valid, invalid and damaged, through random entries: all switches and the
//! [model](crate::model) must agree on every packet and in every counter.
//!
//! A failure prints its seed; `TRIBUTARY_SEED=…` runs that seed alone, and `TRIBUTARY_PACKETS=…`
//! sets the number of packets per seed.

mod rounds;

use std::collections::BTreeSet;
use std::env;

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::cases;
use crate::entries::{Entry, FLOOD};
use crate::frames::{
    ABSENT, ARP, AUDIENCE, COLLISION, EPOCH, Frame, GRADIENT, HEADERS, IPV4, IPV6, MARKED,
    OVERFLOW, PARAMETER, QUERY, REMINDER, REPLY, RESEND, SEQUENCE, SWEEP, describe, epoch,
    internet_checksum, ip, mac, plain,
};
use crate::lab::{Lab, Outcome};
use crate::model::{Membership, Model, Part, Service};
use crate::target::{ALWAYS, Build, PORTS, Program};

cases!("random":
    on_all_switches, at_length, esa_on_all_switches, esa_at_length, esa_always_on_all_switches,
    esa_linear_on_all_switches,
    p4inc_on_all_switches, p4inc_at_length, switchml_on_all_switches, switchml_at_length,
    p4inc_as_written, switchml_as_written,
);

/// Default seeds.
const SEEDS: [u64; 3] = [1, 2, 3];

/// No power of two: there is no such program for Tofino, where entries that no controller writes have other effects.
const POOL: u32 = 6;
/// With entries as controllers write them.
const POOL_AS_WRITTEN: u32 = 8;
const VALUES: usize = 32;
const ATP: Build = Build { pool: POOL, values: VALUES, ..Build::PATIENT };
const ESA: Build = Build { pool: POOL, values: VALUES, ..Build::ESA };
const P4INC: Build = Build { pool: POOL, values: VALUES, ..Build::P4INC };
const SWITCHML: Build = Build { pool: POOL, values: VALUES, ..Build::SWITCHML };
const ROUTER: u64 = 0x0200_0000_00fe;
const JOBS: [u16; 3] = [1, 2, 0x0201];

/// Packets between two comparisons of counters.
const ROUND: u32 = 100;

/// Outcomes that a program must produce.
fn outcomes(build: Build) -> BTreeSet<i64> {
    use Outcome::*;
    let of_all = |outcome: i64| outcome < Preempted as i64 || outcome == Barred as i64;
    let of_atp = |outcome: &i64| of_all(*outcome);
    let of_esa = |outcome: &i64| of_all(*outcome) || *outcome < Outside as i64;
    let all = 0..=Barred as i64;
    let all: Vec<i64> = match build.program {
        Program::Atp => all.filter(of_atp).collect(),
        Program::Esa => all.filter(of_esa).collect(),
        // ESA's outcomes.
        Program::P4inc | Program::SwitchMl => {
            all.filter(|outcome| of_atp(outcome) || !of_esa(outcome)).collect()
        }
    };
    let none: &[Outcome] = match build.program {
        // There are no idle cells.
        Program::Atp => &[Seized],
        // No packet passes between two passes of another.
        Program::Esa if build.preemption == ALWAYS => {
            &[Resent, Flushed, Seized, Replied, Queried, Collided]
        }
        Program::Esa => &[Resent, Flushed, Seized, Replied, Queried],
        Program::P4inc => &[Collided, Flushed, Seized],
        Program::SwitchMl => &[Collided, Flushed, Seized, Resent, Distributed, Replied, Queried],
    };
    all.into_iter().filter(|code| none.iter().all(|none| *none as i64 != *code)).collect()
}

fn on_all_switches() {
    seeds(Lab::new, ATP, 600);
}

/// The embedded switch needs microseconds per packet, so it can be compared for longer.
fn at_length() {
    seeds(Lab::embedded, ATP, 20_000);
}

fn esa_on_all_switches() {
    seeds(Lab::new, ESA, 600);
}

fn esa_at_length() {
    seeds(Lab::embedded, ESA, 20_000);
}

fn esa_always_on_all_switches() {
    seeds(Lab::new, Build { preemption: ALWAYS, ..ESA }, 600);
}

fn esa_linear_on_all_switches() {
    seeds(Lab::new, Build { linear: true, ..ESA }, 600);
}

fn p4inc_on_all_switches() {
    seeds(Lab::new, P4INC, 600);
}

fn p4inc_at_length() {
    seeds(Lab::embedded, P4INC, 20_000);
}

fn switchml_on_all_switches() {
    seeds(Lab::new, SWITCHML, 600);
}

fn switchml_at_length() {
    seeds(Lab::embedded, SWITCHML, 20_000);
}

fn p4inc_as_written() {
    seeds(Lab::embedded, Build { pool: POOL_AS_WRITTEN, ..P4INC }, 6_000);
}

fn switchml_as_written() {
    seeds(Lab::embedded, Build { pool: POOL_AS_WRITTEN, ..SWITCHML }, 6_000);
}

fn seeds(lab: fn(Build) -> Lab, build: Build, packets: u32) {
    let packets = number("TRIBUTARY_PACKETS").map_or(packets, |n| n as u32);
    match number("TRIBUTARY_SEED") {
        Some(seed) => drop(run(lab(build), seed, packets)),
        None => {
            let runs = SEEDS.into_iter().flat_map(|seed| run(lab(build), seed, packets));
            let met: BTreeSet<i64> = runs.collect();
            assert_eq!(met, outcomes(build), "what was met (left), what can be (right)");
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text:?}")))
}

/// Prints how to repeat a failure.
struct Replay {
    seed: u64,
    packet: u32,
}

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { seed, packet } = self;
            eprintln!("packet {packet} of seed {seed} fails: replay it with TRIBUTARY_SEED={seed}");
        }
    }
}

/// Runs one seed. Returns all outcomes that occurred.
fn run(lab: Lab, seed: u64, packets: u32) -> BTreeSet<i64> {
    let mut met = BTreeSet::new();
    let mut replay = Replay { seed, packet: 0 };
    let mut net = Net::new(lab, seed);
    while replay.packet < packets {
        replay.packet += 1;
        match net.rng.random_range(0..100) {
            0..3 => net.change_entry(),
            3..5 => net.sweep(),
            _ => net.packet(),
        }
        if replay.packet.is_multiple_of(ROUND) || replay.packet == packets {
            let expected = std::mem::take(&mut net.model.counts);
            assert_eq!(net.lab.counted(), expected, "counts (left) are not the model's (right)");
            assert_eq!(net.lab.evictions(), net.model.evictions);
            met.extend(expected.keys().map(|index| index % 32));
        }
    }
    met
}

struct Net {
    rng: ChaCha8Rng,
    /// The entries that were written at first, for P4INC and SwitchML.
    parts: Vec<(Membership, Part)>,
    services: Vec<((u16, u8), Service)>,
    lab: Lab,
    model: Model,
}

impl Net {
    fn new(lab: Lab, seed: u64) -> Self {
        let (rng, model) = (ChaCha8Rng::seed_from_u64(seed), Model::new(lab.build()));
        let mut net = Self { rng, parts: Vec::new(), services: Vec::new(), lab, model };
        net.plain_entries();
        for job in JOBS {
            if net.has_rounds() {
                net.job_with_rounds(job);
            } else {
                net.job_entries(job);
            }
        }
        net.parts = net.model.parts.iter().map(|(key, part)| (*key, *part)).collect();
        net.services = net.model.services.iter().map(|(key, what)| (*key, *what)).collect();
        net
    }

    fn plain_entries(&mut self) {
        let mut entries = vec![Entry::own_address(ROUTER)];
        entries.extend(PORTS.map(Entry::mirror));
        self.model.own.push(ROUTER);
        // Some hosts are unknown, and some are at other ports.
        for port in PORTS.take(5) {
            let at = if self.rng.random_bool(0.9) { port } else { self.rng.random_range(1..=6) };
            entries.push(Entry::host(mac(port), at));
            self.model.hosts.insert(mac(port), at);
        }
        for (to, length) in [(0x0a00_0000, 8), (0x0a00_0000, 30), (ip(2), 32)] {
            let port = self.rng.random_range(1..=6);
            entries.push(Entry::route((to, length), port, ROUTER, mac(port)));
            self.model.routes.push((to, length as u32, port, ROUTER, mac(port)));
        }
        if self.lab.build().program == Program::P4inc {
            for (job, port) in [(JOBS[0], 1), (JOBS[0], 3), (JOBS[1], 2), (JOBS[1], 5)] {
                let circuit = self.rng.random_range(1..=6);
                entries.push(Entry::circuit(job, port, circuit));
                self.model.circuits.insert((job, port), circuit);
            }
        }
        for group in [FLOOD, 11, 12] {
            let all = group == FLOOD;
            let ports: Vec<u16> = PORTS.filter(|_| all || self.rng.random_bool(0.5)).collect();
            entries.push(Entry::group(group, &ports));
            self.model.groups.insert(group, ports);
        }
        self.lab.insert(&entries);
    }

    /// Workers, individually or as racks, behind some ports; a parameter server behind another.
    fn job_entries(&mut self, job: u16) {
        let ps = self.rng.random_range(4..=6);
        let mut units = Vec::new();
        let mut next = 0;
        for port in 1..=4 {
            if port != ps && self.rng.random_bool(0.8) {
                let workers = self.rng.random_range(1..=3);
                units.push((port, ((1u32 << workers) - 1) << next));
                next += workers;
            }
        }
        let members = units.iter().fold(0, |all, (_, unit)| all | unit);
        // The workers of a rack, whose sum is that of one position, or positions.
        let (rack, upward) = match self.rng.random_bool(0.4) {
            true => (self.rng.random_range(1..=32), 1 << self.rng.random_range(0..32)),
            false => (0, members),
        };
        let slot = (job % 7) as u8 + 1;
        let group = *[11, 12, 12, FLOOD, 99].choose(&mut self.rng).expect("not empty");
        let sums_to = if self.esa() && self.rng.random_bool(0.7) { group } else { 0 };
        for (port, unit) in units {
            let part = Part { unit, members, upward, group: sums_to, slot, ..Part::default() };
            self.insert((job, epoch(job), port, GRADIENT, rack), part);
        }
        self.insert((job, epoch(job), ps, PARAMETER, 0), Part { group, slot, ..Part::default() });
        let plain = Part { slot, ..Part::default() };
        if !self.esa() {
            self.insert((job, epoch(job), ps, REPLY, 0), plain);
            self.insert((job, epoch(job), ps, QUERY, rack), plain);
            return;
        }
        let agent = self.rng.random_range(4..=6);
        let reminded = Part { members, reminded: true, ..plain };
        self.insert((job, epoch(job), agent, REMINDER, rack), reminded);
        let switch = self.rng.random_range(1..=4);
        self.insert((job, epoch(job), switch, ABSENT, rack), plain);
        // One job has no server.
        if job != JOBS[1] {
            self.lab.insert(&[Entry::server_of_rack(job, rack, mac(ps), ip(ps))]);
            self.model.servers.insert(epoch(job), (job, rack, mac(ps), ip(ps)));
        }
    }

    fn esa(&self) -> bool {
        self.lab.build().program == Program::Esa
    }

    /// Whether all entries are as controllers write them.
    fn is_as_written(&self) -> bool {
        self.lab.build().pool == POOL_AS_WRITTEN
    }

    fn has_rounds(&self) -> bool {
        self.lab.build().program.has_rounds()
    }

    fn insert(&mut self, key: Membership, part: Part) {
        self.lab.insert(&[entry(key, part)]);
        self.model.parts.insert(key, part);
    }

    /// Removes, adds or changes an entry, including entries that no controller would write.
    fn change_entry(&mut self) {
        if self.is_as_written() {
            return self.write_again();
        }
        if self.has_rounds() && self.rng.random_bool(0.4) {
            return self.change_service();
        }
        let keys: Vec<Membership> = self.model.parts.keys().copied().collect();
        let known = *keys.choose(&mut self.rng).expect("each job has entries");
        if keys.len() > 8 && self.rng.random_bool(0.3) {
            let part = self.model.parts.remove(&known).expect("it is known");
            self.lab.delete(&[entry(known, part)]);
            return;
        }
        let job = *JOBS.choose(&mut self.rng).expect("not empty");
        let kinds: &[u8] = match self.lab.build().program {
            Program::Esa => &[GRADIENT, PARAMETER, REMINDER, ABSENT],
            Program::Atp => &[GRADIENT, PARAMETER, REPLY, QUERY],
            _ => &[GRADIENT, GRADIENT, GRADIENT, PARAMETER, REPLY, QUERY],
        };
        let kind = *kinds.choose(&mut self.rng).expect("not empty");
        let rack = *[0, 0, 0, 1, 32, 33].choose(&mut self.rng).expect("not empty");
        let fresh = (job, epoch(job), self.rng.random_range(1..=6), kind, rack);
        let part = if self.has_rounds() { self.part_in_rounds(fresh) } else { self.part(kind) };
        if !self.model.parts.contains_key(&fresh) {
            self.insert(fresh, part);
        } else {
            self.lab.modify(&[entry(fresh, part)]);
            self.model.parts.insert(fresh, part);
        }
    }

    /// Removes an entry that was written at first, or writes it again.
    fn write_again(&mut self) {
        if self.rng.random_bool(0.4) {
            return self.serve_again();
        }
        let Some(&(key, part)) = self.parts.choose(&mut self.rng) else { return };
        if self.model.parts.remove(&key).is_some() {
            self.lab.delete(&[entry(key, part)]);
        } else {
            self.insert(key, part);
        }
    }

    fn part(&mut self, kind: u8) -> Part {
        let slot = self.rng.random_range(0..=255);
        if self.rng.random_bool(0.1) {
            return Part { slot, transit: true, ..Part::default() };
        }
        match kind {
            GRADIENT => {
                let unit = self.rng.random_range(0..16);
                let members = unit | self.rng.random_range(0..16);
                let upward = if self.rng.random_bool(0.7) { members } else { self.rng.random() };
                let group = if self.esa() { self.rng.random_range(10..14) % 13 } else { 0 };
                Part { unit, members, upward, group, slot, ..Part::default() }
            }
            REMINDER if self.rng.random_bool(0.7) => {
                let members = self.rng.random_range(1..16);
                Part { members, reminded: true, slot, ..Part::default() }
            }
            PARAMETER => Part { group: self.rng.random_range(11..14), slot, ..Part::default() },
            _ => Part { slot, ..Part::default() },
        }
    }

    fn sweep(&mut self) {
        if self.has_rounds() {
            return self.sweep_segment();
        }
        let job = *JOBS.choose(&mut self.rng).expect("not empty");
        let protocol = self.lab.build().program.protocol();
        let sweep = Frame::new(SWEEP, 0, 0).with(|f| {
            (f.protocol, f.job, f.sequence) = (protocol, job, 77);
        });
        let outputs = self.lab.packet_out(&sweep.bytes());
        let freed = self.model.sweep(epoch(job));
        let back = sweep.bitmap(freed).with(|f| f.index = POOL);
        assert_eq!(outputs.packets_in, [back.bytes()], "a sweep of job {job}");
        assert_eq!(outputs.frames, []);
    }

    fn packet(&mut self) {
        let (mut port, mut frame) = match self.rng.random_range(0..10) {
            0 => self.plain(),
            1 | 2 => self.arbitrary(),
            _ if self.has_rounds() => self.plausible_round(),
            _ => self.plausible(),
        };
        if self.rng.random_bool(0.15) {
            self.damage(&mut frame);
        }
        if self.rng.random_bool(0.03) {
            port = self.rng.random_range(1..=6);
        }
        if frame.len() >= HEADERS && self.rng.random_bool(0.05) {
            // Of another run of the job, or of another job.
            let other = *JOBS.choose(&mut self.rng).expect("not empty");
            let run = epoch(other) + self.rng.random_range(0..2);
            frame[EPOCH..SEQUENCE].copy_from_slice(&run.to_be_bytes());
        }
        if self.is_as_written() && frame.len() >= HEADERS && frame[AUDIENCE] != 0 {
            // With the values, a Tofino cuts off what follows them.
            frame.truncate(14 + usize::from(u16::from_be_bytes([frame[16], frame[17]])));
        }
        if !is_fair(&frame) {
            return;
        }
        let expected = self.model.pass(port, &frame);
        // Frames for ports without a link are lost.
        let expected: Vec<_> = expected.into_iter().filter(|(to, _)| PORTS.contains(to)).collect();
        let got = self.lab.send(port, &frame);
        assert!(
            got == expected,
            "after port {port}: {}\nexpected {:#?}\ngot {:#?}",
            describe(&frame),
            expected.iter().map(|(to, frame)| (to, describe(frame))).collect::<Vec<_>>(),
            got.iter().map(|(to, frame)| (to, describe(frame))).collect::<Vec<_>>(),
        );
    }

    /// A packet that follows the protocol, for few tasks and few cells.
    fn plausible(&mut self) -> (u16, Vec<u8>) {
        // Mostly gradients, so that sums become complete.
        let gradients = self.rng.random_bool(0.85);
        let known = self.model.parts.iter().filter(|(key, _)| (key.3 == GRADIENT) == gradients);
        let parts: Vec<(Membership, Part)> = known.map(|(key, part)| (*key, *part)).collect();
        let ((job, _, port, kind, rack), part) = *parts.choose(&mut self.rng).expect("not empty");
        let elsewhere = self.rng.random_bool(0.1);
        let mut frame = self.frame(kind, port).with(|f| {
            f.job = job;
            f.rack = rack;
            // A task has its cell, which some share; only sometimes does it name another.
            if !elsewhere {
                f.index = (u32::from(job) + 2 * f.sequence) % 5;
            }
        });
        if kind == GRADIENT {
            frame.bitmap = part.unit;
            match self.rng.random_range(0..16) {
                0 => frame.flags |= RESEND,
                1 => {
                    frame.flags |= *[COLLISION, OVERFLOW].choose(&mut self.rng).expect("not empty");
                    frame.bitmap &= self.rng.random::<u32>();
                }
                2 => {
                    frame.flags |= RESEND;
                    frame.bitmap &= self.rng.random::<u32>();
                }
                _ => {}
            }
        } else {
            frame.bitmap = part.members;
            let odd = if kind == PARAMETER || !self.esa() { 0.2 } else { 0.03 };
            frame.flags |= if self.rng.random_bool(odd) { COLLISION } else { 0 };
            if kind == ABSENT && self.rng.random_bool(0.9) {
                frame.bitmap = self.rng.random_range(1..16);
            }
        }
        (port, frame.bytes())
    }

    /// Valid headers with arbitrary contents.
    fn arbitrary(&mut self) -> (u16, Vec<u8>) {
        let port = self.rng.random_range(1..=6);
        let kind = self.rng.random_range(0..=8);
        let mut frame = self.frame(kind, port);
        frame.job = *[1, 2, 0x0201, 0, 9].choose(&mut self.rng).expect("not empty");
        frame.bitmap = *[0, 1, 3, 6, 0xf, u32::MAX].choose(&mut self.rng).expect("not empty");
        frame.flags = self.rng.random_range(0..32);
        frame.index = *[0, 5, 6, 7, u32::MAX].choose(&mut self.rng).expect("not empty");
        frame.priority = self.rng.random();
        frame.rack = *[0, 0, 1, 32, 255].choose(&mut self.rng).expect("not empty");
        frame.ttl = self.rng.random_range(0..4);
        (port, frame.bytes())
    }

    fn frame(&mut self, kind: u8, port: u16) -> Frame {
        let to = self.rng.random_range(1..=6);
        let program = self.lab.build().program;
        let rng = &mut self.rng;
        Frame::new(kind, port, to).with(|f| {
            f.protocol = program.protocol();
            if program == Program::Esa && kind == GRADIENT {
                f.priority = *[0, 1, 1, 2, 2, 3, 5, 8, 80, 255].choose(rng).expect("not empty");
            }
            f.sequence = rng.random_range(0..2);
            f.index = rng.random_range(0..3);
            f.ecn = rng.random_range(0..4);
            f.flags = if rng.random_bool(0.1) { MARKED } else { 0 };
            if rng.random_bool(0.1) {
                f.destination = ROUTER;
            }
            if ![0, QUERY, SWEEP].contains(&kind) && (kind < 8 || program == Program::P4inc) {
                f.values = (0..VALUES).map(|_| rng.random()).collect();
            }
            if rng.random_bool(0.05) {
                f.trailer = vec![0x55; rng.random_range(1..20)];
            }
        })
    }

    fn plain(&mut self) -> (u16, Vec<u8>) {
        let port = self.rng.random_range(1..=6);
        let rng = &mut self.rng;
        let to = *[mac(1), mac(2), mac(6), ROUTER, !0 >> 16].choose(rng).expect("not empty");
        let payload: Vec<u8> = (0..rng.random_range(0..80)).map(|_| rng.random()).collect();
        let frame = if rng.random_bool(0.5) {
            let types = [ARP, ARP, IPV6, IPV6, 40];
            plain(to, mac(port), *types.choose(rng).expect("not empty"), &payload)
        } else {
            let frame = Frame::new(0, port, rng.random_range(1..=6)).with(|f| {
                f.destination = to;
                f.ttl = rng.random_range(0..5);
                f.ip_protocol = *[1, 1, 6, 6, 17, 4, 47].choose(rng).expect("not empty");
            });
            frame.wrap(&payload)
        };
        (port, frame)
    }

    fn damage(&mut self, frame: &mut Vec<u8>) {
        let rng = &mut self.rng;
        match rng.random_range(0..6) {
            // The minimum frame length of a link does not apply to programs.
            0 => frame.truncate(rng.random_range(14..=frame.len())),
            1 => frame.extend((0..rng.random_range(1..40)).map(|_| 0xa5)),
            _ => {
                for _ in 0..rng.random_range(1..=3) {
                    let bit = rng.random_range(0..frame.len().min(HEADERS) * 8);
                    frame[bit / 8] ^= 0x80 >> (bit % 8);
                }
            }
        }
        let is_ip = frame.len() >= 34 && frame[12..14] == IPV4.to_be_bytes();
        if is_ip && rng.random_bool(0.7) {
            frame[24..26].fill(0);
            let checksum = internet_checksum(&frame[14..34]);
            frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        }
    }
}

/// Whether a testbed can carry a frame, and the contract covers it.
fn is_fair(frame: &[u8]) -> bool {
    let ethertype = u16::from_be_bytes([frame[12], frame[13]]);
    // Kernels remove tags.
    if [0x8100, 0x88a8].contains(&ethertype) {
        return false;
    }
    // The contract does not cover routing of packets with options.
    let routed = frame[..6] == ROUTER.to_be_bytes()[2..];
    !(routed && ethertype == IPV4 && frame.len() > 14 && frame[14] & 15 != 5)
}

fn entry((job, _, port, kind, rack): Membership, part: Part) -> Entry {
    let Part { unit, members, upward, group, slot, transit, reminded } = part;
    let entry = match kind {
        _ if transit => Entry::pass(job, port, kind, slot),
        GRADIENT => Entry::contribute_to(job, port, (unit, members), group, slot).upward(upward),
        REMINDER if reminded => Entry::remind(job, port, members, slot),
        PARAMETER => Entry::distribute(job, port, group, slot),
        _ => Entry::answer(job, port, kind, slot),
    };
    entry.of_rack(rack)
}
