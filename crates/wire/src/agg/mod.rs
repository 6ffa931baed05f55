//! The aggregation header.
//!
//! | offset | bytes | field | |
//! | --- | --- | --- | --- |
//! | 0 | 1 | protocol | [`Protocol`] |
//! | 1 | 1 | kind | [`Kind`] |
//! | 2 | 1 | flags | [`Flags`] |
//! | 3 | 1 | priority | priority of an ESA gradient, or its [`Repair`]; in P4INC and SwitchML the [`Service`]; in ATP the salt of the slot |
//! | 4 | 2 | job | never zero |
//! | 6 | 2 | values | number V of 32-bit values that follow; zero in Query and Sweep |
//! | 8 | 4 | epoch | the [run](Epoch) of the job, never zero |
//! | 12 | 4 | sequence | number of the fragment; in P4INC and SwitchML of the [round](crate::Round); in Sweep a nonce |
//! | 16 | 4 | bitmap | [`Repr::bitmap`] |
//! | 20 | 1 | rack | whose contributions the bitmap names: [`Rack`] |
//! | 21 | 3 | | reserved: zero |
//! | 24 | 4 | index | aggregator; in Sweep the next cell |
//!
//! The same header as P4 declares it:
//!
//! ```p4
//! header aggregation_t {
//!     bit<8>  protocol;
//!     bit<8>  kind;
//!     bit<8>  flags;
//!     bit<8>  priority;
//!     bit<16> job;
//!     bit<16> values;
//!     bit<32> epoch;
//!     bit<32> sequence;
//!     bit<32> bitmap;
//!     bit<8>  rack;
//!     bit<24> reserved;
//!     bit<32> index;
//! }
//! ```

mod flags;
mod kind;
mod protocol;
mod repair;

use std::net::Ipv4Addr;

use crate::values::{read_f32, read_i32};
use crate::{
    AggregatorIndex, Bitmap, Ecn, Envelope, Epoch, Error, HEADERS_LEN, Host, JobId, Mac,
    POSITIONS_MAX, Rack, Round, Sequence, Service, ethernet, ipv4, udp,
};

pub use flags::Flags;
pub use kind::Kind;
pub use protocol::Protocol;
pub use repair::{Repair, Repaired};

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 28;

/// Offset of the header in a frame, in bytes.
pub const OFFSET: usize = HEADERS_LEN - HEADER_LEN;

/// Offsets of the fields, in bytes from the start of the header.
pub mod field {
    use std::ops::Range;

    /// Aggregation protocol.
    pub const PROTOCOL: usize = 0;
    /// Kind of packet.
    pub const KIND: usize = 1;
    /// Flags.
    pub const FLAGS: usize = 2;
    /// Priority.
    pub const PRIORITY: usize = 3;
    /// Job.
    pub const JOB: Range<usize> = 4..6;
    /// Number of values.
    pub const VALUES: Range<usize> = 6..8;
    /// Run of the job.
    pub const EPOCH: Range<usize> = 8..12;
    /// Fragment.
    pub const SEQUENCE: Range<usize> = 12..16;
    /// Workers.
    pub const BITMAP: Range<usize> = 16..20;
    /// Rack.
    pub const RACK: usize = 20;
    /// Reserved: zero.
    pub const RESERVED: Range<usize> = 21..24;
    /// Aggregator.
    pub const INDEX: Range<usize> = 24..28;
}

/// The aggregation header in owned form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// Aggregation protocol.
    pub protocol: Protocol,
    /// Kind of packet.
    pub kind: Kind,
    /// Flags.
    pub flags: Flags,
    /// Priority in ESA. In P4INC and SwitchML the number of the [`service`](Self::service). In ATP
    /// the salt from which the index is derived.
    pub priority: u8,
    /// Job.
    pub job: JobId,
    /// The run of the job that the packet belongs to. In ATP and ESA, a Sweep frees the aggregators
    /// of this run.
    pub epoch: Epoch,
    /// Number of values that follow; zero if and only if the kind carries no values.
    pub values: u16,
    /// Fragment; in P4INC and SwitchML the [round](Self::round); in Sweep a nonce.
    pub sequence: Sequence,
    /// Gradient and Asynchronous: those whose contributions are in the sum. Parameter and Reply: all
    /// positions of the job. Query, and an ESA question: the worker that is asked. Reminder and
    /// Absent: those whose packets meet in the addressed switch. Sweep: the number of cells
    /// freed so far.
    pub bitmap: Bitmap,
    /// Whether the bitmap names positions of the job, or workers of one rack.
    pub rack: Rack,
    /// Aggregator; in Sweep the next cell.
    pub index: AggregatorIndex,
}

