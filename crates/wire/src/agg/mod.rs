//! The aggregation header.
//!
//! | offset | bytes | field | |
//! | --- | --- | --- | --- |
//! | 0 | 1 | protocol | [`Protocol`] |
//! | 1 | 1 | kind | [`Kind`] |
//! | 2 | 1 | flags | [`Flags`] |
//! | 3 | 1 | priority | of an ESA gradient, or which [`Repair`] it is; in P4INC and SwitchML the [`Service`]; in ATP the salt of the slot |
//! | 4 | 2 | job | never zero |
//! | 6 | 2 | values | number of 32-bit values that follow: V, or none in Query and Sweep |
//! | 8 | 4 | epoch | the [run](Epoch) of the job, never zero |
//! | 12 | 4 | sequence | number of the fragment, in P4INC and SwitchML of the [round](crate::Round); in Sweep a nonce |
//! | 16 | 4 | bitmap | [`Repr::bitmap`] |
//! | 20 | 4 | racks | reserved for a second level of bitmaps, one bit per rack of 32 workers; zero |
//! | 24 | 4 | index | aggregator; in Sweep the cell that is next |
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
//!     bit<32> racks;
//!     bit<32> index;
//! }
//! ```

mod flags;
mod kind;
mod repair;

use std::net::Ipv4Addr;

use crate::values::{read_f32, read_i32};
use crate::{
    AggregatorIndex, Bitmap, Ecn, Envelope, Epoch, Error, HEADERS_LEN, Host, JobId, Mac, Round,
    Sequence, Service, ethernet, ipv4, udp,
};

pub use flags::Flags;
pub use kind::{Kind, Protocol};
pub use repair::{Repair, Repaired};

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 28;

/// Where the header starts in a frame.
pub const OFFSET: usize = HEADERS_LEN - HEADER_LEN;

/// Where the fields are, in bytes from the start of the header.
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
    /// Reserved: zero.
    pub const RACKS: Range<usize> = 20..24;
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
    /// Priority in ESA; in P4INC and SwitchML the number of the [`service`](Self::service); in ATP the
    /// salt that the index follows from.
    pub priority: u8,
    /// Job.
    pub job: JobId,
    /// The run of the job that the packet belongs to. In Sweep: the run whose aggregators are freed,
    /// with ATP and ESA.
    pub epoch: Epoch,
    /// Number of values that follow; zero exactly if the kind has none.
    pub values: u16,
    /// Fragment, in P4INC and SwitchML [round](Self::round); in Sweep a nonce.
    pub sequence: Sequence,
    /// Gradient and Asynchronous: the workers whose contributions are in it. Parameter and Reply:
    /// all workers of the job. Query, and a question of ESA: the worker asked. Reminder and Absent: the workers below the
    /// switch that is meant. Sweep: not workers, but the number of cells freed so far.
    pub bitmap: Bitmap,
    /// Aggregator; in Sweep the cell that is next.
    pub index: AggregatorIndex,
}

impl Repr {
    /// The service ID, which P4INC and SwitchML have in the place of the priority.
    pub const fn service(&self) -> Service {
        Service::new(self.priority)
    }

    /// The sequence as P4INC and SwitchML read it.
    pub const fn round(&self) -> Round {
        Round::of(self.sequence)
    }

    /// What a packet of ESA with [`Flags::REPAIR`] is; `None` if no such thing goes in its kind.
    pub fn repair(&self) -> Option<Repair> {
        let repair = Repair::from_code(self.priority)?;
        let kind = match repair.what {
            Repaired::Contribution | Repaired::Result => Kind::Gradient,
            Repaired::Question => Kind::Parameter,
        };
        (kind == self.kind).then_some(repair)
    }

