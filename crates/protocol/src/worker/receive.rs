//! Results and queries.

use tributary_wire::agg::Packet;
use tributary_wire::{Flags, Kind, Protocol, Sequence};

use super::tensors::{Encoding, KindMismatch};
use super::{Failure, Worker};
use crate::Time;

impl Worker {
    pub(super) fn receive(&mut self, now: Time, packet: &Packet<&[u8]>) {
        let rejected = &mut self.stats.rejected;
        if packet.job() != self.config.job.job {
            rejected.other_job += 1;
            return;
        }
        if packet.protocol() != Protocol::Atp {
            rejected.other_protocol += 1;
            return;
        }
        match packet.kind() {
            Kind::Parameter | Kind::Reply => self.on_result(now, packet),
            Kind::Query => self.on_query(packet),
            Kind::Gradient | Kind::Sweep => rejected.wrong_kind += 1,
        }
    }

    fn on_result(&mut self, now: Time, packet: &Packet<&[u8]>) {
        let rejected = &mut self.stats.rejected;
        if packet.values() != self.config.job.values_per_packet {
            rejected.wrong_values += 1;
            return;
        }
        if packet.bitmap() != self.config.job.everyone() {
            rejected.wrong_bitmap += 1;
            return;
        }
        let sequence = packet.sequence().0;
        if sequence >= self.fragments.next() {
            self.stats.unsent += 1;
            return;
        }
        if !self.fragments.is_outstanding(sequence) {
            self.stats.duplicates += 1;
            return;
        }
        if packet.index() != self.fragments.index(sequence) {
            rejected.wrong_index += 1;
            return;
        }
        let flags = packet.flags();
        let encoding =
            if flags.contains(Flags::OVERFLOW) { Encoding::Float } else { Encoding::Fixed };
        let stored = self.tensors.store(sequence, encoding, self.config.scale, packet.payload());
        if stored == Err(KindMismatch) {
            let sequence = Sequence(sequence);
            self.fail(Failure::KindMismatch { sequence });
            return;
        }
        self.stats.results += 1;
        self.stats.replies += u64::from(packet.kind() == Kind::Reply);
        self.stats.overflow_results += u64::from(encoding == Encoding::Float);
        self.stats.collisions += u64::from(flags.contains(Flags::COLLISION));
        self.complete(now, sequence, flags.contains(Flags::COLLISION), packet.is_marked());
    }

    /// A result was stored: what it says about the network.
    fn complete(&mut self, now: Time, sequence: u32, collided: bool, marked: bool) {
        let next = Sequence(self.fragments.next());
        match self.fragments.done(sequence, collided) {
            Some(sent) => self.rtt.sample(now - sent),
            None => {
                self.rtt.progress();
                self.allowance = self.allowance.saturating_add(2);
            }
        }
        if marked {
            self.stats.marked += 1;
            self.controller.on_congestion(Sequence(sequence), next);
        } else {
            self.controller.on_result();
        }
        let later = self.fragments.count_later(sequence);
        self.stats.fast_resends += later.lost;
        if let Some(lowest) = later.lowest {
            self.controller.on_congestion(Sequence(lowest), next);
        }
        self.progress = now;
        self.deliver();
    }

    fn on_query(&mut self, packet: &Packet<&[u8]>) {
        if !packet.bitmap().contains(self.config.index) {
            self.stats.rejected.wrong_bitmap += 1;
            return;
        }
        // The aggregator named may be that of a result which this worker has yet to get.
        let float = packet.flags().contains(Flags::OVERFLOW);
        if self.fragments.ask(packet.sequence().0, float) {
            self.stats.queries += 1;
        } else {
            self.stats.stale_queries += 1;
        }
    }
}