impl Repr {
    /// The service ID, which P4INC and SwitchML carry in the priority byte.
    pub const fn service(&self) -> Service {
        Service::new(self.priority)
    }

    /// The sequence as a round of P4INC or SwitchML.
    pub const fn round(&self) -> Round {
        Round::of(self.sequence)
    }

    /// The purpose of an ESA packet with [`Flags::REPAIR`]; `None` if the code is unknown or not
    /// valid for the packet's kind.
    pub fn repair(&self) -> Option<Repair> {
        let repair = Repair::from_code(self.priority)?;
        let kind = match repair.what {
            Repaired::Contribution | Repaired::Result => Kind::Gradient,
            Repaired::Question => Kind::Parameter,
        };
        (kind == self.kind).then_some(repair)
    }

    /// Writes the header.
    #[inline]
    pub fn emit(&self, header: &mut [u8; HEADER_LEN]) {
        header[field::PROTOCOL] = self.protocol as u8;
        header[field::KIND] = self.kind as u8;
        header[field::FLAGS] = self.flags.bits();
        header[field::PRIORITY] = self.priority;
        header[field::JOB].copy_from_slice(&self.job.get().to_be_bytes());
        header[field::VALUES].copy_from_slice(&self.values.to_be_bytes());
        header[field::EPOCH].copy_from_slice(&self.epoch.get().to_be_bytes());
        header[field::SEQUENCE].copy_from_slice(&self.sequence.0.to_be_bytes());
        header[field::BITMAP].copy_from_slice(&self.bitmap.0.to_be_bytes());
        header[field::RACK] = self.rack.0;
        header[field::RESERVED].fill(0);
        header[field::INDEX].copy_from_slice(&self.index.0.to_be_bytes());
    }

    /// Decodes a header and checks every field that can be checked without the rest of the frame.
    #[inline]
    fn decode(header: &[u8; HEADER_LEN]) -> Result<Self, Error> {
        let [protocol, kind, flags, priority, j0, j1, v0, v1, rest @ ..] = *header;
        let [e0, e1, e2, e3, s0, s1, s2, s3, b0, b1, b2, b3, rest @ ..] = rest;
        let [rack, r0, r1, r2, i0, i1, i2, i3] = rest;
        let reserved = u32::from_be_bytes([0, r0, r1, r2]);
        let repr = Self {
            protocol: Protocol::from_byte(protocol).ok_or(Error::Protocol(protocol))?,
            kind: Kind::from_byte(kind).ok_or(Error::Kind(kind))?,
            flags: Flags::from_bits(flags).ok_or(Error::Flags(flags))?,
            priority,
            job: JobId::new(u16::from_be_bytes([j0, j1])).ok_or(Error::Job)?,
            values: u16::from_be_bytes([v0, v1]),
            epoch: Epoch::new(u32::from_be_bytes([e0, e1, e2, e3])).ok_or(Error::Epoch)?,
            sequence: Sequence(u32::from_be_bytes([s0, s1, s2, s3])),
            bitmap: Bitmap(u32::from_be_bytes([b0, b1, b2, b3])),
            rack: Rack(rack),
            index: AggregatorIndex(u32::from_be_bytes([i0, i1, i2, i3])),
        };
        if rack > POSITIONS_MAX {
            return Err(Error::Rack(rack));
        }
        if reserved != 0 {
            return Err(Error::Reserved(reserved));
        }
        if repr.kind.has_values() == (repr.values == 0) {
            return Err(Error::Values { kind: repr.kind, values: repr.values });
        }
        Ok(repr)
    }
}

