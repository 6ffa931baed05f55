//! The packet generator of a Tofino: applications that put packets into the ingress parser when a
//! time has come, when a port has lost its link, or when a recirculated packet has a pattern.
//!
//! This module has no clock: callers pass the time, and ask when the next packet is due.

use std::collections::{BTreeSet, VecDeque};

use tributary_dataplane::RECIRCULATION_PORT;

/// Bytes in front of a generated packet.
const HEADER: usize = 6;

/// Applications of a packet generator.
pub(crate) const APPLICATIONS: u8 = 8;

/// Triggers of one application that may wait until it has made its packets for earlier ones; more
/// are lost, to bound the memory.
const MOST_WAITING: usize = 512;

/// An application of the packet generator. Each time that it is triggered, it makes batches of copies
/// of its packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Application {
    /// Its number, 0 to 7, which its packets carry.
    pub id: u8,
    /// What makes it generate packets.
    pub trigger: Trigger,
    /// The packet after the generator's header.
    pub packet: Vec<u8>,
    /// Batches for each trigger.
    pub batches: u32,
    /// Packets in each batch.
    pub packets: u32,
    /// Microseconds from the start of a batch to that of the next.
    pub batch_gap_us: u64,
    /// Microseconds from a packet to the next of its batch.
    pub packet_gap_us: u64,
    /// The port by which the packets seem to arrive.
    pub port: u16,
}

impl Default for Application {
    fn default() -> Self {
        Self {
            id: 0,
            trigger: Trigger::PortDown,
            packet: Vec::new(),
            batches: 1,
            packets: 1,
            batch_gap_us: 0,
            packet_gap_us: 0,
            port: RECIRCULATION_PORT,
        }
    }
}

/// What makes an application generate packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// A time, once: microseconds after the program was set.
    Once(u64),
    /// Each time that an interval ends: in microseconds, at least 1.
    Every(u64),
    /// A port loses its link, for the first time since it got it.
    PortDown,
    /// A recirculated packet whose first four bytes equal `value` in the bits of `mask`.
    Recirculated {
        /// The bits.
        value: u32,
        /// Those that are compared.
        mask: u32,
    },
}

/// The generator: its applications, and the packets that are due.
#[derive(Debug, Default)]
pub(crate) struct Generator {
    apps: Vec<Running>,
    /// Ports without a link that have triggered.
    down: BTreeSet<u16>,
}

#[derive(Debug)]
struct Running {
    app: Application,
    /// When its timer ends next.
    timer_us: Option<u64>,
    /// Triggers in turn: their times, and the 24 bits of the header that they determine.
    waiting: VecDeque<(u64, Key)>,
    /// The next packet of the first trigger.
    batch: u32,
    packet: u32,
}

/// What a trigger says in the header of its packets.
#[derive(Clone, Copy, Debug)]
enum Key {
    /// The number of the batch is there.
    Timer,
    /// The port.
    Port(u16),
    /// Three bytes of the packet.
    Bytes(u32),
}

impl Running {
    /// When its next packet is due.
    fn due_us(&self) -> Option<u64> {
        let &(since, _) = self.waiting.front()?;
        let batches = u64::from(self.batch).saturating_mul(self.app.batch_gap_us);
        let packets = u64::from(self.packet).saturating_mul(self.app.packet_gap_us);
        Some(since.saturating_add(batches).saturating_add(packets))
    }

    fn trigger(&mut self, at_us: u64, key: Key) -> bool {
        let room = self.waiting.len() < MOST_WAITING;
        if room {
            self.waiting.push_back((at_us, key));
        }
        room
    }

    /// Writes the next packet.
    fn make(&mut self, frame: &mut Vec<u8>) {
        let Some(&(_, key)) = self.waiting.front() else { return };
        frame.clear();
        frame.push(self.app.id & (APPLICATIONS - 1));
        let [_, rest @ ..] = match key {
            Key::Timer => (self.batch & 0xffff).to_be_bytes(),
            Key::Port(port) => u32::from(port).to_be_bytes(),
            Key::Bytes(bytes) => bytes.to_be_bytes(),
        };
        frame.extend_from_slice(&rest);
        frame.extend_from_slice(&(self.packet as u16).to_be_bytes());
        debug_assert_eq!(frame.len(), HEADER);
        frame.extend_from_slice(&self.app.packet);
        self.packet += 1;
        if self.packet >= self.app.packets {
            self.packet = 0;
            self.batch += 1;
        }
        if self.batch >= self.app.batches {
            self.batch = 0;
            self.waiting.pop_front();
        }
    }
}

impl Generator {
    /// A generator whose timers start now.
    pub(crate) fn new(apps: &[Application], now_us: u64) -> Self {
        let mut generator = Self::default();
        apps.iter().for_each(|app| generator.add(app.clone(), now_us));
        generator
    }

    /// Adds an application, whose timer starts now.
    pub(crate) fn add(&mut self, app: Application, now_us: u64) {
        let timer_us = match app.trigger {
            Trigger::Once(after) | Trigger::Every(after) => Some(now_us.saturating_add(after)),
            Trigger::PortDown | Trigger::Recirculated { .. } => None,
        };
        let waiting = VecDeque::new();
        self.apps.push(Running { app, timer_us, waiting, batch: 0, packet: 0 });
    }

