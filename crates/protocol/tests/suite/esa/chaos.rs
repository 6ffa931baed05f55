//! A stand-in for switches that does anything a correct switch may do, at random. It sums disjoint
//! packets of one task and holds the sums. It sends them to the PS, to the workers if they are
//! complete, or in answer to a reminder, or drops them. The P4 program defines the rules of a real
//! switch; the endpoints must not depend on them.

use std::collections::BTreeMap;

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use tributary_wire::agg::{Packet, Repr};
use tributary_wire::{Bitmap, Envelope, Flags, Host, Kind, Sequence, emit_frame, values};

/// A sum of some workers' packets of a task, with the header of one of these packets.
#[derive(Clone, Debug)]
struct Part {
    header: Repr,
    envelope: Envelope,
    sums: Vec<i32>,
}

impl Part {
    fn of(packet: &Packet<&[u8]>) -> Self {
        Self {
            header: *packet.repr(),
            envelope: packet.envelope(),
            sums: packet.values_i32().collect(),
        }
    }

    fn frame(&self, kind: Kind, flags: Flags, to: Host) -> Vec<u8> {
        let header = Repr { kind, flags, priority: 0, ..self.header };
        let envelope = Envelope { destination: to, ..self.envelope };
        let mut frame = Vec::new();
        values::write_i32(emit_frame(&mut frame, &envelope, &header), &self.sums);
        frame
    }
}

/// All held parts, by task.
#[derive(Debug, Default)]
pub(crate) struct Chaos {
    parts: BTreeMap<Sequence, Vec<Part>>,
    pub(crate) counters: Counters,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) added: u64,
    pub(crate) completed: u64,
    pub(crate) evicted: u64,
    pub(crate) forgotten: u64,
    pub(crate) fetched: u64,
    pub(crate) absent: u64,
}

impl Chaos {
    /// Processes a frame. Returns the outgoing frames.
    pub(crate) fn process(
        &mut self,
        rng: &mut ChaCha8Rng,
        frame: &[u8],
        everyone: Bitmap,
        server: Host,
    ) -> Vec<Vec<u8>> {
        let packet = Packet::new_checked(frame).unwrap();
        let mut out = self.whims(rng, server);
        match packet.kind() {
            Kind::Gradient if packet.flags() == Flags::NONE => {
                out.extend(self.gradient(rng, &packet, everyone, server));
            }
            Kind::Reminder => out.push(self.reminder(rng, &packet)),
            Kind::Gradient | Kind::Parameter => out.push(frame.to_vec()),
            kind => panic!("no endpoint sends {kind:?}"),
        }
        out
    }

    /// Occasionally evicts or drops parts.
    fn whims(&mut self, rng: &mut ChaCha8Rng, server: Host) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let counters = &mut self.counters;
        for parts in self.parts.values_mut() {
            parts.retain(|part| {
                if rng.random_bool(0.03) {
                    counters.evicted += 1;
                    out.push(part.frame(Kind::Gradient, Flags::COLLISION, server));
                    return false;
                }
                let kept = !rng.random_bool(0.01);
                counters.forgotten += u64::from(!kept);
                kept
            });
        }
        out
    }

    fn gradient(
        &mut self,
        rng: &mut ChaCha8Rng,
        packet: &Packet<&[u8]>,
        everyone: Bitmap,
        server: Host,
    ) -> Option<Vec<u8>> {
        let mut new = Part::of(packet);
        if rng.random_bool(0.1) {
            return Some(new.frame(Kind::Gradient, Flags::COLLISION, server));
        }
        let parts = self.parts.entry(packet.sequence()).or_default();
        let fits = |part: &&mut Part| part.header.bitmap.is_disjoint(packet.bitmap());
        if let Some(part) = parts.iter_mut().find(fits)
            && rng.random_bool(0.9)
        {
            self.counters.added += 1;
            part.header.bitmap |= packet.bitmap();
            for (sum, value) in part.sums.iter_mut().zip(packet.values_i32()) {
                *sum = sum.wrapping_add(value);
            }
            if part.header.bitmap != everyone {
                return None;
            }
        } else if new.header.bitmap != everyone {
            parts.push(new);
            return None;
        } else {
            parts.push(new);
        }
        let at = parts.iter().position(|part| part.header.bitmap == everyone).unwrap();
        new = parts.swap_remove(at);
        self.counters.completed += 1;
        Some(new.frame(Kind::Parameter, Flags::NONE, Host::group(packet.job())))
    }

    fn reminder(&mut self, rng: &mut ChaCha8Rng, packet: &Packet<&[u8]>) -> Vec<u8> {
        let back = packet.envelope().source;
        let parts = self.parts.entry(packet.sequence()).or_default();
        if parts.is_empty() {
            self.counters.absent += 1;
            return Part::of(packet).frame(Kind::Absent, Flags::NONE, back);
        }
        self.counters.fetched += 1;
        let part = parts.swap_remove(rng.random_range(0..parts.len()));
        part.frame(Kind::Gradient, Flags::RESEND, back)
    }
}