/// A view of a whole frame that has been validated as an aggregation packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T> {
    frame: T,
    repr: Repr,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Validates everything that a receiver relies on:
    ///
    /// - the frame carries unfragmented IPv4 without options and with a correct header checksum;
    /// - it carries UDP to [port 29810](crate::PORT) without a checksum;
    /// - the aggregation header has a known protocol and kind, known flags and a non-zero job;
    /// - all lengths agree with each other and with the number of values.
    ///
    /// Bytes after the IPv4 packet (Ethernet padding) are ignored. Whatever depends on the
    /// receiver's state, such as the job's workers, is not checked.
    ///
    /// # Errors
    ///
    /// The first check that fails.
    pub fn new_checked(frame: T) -> Result<Self, Error> {
        let repr = check(frame.as_ref())?;
        Ok(Self { frame, repr })
    }

    /// The aggregation header.
    #[inline]
    pub fn repr(&self) -> &Repr {
        &self.repr
    }

    /// Aggregation protocol.
    pub fn protocol(&self) -> Protocol {
        self.repr.protocol
    }

    /// Kind of packet.
    pub fn kind(&self) -> Kind {
        self.repr.kind
    }

    /// Flags.
    pub fn flags(&self) -> Flags {
        self.repr.flags
    }

    /// ESA priority.
    pub fn priority(&self) -> u8 {
        self.repr.priority
    }

    /// Service ID of P4INC and SwitchML.
    pub fn service(&self) -> Service {
        self.repr.service()
    }

    /// Job.
    pub fn job(&self) -> JobId {
        self.repr.job
    }

    /// Run of the job.
    pub fn epoch(&self) -> Epoch {
        self.repr.epoch
    }

    /// Number of values that follow the header.
    pub fn values(&self) -> u16 {
        self.repr.values
    }

    /// Fragment.
    pub fn sequence(&self) -> Sequence {
        self.repr.sequence
    }

    /// The sequence as a round of P4INC or SwitchML.
    pub fn round(&self) -> Round {
        self.repr.round()
    }

    /// Workers of the rack, or positions.
    pub fn bitmap(&self) -> Bitmap {
        self.repr.bitmap
    }

    /// Rack.
    pub fn rack(&self) -> Rack {
        self.repr.rack
    }

    /// Aggregator.
    pub fn index(&self) -> AggregatorIndex {
        self.repr.index
    }

    /// The encoded values, four bytes each.
    pub fn payload(&self) -> &[u8] {
        let end = crate::frame_len(self.repr.values);
        self.frame.as_ref().get(HEADERS_LEN..end).unwrap_or_default()
    }

    /// The values as integers; meaningful unless [`Flags::OVERFLOW`] is set.
    pub fn values_i32(&self) -> impl ExactSizeIterator<Item = i32> + '_ {
        read_i32(self.payload())
    }

    /// The values as `f32`; meaningful if [`Flags::OVERFLOW`] is set.
    pub fn values_f32(&self) -> impl ExactSizeIterator<Item = f32> + '_ {
        read_f32(self.payload())
    }

    /// Sender, receiver and ECN field.
    #[inline]
    pub fn envelope(&self) -> Envelope {
        let ip = |at: usize| Ipv4Addr::from(self.array::<4>(ethernet::HEADER_LEN + at));
        Envelope {
            source: Host {
                mac: Mac(self.array(ethernet::field::SOURCE.start)),
                ip: ip(ipv4::field::SOURCE.start),
            },
            destination: Host {
                mac: Mac(self.array(ethernet::field::DESTINATION.start)),
                ip: ip(ipv4::field::DESTINATION.start),
            },
            ecn: self.ecn(),
        }
    }

    /// The ECN field of the IPv4 header.
    pub fn ecn(&self) -> Ecn {
        let [tos] = self.array(ethernet::HEADER_LEN + ipv4::field::TOS);
        Ecn::from_tos(tos)
    }

    /// Whether the packet is marked for congestion, in the IPv4 header or by the flag that
    /// accumulates the marks of the summed packets.
    pub fn is_marked(&self) -> bool {
        self.repr.flags.contains(Flags::ECN) || self.ecn() == Ecn::CongestionExperienced
    }

    /// `N` bytes at an offset. Zeros if the frame has become shorter since it was checked, which
    /// requires a `T` whose contents change between calls.
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let tail = self.frame.as_ref().get(at..).unwrap_or_default();
        tail.first_chunk().copied().unwrap_or([0; N])
    }
}

/// [`Packet::new_checked`] on a byte slice.
#[inline]
fn check(frame: &[u8]) -> Result<Repr, Error> {
    let truncated = |need| Error::Truncated { need, have: frame.len() };
    let (header, rest) = frame.split_first_chunk().ok_or(truncated(ethernet::HEADER_LEN))?;
    ethernet::check(header)?;
    let (header, rest) =
        rest.split_first_chunk().ok_or(truncated(ethernet::HEADER_LEN + ipv4::HEADER_LEN))?;
    let datagram = ipv4::check(header)?;
    // IPv4's total length delimits the packet; the bytes after it are padding.
    let rest = rest
        .get(..datagram)
        .ok_or(truncated(ethernet::HEADER_LEN + ipv4::HEADER_LEN + datagram))?;
    let (header, rest) = rest
        .split_first_chunk()
        .ok_or(Error::UdpLength { udp: udp::HEADER_LEN, ipv4: datagram })?;
    udp::check(header, datagram)?;
    let (header, payload) = rest.split_first_chunk().ok_or(Error::ShortHeader(rest.len()))?;
    let repr = Repr::decode(header)?;
    if payload.len() != 4 * usize::from(repr.values) {
        return Err(Error::PayloadLength { values: repr.values, bytes: payload.len() });
    }
    Ok(repr)
}
