//! Super-frames and hostile descriptions of them, at the ports of a switch.
//!
//! Frames of the workers and the parameter server reach the switch as they would through AF_PACKET
//! sockets with `--io gso`: joined into buffers, and cut. Between them arrive mutated copies of these
//! buffers: other lengths and offsets in the `virtio_net_hdr`, other headers, cut-off tails, datagrams
//! of several jobs behind the headers of one. All sums must be exact, no aggregator may stay behind,
//! and no buffer may become more than it contains. No mutation writes into a worker's contribution, as
//! that would be another contribution: UDP has no checksum here.
//!
//! A run is a function of its seed. `TRIBUTARY_SEED=n` replays one; `TRIBUTARY_SEEDS=n` runs that many.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_model::SwitchId;
use tributary_netio::packet::{cut, join};
use tributary_sim::{Intercept, Options, Run};

use crate::cases::{inputs, program, scenario};
use crate::exact::{check_exact, describe, seeds};

const VALUES: usize = 32;
/// Bytes of a `virtio_net_hdr`, and of the headers of a datagram before its payload.
const VNET: usize = 10;
const HEADERS: usize = 42;
const IP: usize = VNET + 14;
const UDP: usize = VNET + 34;

/// Most genuine frames that wait to be joined.
const MOST_HELD: usize = 64;
/// Genuine buffers that mutations are made from.
const RECENT: usize = 8;

/// What the ports have seen.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Genuine buffers with several frames.
    joined: u64,
    /// Hostile buffers that were dropped, and those that were cut.
    dropped: u64,
    cut: u64,
    /// Frames from these.
    frames: u64,
}

/// The ports of the switches.
#[derive(Debug)]
struct Ports {
    random: ChaCha8Rng,
    held: BTreeMap<(SwitchId, u16), Vec<Vec<u8>>>,
    recent: VecDeque<Vec<u8>>,
    counts: Rc<RefCell<Counts>>,
}

impl Ports {
    /// Delivers a buffer that the kernel might have delivered, whatever it is.
    fn hostile(&mut self, sink: &mut dyn FnMut(&[u8])) {
        let recent: Vec<_> = self.recent.iter().collect();
        let Some(buffer) = recent.choose(&mut self.random) else { return };
        let mut buffer = buffer.to_vec();
        let mut is_whole = true;
        for _ in 0..self.random.random_range(1..=3) {
            self.mutate(&mut buffer, &mut is_whole);
        }
        let tag = self.random.random_bool(0.1).then(|| (0x8100, self.random.random()));
        let mut bytes = 0;
        let cut = cut(&buffer, tag, &mut |frame| {
            bytes += frame.len();
            assert!(frame.len() <= buffer.len() + 4, "a frame is longer than its buffer");
            sink(frame);
        });
        let mut counts = self.counts.borrow_mut();
        let Some(frames) = cut else {
            counts.dropped += 1;
            return;
        };
        // 60 bytes for each frame, and 142 bytes of headers at most.
        assert!(frames == 1 || frames * 60 <= buffer.len(), "{frames} frames");
        assert!(bytes <= buffer.len() + frames * 142, "{bytes} bytes");
        counts.cut += 1;
        counts.frames += frames as u64;
    }

    fn mutate(&mut self, buffer: &mut Vec<u8>, is_whole: &mut bool) {
        let random = &mut self.random;
        if buffer.len() <= VNET + HEADERS + 16 {
            return;
        }
        let payload = VNET + HEADERS..buffer.len();
        let word = |random: &mut ChaCha8Rng| -> u16 {
            let odd = [0, 1, 2, 7, 8, 33, 34, 35, 42, 1_472, 0x7fff, u16::MAX];
            if random.random() { *odd.choose(random).expect("twelve") } else { random.random() }
        };
        // The `virtio_net_hdr`: flags, kind, and words for header length, segment size, start of the
        // checksum and its offset.
        match random.random_range(0..15) {
            0 => buffer[0] = random.random_range(0..8),
            1 => {
                let kinds = [0, 1, 3, 4, 5, 0x20, 0x81, 0x84, 0x85, 0xff];
                buffer[1] = *kinds.choose(random).expect("ten");
            }
            at @ 2..=5 => {
                let at = 2 * (at - 1);
                buffer[at..at + 2].copy_from_slice(&word(random).to_ne_bytes());
            }
            // Segments of twice or half the size, or a byte more or less.
            6 => {
                let size = u16::from_ne_bytes([buffer[4], buffer[5]]);
                let sizes =
                    [size.wrapping_mul(2), size / 2, size.wrapping_add(1), size.wrapping_sub(1)];
                buffer[4..6].copy_from_slice(&sizes.choose(random).expect("four").to_ne_bytes());
            }
            // A tail that is cut off, or longer: not both, which would fill in a contribution.
            7 => {
                buffer.truncate(random.random_range(VNET..buffer.len()));
                *is_whole = false;
            }
            8 if *is_whole => buffer.extend(vec![0; random.random_range(1..200)]),
            8 => {}
            // Lengths, options, fragments, protocol and checksums of IPv4 and UDP.
            9 => buffer[IP + random.random_range(0..12)] = random.random(),
            10 => buffer[UDP + random.random_range(4..8)] = random.random(),
            // A tag in the frame, or IPv4 options, with or without their length.
            11 => {
                let tag = [0x81, 0x00, random.random(), random.random()];
                buffer.splice(VNET + 12..VNET + 12, tag);
                buffer[6] = buffer[6].wrapping_add(4 * u8::from(random.random::<bool>()));
            }
            12 => {
                buffer.splice(UDP..UDP, [1; 4]);
                buffer[IP] = buffer[IP].wrapping_add(u8::from(random.random::<bool>()));
                buffer[6] = buffer[6].wrapping_add(4 * u8::from(random.random::<bool>()));
            }
            // The same bytes as a TCP stream.
            13 => {
                [buffer[0], buffer[1], buffer[8]] = [1, 1, 16];
                (buffer[IP + 9], buffer[UDP + 12]) = (6, 0x50);
            }
            // Datagrams of others behind these headers.
            _ => {
                let others: Vec<_> = self.recent.iter().collect();
                let other = others.choose(random).expect("there is at least this one");
                if other.len() > payload.start {
                    buffer.truncate(payload.start);
                    buffer.extend(&other[payload.start..]);
                }
            }
        }
    }
}

