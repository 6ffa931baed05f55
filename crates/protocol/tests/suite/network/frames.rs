//! Frames for one endpoint, and the frames that it sends.

use tributary_protocol::{Endpoint, JobConfig, Time, addressing};
use tributary_wire::agg::{Packet, Repr};
use tributary_wire::{
    AggregatorIndex, Audience, Bitmap, Ecn, Envelope, Flags, Kind, Protocol, Rack, Sequence,
    emit_frame, values,
};

use crate::network::net::host;

/// A sent frame.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) envelope: Envelope,
    pub(crate) repr: Repr,
    pub(crate) words: Vec<i32>,
}

impl Sent {
    pub(crate) fn floats(&self) -> Vec<f32> {
        let words = self.words.iter();
        words.map(|w| f32::from_bits(w.cast_unsigned())).collect()
    }
}

/// All frames that an endpoint sends now.
pub(crate) fn sent(endpoint: &mut impl Endpoint, now: Time) -> Vec<Sent> {
    let mut frame = Vec::new();
    let mut all = vec![];
    while endpoint.poll_transmit(now, &mut frame) {
        let packet = Packet::new_checked(frame.as_slice()).unwrap();
        all.push(Sent {
            envelope: packet.envelope(),
            repr: *packet.repr(),
            words: packet.values_i32().collect(),
        });
    }
    all
}

/// The header of a packet for `sequence` of the job, with the aggregator of a slot that never
/// collided.
pub(crate) fn repr(job: &JobConfig, kind: Kind, sequence: u32, bitmap: u32, flags: Flags) -> Repr {
    Repr {
        protocol: Protocol::Atp,
        kind,
        flags,
        priority: 0,
        job: job.job,
        epoch: job.epoch,
        values: if kind.has_values() { job.values_per_packet } else { 0 },
        sequence: Sequence(sequence),
        bitmap: Bitmap(bitmap),
        rack: Rack::NONE,
        audience: Audience::ALL,
        index: index(job, sequence, 0),
    }
}

pub(crate) fn index(job: &JobConfig, sequence: u32, salt: u32) -> AggregatorIndex {
    addressing::index(job.job, sequence % job.slots, salt, job.pool)
}

pub(crate) fn frame(repr: &Repr, words: &[i32]) -> Vec<u8> {
    let envelope = Envelope { source: host(0, 77), destination: host(0, 78), ecn: Ecn::Ect0 };
    let mut frame = Vec::new();
    values::write_i32(emit_frame(&mut frame, &envelope, repr), words);
    frame
}

pub(crate) fn float_words(values: &[f32]) -> Vec<i32> {
    values.iter().map(|v| v.to_bits().cast_signed()).collect()
}

pub(crate) const fn us(micros: u64) -> Time {
    Time::from_nanos(micros * 1_000)
}
