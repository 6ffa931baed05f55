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
        if packet.protocol() != self.config.job.protocol {
            rejected.other_protocol += 1;
            return;
        }
        match (packet.kind(), self.config.job.protocol) {
            (Kind::Parameter, _) | (Kind::Reply, Protocol::Atp) => self.on_result(now, packet),
            (Kind::Query, Protocol::Atp) => self.on_query(packet),
            _ => rejected.wrong_kind += 1,
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
        if !self.is_due(sequence) {
            return;
        }
        if packet.index() != self.fragments.index(sequence) {
            self.stats.rejected.wrong_index += 1;
            return;
        }
        let flags = packet.flags();
        if self.take_result(sequence, flags.contains(Flags::OVERFLOW), packet.payload()) {
            self.stats.replies += u64::from(packet.kind() == Kind::Reply);
            self.stats.collisions += u64::from(flags.contains(Flags::COLLISION));
            self.complete(now, sequence, flags.contains(Flags::COLLISION), packet.is_marked());
        }
    }

    /// Whether a fragment is under way; if not, a result for it is counted as dropped.
    pub(super) fn is_due(&mut self, sequence: u32) -> bool {
        if sequence >= self.fragments.next() {
            self.stats.unsent += 1;
        } else if !self.fragments.is_outstanding(sequence) {
            self.stats.duplicates += 1;
        } else {
            return true;
        }
        false
    }

    /// Stores the result of a fragment that is due. False if the worker failed by it.
    pub(super) fn take_result(&mut self, sequence: u32, float: bool, payload: &[u8]) -> bool {
        let encoding = if float { Encoding::Float } else { Encoding::Fixed };
        let stored = self.tensors.store(sequence, encoding, self.config.scale, payload);
        if stored == Err(KindMismatch) {
            let sequence = Sequence(sequence);
            self.fail(Failure::KindMismatch { sequence });
            return false;
        }
        if let Some(channel) = &mut self.channel {
            channel.results.keep(sequence, float, payload);
        }
        self.stats.results += 1;
        self.stats.overflow_results += u64::from(float);
        true
    }

    /// A result was stored: what it says about the network.
    pub(super) fn complete(&mut self, now: Time, sequence: u32, collided: bool, marked: bool) {
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
