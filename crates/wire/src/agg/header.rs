//! The header's fields: where they are, and their values.

use super::{Flags, Kind, Protocol, Repair, Repaired};
use crate::{
    AggregatorIndex, Audience, Bitmap, Epoch, Error, JobId, POSITIONS_MAX, Rack, Round, Sequence,
    Service,
};

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 28;

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
    /// Who needs the values of the result.
    pub const AUDIENCE: usize = 21;
    /// Reserved: zero.
    pub const RESERVED: Range<usize> = 22..24;
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
    /// Number of values that follow; zero if the kind carries no values, or if they are zeros of a worker that
    /// has nothing to add, or of no use to the receiver.
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
    /// Who needs the values of the fragment's result.
    pub audience: Audience,
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
        let is_valid = match repair.what {
            Repaired::Farewell => matches!(self.kind, Kind::Gradient | Kind::Parameter),
            Repaired::Contribution | Repaired::Result => self.kind == Kind::Gradient,
            Repaired::Question => self.kind == Kind::Parameter,
        };
        is_valid.then_some(repair)
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
        header[field::AUDIENCE] = self.audience.byte();
        header[field::RESERVED].fill(0);
        header[field::INDEX].copy_from_slice(&self.index.0.to_be_bytes());
    }

    /// Decodes a header and checks every field that can be checked without the rest of the frame.
    #[inline]
    pub(super) fn decode(header: &[u8; HEADER_LEN]) -> Result<Self, Error> {
        let [protocol, kind, flags, priority, j0, j1, v0, v1, rest @ ..] = *header;
        let [e0, e1, e2, e3, s0, s1, s2, s3, b0, b1, b2, b3, rest @ ..] = rest;
        let [rack, audience, r0, r1, i0, i1, i2, i3] = rest;
        let reserved = u16::from_be_bytes([r0, r1]);
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
            audience: Audience::from_byte(audience).ok_or(Error::Audience(audience))?,
            index: AggregatorIndex(u32::from_be_bytes([i0, i1, i2, i3])),
        };
        if rack > POSITIONS_MAX {
            return Err(Error::Rack(rack));
        }
        if reserved != 0 {
            return Err(Error::Reserved(reserved));
        }
        let may_differ = repr.protocol.has_rounds() && repr.kind.may_have_audience();
        if repr.audience != Audience::ALL && !may_differ {
            return Err(Error::Audience(audience));
        }
        let may_lack = repr.kind.may_lack_values() && repr.audience != Audience::ALL;
        if repr.kind.has_values() == (repr.values == 0) && !may_lack {
            return Err(Error::Values { kind: repr.kind, values: repr.values });
        }
        Ok(repr)
    }
}