    /// Writes the header.
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
        header[field::RACKS].fill(0);
        header[field::INDEX].copy_from_slice(&self.index.0.to_be_bytes());
    }

    /// Decodes a header and checks all that it says by itself.
    fn decode(header: &[u8; HEADER_LEN]) -> Result<Self, Error> {
        let [protocol, kind, flags, priority, j0, j1, v0, v1, rest @ ..] = *header;
        let [e0, e1, e2, e3, s0, s1, s2, s3, b0, b1, b2, b3, rest @ ..] = rest;
        let [r0, r1, r2, r3, i0, i1, i2, i3] = rest;
        let racks = u32::from_be_bytes([r0, r1, r2, r3]);
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
            index: AggregatorIndex(u32::from_be_bytes([i0, i1, i2, i3])),
        };
        if racks != 0 {
            return Err(Error::Racks(racks));
        }
        if repr.kind.has_values() == (repr.values == 0) {
            return Err(Error::Values { kind: repr.kind, values: repr.values });
        }
        Ok(repr)
    }
}

/// A view of a whole frame that was checked to be an aggregation packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<T> {
    frame: T,
    repr: Repr,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Checks everything that a receiver relies on: that the frame carries IPv4 without options,
    /// unfragmented, with a right header checksum; UDP to [our port](crate::PORT) without
    /// checksum; an aggregation header with known protocol, kind and flags and a job; and that all
    /// lengths agree with each other and with the number of values. Bytes behind the IPv4 packet
    /// (Ethernet padding) are ignored.
    ///
    /// What depends on the receiver's state, as who the job's workers are, is not checked here.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
    pub fn new_checked(frame: T) -> Result<Self, Error> {
        let repr = check(frame.as_ref())?;
        Ok(Self { frame, repr })
    }

    /// Gives the frame back.
    pub fn into_inner(self) -> T {
        self.frame
    }

    /// The aggregation header.
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

    /// Priority of ESA.
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

    /// The sequence as P4INC and SwitchML read it.
    pub fn round(&self) -> Round {
        self.repr.round()
    }

    /// Workers.
    pub fn bitmap(&self) -> Bitmap {
        self.repr.bitmap
    }

    /// Aggregator.
    pub fn index(&self) -> AggregatorIndex {
        self.repr.index
    }

    /// The values as they are on the wire, four bytes each.
    pub fn payload(&self) -> &[u8] {
        let end = crate::frame_len(self.repr.values);
        self.frame.as_ref().get(HEADERS_LEN..end).unwrap_or_default()
    }

    /// The values as integers, which they are unless [`Flags::OVERFLOW`] is set.
    pub fn values_i32(&self) -> impl ExactSizeIterator<Item = i32> + '_ {
        read_i32(self.payload())
    }

    /// The values as `f32`, which they are if [`Flags::OVERFLOW`] is set.
    pub fn values_f32(&self) -> impl ExactSizeIterator<Item = f32> + '_ {
        read_f32(self.payload())
    }

    /// Who sent it, to whom, and the ECN field.
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

    /// Whether a queue was long on the way: by the IPv4 header, or by the flag that carries the
    /// marks of packets which were added up.
    pub fn is_marked(&self) -> bool {
        self.repr.flags.contains(Flags::ECN) || self.ecn() == Ecn::CongestionExperienced
    }

    /// `N` bytes at an offset. Zeros if the frame has become shorter since it was checked, which
    /// only a `T` that changes behind our back can bring about.
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let tail = self.frame.as_ref().get(at..).unwrap_or_default();
        tail.first_chunk().copied().unwrap_or([0; N])
    }
}

/// [`Packet::new_checked`] on bytes.
fn check(frame: &[u8]) -> Result<Repr, Error> {
    let truncated = |need| Error::Truncated { need, have: frame.len() };
    let (header, rest) = frame.split_first_chunk().ok_or(truncated(ethernet::HEADER_LEN))?;
    ethernet::check(header)?;
    let (header, rest) =
        rest.split_first_chunk().ok_or(truncated(ethernet::HEADER_LEN + ipv4::HEADER_LEN))?;
    let datagram = ipv4::check(header)?;
    // What IPv4 states is the packet; anything behind it is padding.
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
