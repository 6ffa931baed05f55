//! Classic BPF programs that the kernel runs on every frame, so that other traffic is not copied.

use crate::segments::{FLOW, HEADERS};

/// One instruction, as in the kernel's `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) jt: u8,
    pub(crate) jf: u8,
    pub(crate) k: u32,
}

// Codes: class | size | mode, and class | operation | source.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_HALF_AT_X: u16 = 0x48;
/// X = 4 × (byte & 15): the length of an IPv4 header.
const LOAD_X_HEADER_LENGTH: u16 = 0xb1;
const SHIFT_RIGHT: u16 = 0x74;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;
const RETURN_A: u16 = 0x16;

/// The place of a job's number in the payload of a datagram.
const JOB: u32 = (FLOW.start - HEADERS) as u32;
const UDP_HEADER: u32 = 8;

/// Offset at which the kernel exposes a frame's direction: `SKF_AD_OFF + SKF_AD_PKTTYPE`.
const PACKET_TYPE: u32 = (-0x1000_i32 + 4).cast_unsigned();
/// Offset at which it exposes whether a VLAN tag was removed: `SKF_AD_OFF +
/// SKF_AD_VLAN_TAG_PRESENT`.
const TAG_PRESENT: u32 = (-0x1000_i32 + 48).cast_unsigned();
/// Offset at which it exposes a frame's EtherType: `SKF_AD_OFF + SKF_AD_PROTOCOL`.
const PROTOCOL: u32 = (-0x1000_i32).cast_unsigned();
/// Offset at which it exposes the network header, wherever the frame starts: `SKF_NET_OFF`.
const NETWORK: u32 = (-0x10_0000_i32).cast_unsigned();
const TO_ANOTHER_HOST: u32 = 3;
const OUTGOING: u32 = 4;

const ETHER_TYPE: u32 = 12;
const IPV4: u32 = 0x0800;
const IP_HEADER: u32 = 14;
const IP_FRAGMENT: u32 = IP_HEADER + 6;
const IP_PROTOCOL: u32 = IP_HEADER + 9;
const UDP: u32 = 17;
const UDP_DESTINATION: u32 = IP_HEADER + 2;

const KEEP_ALL: u32 = 0x4_0000;
const DROP: u32 = 0;

/// A test that a frame must pass.
enum Test {
    Equal(u32),
    NotEqual(u32),
    NoBitOf(u32),
}

/// Accepts UDP over IPv4 to `port`, unfragmented and without a VLAN tag, from other hosts. The
/// Ethernet destination is arbitrary, or one that the interface accepts as its own.
pub(super) fn udp_to(port: u16, any_address: bool) -> Vec<Instruction> {
    let mut steps = vec![(step(LOAD_WORD, PACKET_TYPE), Some(Test::NotEqual(OUTGOING)))];
    if !any_address {
        steps.push((step(LOAD_WORD, PACKET_TYPE), Some(Test::NotEqual(TO_ANOTHER_HOST))));
    }
    steps.extend(datagrams_to(port));
    assemble(steps)
}

/// Accepts the frames that this host sends, or those that it receives. If there is a port, it accepts
/// only UDP over IPv4 to it, unfragmented and without a VLAN tag.
pub(super) fn passing(outgoing: bool, port: Option<u16>) -> Vec<Instruction> {
    let test = if outgoing { Test::Equal(OUTGOING) } else { Test::NotEqual(OUTGOING) };
    let mut steps = vec![(step(LOAD_WORD, PACKET_TYPE), Some(test))];
    steps.extend(port.into_iter().flat_map(datagrams_to));
    assemble(steps)
}

/// Tests for UDP over IPv4 to a port, unfragmented and without a VLAN tag.
fn datagrams_to(port: u16) -> [(Instruction, Option<Test>); 6] {
    let load = step;
    [
        // A switch may have forwarded a tagged frame as ordinary traffic without checking its
        // sender.
        (load(LOAD_WORD, TAG_PRESENT), Some(Test::Equal(0))),
        (load(LOAD_HALF, ETHER_TYPE), Some(Test::Equal(IPV4))),
        (load(LOAD_BYTE, IP_PROTOCOL), Some(Test::Equal(UDP))),
        // Only a first fragment has ports, and the rest of the datagram would be missing: both
        // "more fragments" and the offset must be zero.
        (load(LOAD_HALF, IP_FRAGMENT), Some(Test::NoBitOf(0x3fff))),
        (load(LOAD_X_HEADER_LENGTH, IP_HEADER), None),
        (load(LOAD_HALF_AT_X, UDP_DESTINATION), Some(Test::Equal(u32::from(port)))),
    ]
}