    /// When the next packet is due.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.apps.iter().filter_map(|it| it.timer_us.into_iter().chain(it.due_us()).min()).min()
    }

    /// Writes the next packet that is due into `frame`, and returns its port. Counts triggers that
    /// were lost in `lost`.
    pub(crate) fn poll(&mut self, now_us: u64, frame: &mut Vec<u8>, lost: &mut u64) -> Option<u16> {
        for app in &mut self.apps {
            let Some(at) = app.timer_us.filter(|&at| at <= now_us) else { continue };
            app.timer_us = match app.app.trigger {
                Trigger::Every(interval) => Some(at.saturating_add(interval.max(1))),
                _ => None,
            };
            *lost += u64::from(!app.trigger(at, Key::Timer));
        }
        let due = |app: &&mut Running| app.due_us().is_some_and(|at| at <= now_us);
        let app = self.apps.iter_mut().filter(due).min_by_key(|app| app.due_us())?;
        app.make(frame);
        Some(app.app.port)
    }

    /// A port has lost its link, or has got it. Returns how many triggers were lost.
    pub(crate) fn link(&mut self, now_us: u64, port: u16, up: bool) -> u64 {
        if up {
            self.down.remove(&port);
            return 0;
        }
        if !self.down.insert(port) {
            return 0;
        }
        let apps = self.apps.iter_mut().filter(|it| it.app.trigger == Trigger::PortDown);
        apps.map(|app| u64::from(!app.trigger(now_us, Key::Port(port)))).sum()
    }

    /// A packet was recirculated. Returns how many triggers were lost.
    pub(crate) fn recirculated(&mut self, now_us: u64, frame: &[u8]) -> u64 {
        let Some(&first) = frame.first_chunk() else { return 0 };
        let bits = u32::from_be_bytes(first);
        let mut lost = 0;
        for app in &mut self.apps {
            if let Trigger::Recirculated { value, mask } = app.app.trigger
                && (bits ^ value) & mask == 0
            {
                lost += u64::from(!app.trigger(now_us, Key::Bytes(bits & 0xff_ffff)));
            }
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The packets that are due until a time, each with its time.
    fn made(generator: &mut Generator, until_us: u64) -> Vec<(u64, Vec<u8>)> {
        let (mut all, mut frame, mut lost) = (Vec::new(), Vec::new(), 0);
        while let Some(at) = generator.due_us().filter(|&at| at <= until_us) {
            if generator.poll(at, &mut frame, &mut lost).is_some() {
                all.push((at, frame.clone()));
            }
        }
        assert_eq!(lost, 0);
        all
    }

    fn app(trigger: Trigger) -> Application {
        Application { id: 5, trigger, packet: vec![0xaa], ..Application::default() }
    }

    #[test]
    fn a_timer_makes_batches_of_packets_once_or_each_time() {
        let once = Application {
            batches: 2,
            packets: 2,
            batch_gap_us: 10,
            packet_gap_us: 3,
            ..app(Trigger::Once(100))
        };
        let mut generator = Generator::new(&[once], 1000);
        let header = |batch, packet| vec![5, 0, 0, batch, 0, packet, 0xaa];
        let expected = [(1100, 0, 0), (1103, 0, 1), (1110, 1, 0), (1113, 1, 1)]
            .map(|(t, b, p)| (t, header(b, p)));
        assert_eq!(made(&mut generator, u64::MAX), expected);
        let mut generator = Generator::new(&[app(Trigger::Every(50))], 0);
        let times: Vec<u64> = made(&mut generator, 160).into_iter().map(|(at, _)| at).collect();
        assert_eq!(times, [50, 100, 150]);
        assert_eq!(generator.due_us(), Some(200));
    }

    #[test]
    fn a_port_triggers_when_it_goes_down_and_again_after_it_was_up() {
        let mut generator = Generator::new(&[app(Trigger::PortDown)], 0);
        assert_eq!(generator.due_us(), None);
        for (now, up) in [(1, false), (2, false), (3, true), (4, false)] {
            assert_eq!(generator.link(now, 0x103, up), 0);
        }
        let header = |packet| vec![5, 0, 1, 3, 0, packet, 0xaa];
        assert_eq!(made(&mut generator, 9), [(1, header(0)), (4, header(0))]);
    }

    #[test]
    fn a_recirculated_packet_triggers_by_its_first_four_bytes() {
        let trigger = Trigger::Recirculated { value: 0xff01_0203, mask: 0xff00_00ff };
        let mut generator = Generator::new(&[app(trigger)], 0);
        for frame in [&[0xff, 9, 8, 3, 7][..], &[0xff, 9, 8, 4], &[0xff, 9, 8]] {
            assert_eq!(generator.recirculated(6, frame), 0);
        }
        assert_eq!(made(&mut generator, 9), [(6, vec![5, 9, 8, 3, 0, 0, 0xaa])]);
    }

    #[test]
    fn triggers_beyond_the_limit_are_lost() {
        let mut generator = Generator::new(&[app(Trigger::PortDown)], 0);
        let lost: u64 = (0..512).map(|port| generator.link(0, port, false)).sum();
        assert_eq!(lost, 0);
        assert_eq!(generator.link(0, 512, false), 1);
        assert_eq!(made(&mut generator, 0).len(), MOST_WAITING);
    }
}
