//! The XDP programs that the kernel runs on every received frame, before any other processing.
//!
//! Each returns either "redirect to the socket of the frame's queue" or "pass to the kernel".

use super::assembler::Register::{R0, R1, R2, R3, R4, R5, R6};
use super::assembler::{Assembler, Helper, Instruction, Label, When, Width};

/// The action for a frame that a program does not redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// It is dropped.
    #[cfg(test)]
    Drop = 1,
    /// It is passed to the kernel's network stack.
    Pass = 2,
}

/// The frames that a program redirects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All frames: for a switch's port.
    All,
    /// UDP over IPv4 to this port, unfragmented and without IP options.
    Udp {
        port: u16,
        /// Only frames to this Ethernet address or to multicast groups.
        address: Option<[u8; 6]>,
    },
}

// Offsets in `struct xdp_md`, the context.
const FRAME_START: i16 = 0;
const FRAME_END: i16 = 4;
const QUEUE: i16 = 16;

// Offsets in a frame.
const DESTINATION: i16 = 0;
const ETHER_TYPE: i16 = 12;
const IP_VERSION_AND_LENGTH: i16 = 14;
const IP_FRAGMENT: i16 = 14 + 6;
const IP_PROTOCOL: i16 = 14 + 9;
const UDP_DESTINATION: i16 = 14 + 20 + 2;
/// Length of the three headers together.
const HEADERS: i32 = 14 + 20 + 8;

const GROUP_BIT: i32 = 1;
const IPV4: u16 = 0x0800;
const VERSION_4_WITHOUT_OPTIONS: i32 = 0x45;
/// "More fragments" and the fragment offset; both are zero in an unfragmented datagram.
const FRAGMENT_BITS: u16 = 0x3fff;
const UDP: i32 = 17;

/// Redirects the wanted frames to the entry of `map` (a descriptor) for their receive queue.
/// `unclaimed` applies if the queue has no entry. All other frames pass.
pub(super) fn redirect(wanted: Wanted, map: i32, unclaimed: Action) -> Vec<Instruction> {
    let mut program = Assembler::new();
    // The context is needed again after the tests.
    program.copy(R6, R1);
    if let Wanted::Udp { port, address } = wanted {
        let pass = program.label();
        let take = program.label();
        test_headers(&mut program, port, address, take, pass);
        program.place(pass);
        program.set(R0, Action::Pass as i32);
        program.exit();
        program.place(take);
    }
    program.set_map(R1, map);
    program.load(Width::Word, R2, R6, QUEUE);
    program.set(R3, unclaimed as i32);
    program.call(Helper::RedirectMap);
    program.exit();
    program.finish()
}