/// Returns bits of a word of datagrams to a port, in IPv4 packets without options, and 0 for all
/// other frames: the word at `offset` of the frame, without its lowest `shift` bits.
///
/// It also runs where the frame does not start with its Ethernet header.
pub(super) fn word(port: u16, offset: u32, shift: u32) -> Vec<Instruction> {
    const PLAIN: u32 = 0x45;
    let network = |frame: u32| NETWORK.wrapping_add(frame - IP_HEADER);
    let tests = [
        (step(LOAD_WORD, PROTOCOL), Test::Equal(IPV4)),
        (step(LOAD_BYTE, network(IP_HEADER)), Test::Equal(PLAIN)),
        (step(LOAD_BYTE, network(IP_PROTOCOL)), Test::Equal(UDP)),
        (step(LOAD_HALF, network(IP_FRAGMENT)), Test::NoBitOf(0x3fff)),
        (step(LOAD_HALF, network(IP_HEADER + 20 + 2)), Test::Equal(u32::from(port))),
    ];
    let mut program = assemble(tests.into_iter().map(|(load, test)| (load, Some(test))).collect());
    // What passes the tests goes on instead of being kept; what does not returns 0, as a drop does.
    let keep = program.len() - 2;
    let rest = [step(LOAD_WORD, network(offset)), step(SHIFT_RIGHT, shift), step(RETURN_A, 0)];
    program[keep] = step(JUMP, 1);
    program.extend(rest);
    program
}

/// Accepts what `program` accepts, if it is of one of these jobs: `program` must end in the two
/// returns of [`udp_to`], and leave X as it does.
pub(super) fn of_jobs(mut program: Vec<Instruction>, jobs: &[u16]) -> Vec<Instruction> {
    let accept = program.len() - 2;
    // Past the drop.
    program[accept] = step(JUMP, 1);
    program.push(step(LOAD_HALF_AT_X, IP_HEADER + UDP_HEADER + JOB));
    program.extend(choose(jobs.iter().map(|&job| (job, KEEP_ALL))));
    program.push(step(RETURN, DROP));
    program
}

/// Returns the position of the list that contains the job of a datagram, whose payload this program
/// sees, and zero for other datagrams.
pub(crate) fn position_of_job<'a>(lists: impl Iterator<Item = &'a [u16]>) -> Vec<Instruction> {
    let jobs = lists.zip(0..).flat_map(|(jobs, at)| jobs.iter().map(move |&job| (job, at)));
    let mut program = vec![step(LOAD_HALF, JOB)];
    program.extend(choose(jobs));
    program.push(step(RETURN, 0));
    program
}

/// Returns the second number of the pair whose first one was loaded, or goes on.
fn choose(pairs: impl Iterator<Item = (u16, u32)>) -> impl Iterator<Item = Instruction> {
    pairs.flat_map(|(number, result)| {
        [Instruction { jf: 1, ..step(JUMP_IF_EQUAL, number.into()) }, step(RETURN, result)]
    })
}

fn step(code: u16, k: u32) -> Instruction {
    Instruction { code, jt: 0, jf: 0, k }
}

/// Accepts nothing.
pub(super) fn nothing() -> Vec<Instruction> {
    vec![Instruction { code: RETURN, jt: 0, jf: 0, k: DROP }]
}

