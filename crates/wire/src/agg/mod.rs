//! The aggregation header.
//!
//! | offset | bytes | field | |
//! | --- | --- | --- | --- |
//! | 0 | 1 | protocol | [`Protocol`] |
//! | 1 | 1 | kind | [`Kind`] |
//! | 2 | 1 | flags | [`Flags`] |
//! | 3 | 1 | priority | priority of an ESA gradient, or its [`Repair`]; in P4INC and SwitchML the [`Service`]; in ATP the salt of the slot |
//! | 4 | 2 | job | never zero |
//! | 6 | 2 | values | number V of 32-bit values that follow; zero in Query and Sweep, and where they are of no use |
//! | 8 | 4 | epoch | the [run](Epoch) of the job, never zero |
//! | 12 | 4 | sequence | number of the fragment; in P4INC and SwitchML of the [round](crate::Round); in Sweep a nonce |
//! | 16 | 4 | bitmap | [`Repr::bitmap`] |
//! | 20 | 1 | rack | whose contributions the bitmap names: [`Rack`] |
//! | 21 | 1 | audience | who needs the values of the result: [`Audience`](crate::Audience) |
//! | 22 | 2 | | reserved: zero |
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
//!     bit<8>  audience;
//!     bit<16> reserved;
//!     bit<32> index;
//! }
//! ```

mod flags;
mod header;
mod kind;
mod protocol;
mod repair;

use std::net::Ipv4Addr;

use crate::values::{read_f32, read_i32};
use crate::{
    AggregatorIndex, Bitmap, Ecn, Envelope, Epoch, Error, HEADERS_LEN, Host, JobId, Mac, Rack,
    Round, Sequence, Service, ethernet, ipv4, udp,
};

pub use flags::Flags;
pub use header::{HEADER_LEN, Repr, field};
pub use kind::Kind;
pub use protocol::{PORT, Protocol};
pub use repair::{Repair, Repaired};

/// Offset of the header in a frame, in bytes.
pub const OFFSET: usize = HEADERS_LEN - HEADER_LEN;

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