impl Intercept for Ports {
    fn arrived(&mut self, switch: SwitchId, port: u16, frame: &[u8], sink: &mut dyn FnMut(&[u8])) {
        let held = self.held.entry((switch, port)).or_default();
        held.push(frame.to_vec());
        if held.len() < MOST_HELD && self.random.random_bool(0.7) {
            return;
        }
        let genuine = std::mem::take(held);
        let mut received = Vec::new();
        for buffer in join(&genuine) {
            for _ in 0..self.random.random_range(0..3) {
                self.hostile(sink);
            }
            for _ in 0..1 + u32::from(self.random.random_bool(0.1)) {
                received.clear();
                let frames = cut(&buffer, None, &mut |frame| received.push(frame.to_vec()));
                self.counts.borrow_mut().joined += u64::from(frames > Some(1));
                received.iter().for_each(|frame| sink(frame));
            }
            assert!(received.iter().all(|frame| genuine.contains(frame)), "frames change");
            self.recent.push_back(buffer);
            if self.recent.len() > RECENT {
                self.recent.pop_front();
            }
        }
    }
}

/// Two jobs at one switch, whose frames arrive as super-frames beside hostile ones.
fn check(protocol: &str, seed: u64) -> Counts {
    let server = if protocol == "atp" { 1 } else { 0 };
    let scenario = scenario(&format!(
        "seed = {seed}\n[topology]\nkind = \"star\"\nworkers = 5\nps_hosts = {server}\n\
         [protocol]\nkind = \"{protocol}\"\nvalues_per_packet = {VALUES}\nslots = 32\nwindow = 32\n\
         [switch]\npool = 128\n[[job]]\nworkers = [\"w1\", \"w2\"]\n\
         [[job]]\nworkers = [\"w3\", \"w4\", \"w5\"]\n"
    ));
    let inputs = inputs(&scenario, 2, VALUES * 100 + 5);
    let options = Options::seeded(seed);
    let mut run = Run::start(&scenario, &program(&scenario), inputs.clone(), &options).unwrap();
    let counts = Rc::default();
    run.system.network.intercept(Box::new(Ports {
        random: ChaCha8Rng::seed_from_u64(seed),
        held: BTreeMap::new(),
        recent: VecDeque::new(),
        counts: Rc::clone(&counts),
    }));
    while run.step().unwrap() {}
    let outcome = run.finish().unwrap();
    let replay = format!("{protocol}, TRIBUTARY_SEED={seed}: {}", describe(&outcome));
    assert!(outcome.complete, "{replay}");
    check_exact(&scenario, &inputs, &outcome.sums)
        .unwrap_or_else(|error| panic!("{error}\n{replay}"));
    assert_eq!(outcome.left_behind, 0, "{replay}");
    let counts = *counts.borrow();
    assert!(counts.joined > 10 && counts.dropped > 10 && counts.cut > 10, "{counts:?}");
    counts
}

fn check_seeds(protocol: &str) {
    for seed in seeds(50).0 {
        let counts = check(protocol, seed);
        assert!(counts.frames > counts.cut, "{counts:?}");
    }
}

#[test]
fn hostile_super_frames_change_no_sum_of_p4inc() {
    check_seeds("p4inc");
}

#[test]
fn hostile_super_frames_change_no_sum_of_atp() {
    check_seeds("atp");
}