/// Jumps to `take` if the frame matches [`Wanted::Udp`]; otherwise jumps to `pass` or falls
/// through.
fn test_headers(
    program: &mut Assembler,
    port: u16,
    address: Option<[u8; 6]>,
    take: Label,
    pass: Label,
) {
    program.load(Width::Word, R2, R1, FRAME_START);
    program.load(Width::Word, R3, R1, FRAME_END);
    // The verifier allows reads only within bounds that the program has checked.
    program.copy(R4, R2);
    program.add(R4, HEADERS);
    program.jump_if(R4, When::Above(R3), pass);
    if let Some([a, b, c, d, e, f]) = address {
        let ours = program.label();
        program.load(Width::Byte, R5, R2, DESTINATION);
        program.jump_if(R5, When::AnyBit(GROUP_BIT), ours);
        program.load(Width::Word, R5, R2, DESTINATION);
        program.jump_if(R5, When::NotEqual(i32::from_ne_bytes([a, b, c, d])), pass);
        program.load(Width::Half, R5, R2, DESTINATION + 4);
        program.jump_if(R5, When::NotEqual(u16::from_ne_bytes([e, f]).into()), pass);
        program.place(ours);
    }
    program.load(Width::Half, R5, R2, ETHER_TYPE);
    program.jump_if(R5, When::NotEqual(IPV4.to_be().into()), pass);
    program.load(Width::Byte, R5, R2, IP_VERSION_AND_LENGTH);
    program.jump_if(R5, When::NotEqual(VERSION_4_WITHOUT_OPTIONS), pass);
    program.load(Width::Byte, R5, R2, IP_PROTOCOL);
    program.jump_if(R5, When::NotEqual(UDP), pass);
    program.load(Width::Half, R5, R2, IP_FRAGMENT);
    program.jump_if(R5, When::AnyBit(FRAGMENT_BITS.to_be().into()), pass);
    program.load(Width::Half, R5, R2, UDP_DESTINATION);
    program.jump_if(R5, When::Equal(port.to_be().into()), take);
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::os::fd::{AsFd, AsRawFd, OwnedFd};
    use std::sync::OnceLock;

    use proptest::prelude::*;
    use proptest::test_runner::{TestCaseResult, TestRunner};
    use tributary_wire::agg::Repr;
    use tributary_wire::{
        AggregatorIndex, Audience, Bitmap, Ecn, Envelope, Flags, Host, JobId, Kind, Mac, Protocol,
        Rack, Sequence, emit_frame,
    };

    use super::*;
    use crate::xdp::sys::bpf;

    const PORT: u16 = 29_810;
    const OWN: [u8; 6] = [0x02, 0xff, 0x80, 0x7f, 0x01, 0xfe];

    /// A program that drops the frames that the real one redirects, so that its result reveals the
    /// decision.
    fn load(wanted: Wanted) -> Option<OwnedFd> {
        let map = match bpf::create_socket_map(1) {
            Ok(map) => map,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                static TOLD: OnceLock<()> = OnceLock::new();
                TOLD.get_or_init(|| eprintln!("skipped: loading XDP programs needs root"));
                return None;
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                eprintln!("skipped: this kernel has no bpf(2)");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let code = redirect(wanted, map.as_raw_fd(), Action::Drop);
        Some(bpf::load_program(&code).unwrap_or_else(|refusal| panic!("{refusal:?}")))
    }

    fn takes(program: &OwnedFd, frame: &[u8]) -> bool {
        match bpf::test_run(program.as_fd(), frame).unwrap() {
            1 => true,
            2 => false,
            other => panic!("the program answers {other} to {frame:02x?}"),
        }
    }

    /// The expected decision, computed independently by parsing the frame.
    fn expected(frame: &[u8], port: u16, address: Option<[u8; 6]>) -> bool {
        let Some((ethernet, rest)) = frame.split_at_checked(14) else { return false };
        let Some((ip, rest)) = rest.split_at_checked(20) else { return false };
        let Some((udp, _)) = rest.split_at_checked(8) else { return false };
        let to_us = address.is_none_or(|own| ethernet[0] % 2 == 1 || ethernet[..6] == own);
        let ([.., 0x08, 0x00], [0x45, ..]) = (ethernet, ip) else { return false };
        let fragment = u16::from_be_bytes([ip[6], ip[7]]);
        let (more, offset) = (fragment >> 13 & 1, fragment & 0x1fff);
        to_us && ip[9] == 17 && (more, offset) == (0, 0) && udp[2..4] == port.to_be_bytes()
    }

    fn check(
        wanted: Wanted,
        frames: impl Strategy<Value = Vec<u8>>,
        expected: impl Fn(&[u8]) -> bool,
    ) {
        let Some(program) = load(wanted) else { return };
        let config = ProptestConfig { cases: 2_000, ..ProptestConfig::default() };
        let test = |frame: Vec<u8>| -> TestCaseResult {
            prop_assert_eq!(takes(&program, &frame), expected(&frame));
            Ok(())
        };
        TestRunner::new(config).run(&frames, test).unwrap();
    }

    fn mac() -> impl Strategy<Value = [u8; 6]> {
        prop_oneof![3 => Just(OWN), 1 => Just([1, 0, 0x5e, 0x54, 0, 1]), 1 => any::<[u8; 6]>()]
    }

    /// Frames for us, with up to three bytes of the headers changed.
    fn nearly_ours() -> impl Strategy<Value = Vec<u8>> {
        // Zero, all ones and single bits find more errors than random bytes.
        let byte = prop_oneof![Just(0), Just(0xff), (0_u32..8).prop_map(|n| 1 << n), any::<u8>()];
        let changes = prop::collection::vec((0_usize..42, byte), 0..=3);
        (mac(), 42_usize..1_500, changes).prop_map(|(destination, length, changes)| {
            let mut frame = vec![0; length];
            frame[..6].copy_from_slice(&destination);
            frame[12..14].copy_from_slice(&[8, 0]);
            frame[14] = 0x45;
            frame[20] = 0x40; // don't fragment
            frame[23] = 17;
            frame[36..38].copy_from_slice(&PORT.to_be_bytes());
            for (at, value) in changes {
                frame[at] = value;
            }
            frame
        })
    }

    /// Random bytes, and truncated frames. The kernel runs programs only on frames with an Ethernet
    /// header.
    fn hostile() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 14..200),
            (nearly_ours(), 14_usize..60).prop_map(|(mut frame, length)| {
                frame.truncate(length);
                frame
            }),
        ]
    }

    fn frames() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![3 => nearly_ours(), 1 => hostile()]
    }

    #[test]
    fn a_host_takes_its_own_datagrams_and_passes_the_rest() {
        let wanted = Wanted::Udp { port: PORT, address: Some(OWN) };
        check(wanted, frames(), |frame| expected(frame, PORT, Some(OWN)));
    }

    #[test]
    fn any_address_and_any_port_can_be_wanted() {
        for port in [PORT, 0, 0x00ff, 0xff00, 0xffff] {
            let wanted = Wanted::Udp { port, address: None };
            let frames = frames().prop_map(move |mut frame| {
                if frame.len() >= 38 && frame[36..38] == PORT.to_be_bytes() {
                    frame[36..38].copy_from_slice(&port.to_be_bytes());
                }
                frame
            });
            check(wanted, frames, |frame| expected(frame, port, None));
        }
    }

    #[test]
    fn a_switch_port_takes_everything() {
        check(Wanted::All, frames(), |_| true);
    }

    /// Every packet that `tributary-wire` writes is redirected, for all protocols and kinds.
    #[test]
    fn every_aggregation_packet_is_taken() {
        let host = |mac| Host { mac: Mac(mac), ip: [10, 0, 0, 1].into() };
        let field = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u8>(), any::<bool>());
        let frames = (0_u16..300, 1..=u16::MAX, field).prop_map(
            move |(values, job, (sequence, bitmap, index, flags, to_group))| {
                let job = JobId::new(job).expect("not zero");
                let destination = if to_group { Host::group(job) } else { host(OWN) };
                let source = host([2, 0, 0, 0, 0, 9]);
                let ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0][usize::from(flags) % 3];
                let repr = Repr {
                    protocol: Protocol::Atp,
                    kind: if values > 0 { Kind::Gradient } else { Kind::Query },
                    flags: Flags::NONE,
                    priority: flags,
                    job,
                    epoch: tributary_wire::Epoch::FIRST,
                    values,
                    sequence: Sequence(sequence),
                    bitmap: Bitmap(bitmap),
                    rack: Rack::NONE,
                    audience: Audience::ALL,
                    index: AggregatorIndex(index),
                };
                let mut frame = Vec::new();
                emit_frame(&mut frame, &Envelope { source, destination, ecn }, &repr);
                frame
            },
        );
        let wanted = Wanted::Udp { port: tributary_wire::PORT, address: Some(OWN) };
        check(wanted, frames, |_| true);
    }

    #[test]
    fn invalid_programs_are_rejected_with_the_verifiers_report() {
        let mut assembler = Assembler::new();
        // Reads the frame without checking its length.
        assembler.load(Width::Word, R2, R1, FRAME_START);
        assembler.load(Width::Byte, R0, R2, 0);
        assembler.exit();
        match bpf::load_program(&assembler.finish()) {
            Ok(_) => panic!("the kernel must not accept this"),
            Err(refusal) if refusal.error.raw_os_error() == Some(libc::EPERM) => {
                eprintln!("skipped: loading XDP programs needs root");
            }
            Err(refusal) => {
                assert!(refusal.report.contains("invalid access to packet"), "{refusal:?}");
            }
        }
    }
}