/// Emits loads and tests in order. The first test that fails jumps to the drop at the end.
fn assemble(steps: Vec<(Instruction, Option<Test>)>) -> Vec<Instruction> {
    let length: usize = steps.iter().map(|(_, test)| 1 + usize::from(test.is_some())).sum();
    let mut program = Vec::with_capacity(length + 2);
    for (load, test) in steps {
        program.push(load);
        let Some(test) = test else { continue };
        // From the instruction after this one, past the "keep", to the "drop".
        let to_drop = u8::try_from(length - program.len()).expect("programs are short");
        program.push(match test {
            Test::Equal(k) => Instruction { code: JUMP_IF_EQUAL, jt: 0, jf: to_drop, k },
            Test::NotEqual(k) => Instruction { code: JUMP_IF_EQUAL, jt: to_drop, jf: 0, k },
            Test::NoBitOf(k) => Instruction { code: JUMP_IF_ANY_BIT, jt: to_drop, jf: 0, k },
        });
    }
    program.push(Instruction { code: RETURN, jt: 0, jf: 0, k: KEEP_ALL });
    program.push(Instruction { code: RETURN, jt: 0, jf: 0, k: DROP });
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interpreter written from the manual, independently of the assembler.
    fn run(program: &[Instruction], frame: &[u8], packet_type: u32) -> u32 {
        run_tagged(program, frame, packet_type, 0)
    }

    fn run_tagged(program: &[Instruction], frame: &[u8], packet_type: u32, tagged: u32) -> u32 {
        let half =
            |at: usize| frame.get(at..at + 2).map(|b| u32::from(b[0]) << 8 | u32::from(b[1]));
        let (mut a, mut x, mut at) = (0, 0_usize, 0);
        loop {
            let step = program[at];
            at += 1;
            // Offsets from the network header on, which is after an Ethernet header without a tag.
            let k = match step.k.checked_sub(0xfff0_0000) {
                Some(network) if network < 0xf_f000 => 14 + network as usize,
                _ => step.k as usize,
            };
            let loaded = match step.code {
                0x20 if step.k == 0xffff_f004 => Some(packet_type),
                0x20 if step.k == 0xffff_f030 => Some(tagged),
                0x20 if step.k == 0xffff_f000 => half(12),
                0x20 => half(k).zip(half(k + 2)).map(|(high, low)| high << 16 | low),
                0x28 => half(k),
                0x30 => frame.get(k).map(|byte| u32::from(*byte)),
                0x48 => half(x + k),
                0xb1 => {
                    let Some(byte) = frame.get(k) else { return 0 };
                    x = 4 * usize::from(byte & 15);
                    Some(a)
                }
                0x15 => {
                    at += usize::from(if a == step.k { step.jt } else { step.jf });
                    Some(a)
                }
                0x05 => {
                    at += k;
                    Some(a)
                }
                0x74 => Some(a >> step.k),
                0x16 => return a,
                0x45 => {
                    at += usize::from(if a & step.k != 0 { step.jt } else { step.jf });
                    Some(a)
                }
                0x06 => return step.k,
                other => panic!("instruction {other:#x} is not used here"),
            };
            // The kernel drops a frame if a load exceeds its end.
            let Some(loaded) = loaded else { return 0 };
            a = loaded;
        }
    }

    fn frame(options: usize, port: u16) -> Vec<u8> {
        let mut frame = vec![0; 14 + 20 + options + 8 + 4];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14] = 0x45 + u8::try_from(options / 4).unwrap();
        frame[20] = 0x40; // don't fragment
        frame[23] = 17;
        frame[36 + options..38 + options].copy_from_slice(&port.to_be_bytes());
        frame
    }

    #[test]
    fn only_our_datagrams_pass() {
        let program = udp_to(29_810, false);
        for options in [0, 4, 40] {
            assert_eq!(run(&program, &frame(options, 29_810), 0), KEEP_ALL);
            assert_eq!(run(&program, &frame(options, 29_810), 2), KEEP_ALL, "multicast");
            assert_eq!(run(&program, &frame(options, 29_811), 0), DROP);
        }
        let spoilt = |at: usize, value: u8| {
            let mut frame = frame(0, 29_810);
            frame[at] = value;
            frame
        };
        assert_eq!(run(&program, &spoilt(13, 6), 0), DROP, "not IPv4");
        assert_eq!(run(&program, &spoilt(23, 6), 0), DROP, "not UDP");
        assert_eq!(run(&program, &spoilt(20, 0x20), 0), DROP, "more fragments follow");
        assert_eq!(run(&program, &spoilt(21, 1), 0), DROP, "a later fragment");
        assert_eq!(run(&program, &frame(0, 29_810)[..37], 0), DROP, "cut short");
    }

    #[test]
    fn a_word_of_our_datagrams_is_returned() {
        let program = word(29_810, 42, 6);
        let filled = |options: usize, port: u16| {
            let mut frame = frame(options, port);
            let end = frame.len();
            frame[end - 4..].copy_from_slice(&0x1234_5678_u32.to_be_bytes());
            frame
        };
        assert_eq!(run(&program, &filled(0, 29_810), 0), 0x1234_5678 >> 6);
        assert_eq!(run(&program, &filled(0, 29_811), 0), 0, "another port");
        assert_eq!(run(&program, &filled(4, 29_810), 0), 0, "with options");
        assert_eq!(run(&program, &filled(0, 29_810)[..45], 0), 0, "cut short");
        for (at, value) in [(13, 6), (23, 6), (20, 0x20), (21, 1)] {
            let mut frame = filled(0, 29_810);
            frame[at] = value;
            assert_eq!(run(&program, &frame, 0), 0, "byte {at}");
        }
    }

    #[test]
    fn direction_and_address_count_unless_promiscuous() {
        for (any_address, for_another) in [(false, DROP), (true, KEEP_ALL)] {
            let program = udp_to(29_810, any_address);
            assert_eq!(run(&program, &frame(0, 29_810), OUTGOING), DROP);
            assert_eq!(run(&program, &frame(0, 29_810), TO_ANOTHER_HOST), for_another);
        }
    }

    #[test]
    fn tagged_frames_are_dropped() {
        for any_address in [false, true] {
            let program = udp_to(29_810, any_address);
            assert_eq!(run_tagged(&program, &frame(0, 29_810), 0, 1), DROP);
            assert_eq!(run_tagged(&program, &frame(0, 29_810), 0, 0), KEEP_ALL);
        }
    }

    #[test]
    fn sockets_that_share_a_port_are_chosen_by_job() {
        let of = |job: u16, options: usize| {
            let mut frame = frame(options, 29_810);
            frame.extend(job.to_be_bytes());
            frame
        };
        // As many as a file can have, which is further than a jump reaches.
        let many: Vec<u16> = (1_000..1_255).collect();
        let program = of_jobs(udp_to(29_810, false), &many);
        for options in [0, 4] {
            for job in [1_000, 1_001, 1_254] {
                assert_eq!(run(&program, &of(job, options), 0), KEEP_ALL);
            }
            for job in [999, 1_255, 0] {
                assert_eq!(run(&program, &of(job, options), 0), DROP);
            }
        }
        assert_eq!(run(&program, &frame(0, 29_810), 0), DROP, "cut short");
        assert_eq!(run(&program, &of(1_000, 0)[1..], 0), DROP, "not UDP");
        let program = position_of_job([&[7, 300][..], &[8], &[]].into_iter());
        let payload = |job: u16| [[0; 4].to_vec(), job.to_be_bytes().to_vec()].concat();
        for (job, position) in [(7, 0), (300, 0), (8, 1), (9, 0)] {
            assert_eq!(run(&program, &payload(job), 0), position);
        }
        assert_eq!(run(&program, &[0; 5], 0), 0, "cut short");
    }

    #[test]
    fn sniffers_see_one_direction_each() {
        let ours = frame(0, 29_810);
        let other = frame(0, 53);
        for kind in 0..5 {
            let sent = kind == OUTGOING;
            for (frame, to_port) in [(&ours, true), (&other, false)] {
                for outgoing in [false, true] {
                    let seen = |port| run(&passing(outgoing, port), frame, kind) == KEEP_ALL;
                    assert_eq!(seen(None), sent == outgoing);
                    assert_eq!(seen(Some(29_810)), sent == outgoing && to_port);
                }
            }
        }
    }

    #[test]
    fn the_empty_program_accepts_nothing() {
        assert_eq!(run(&nothing(), &frame(0, 29_810), 0), DROP);
    }
}
