//! Packets that pass a core again, and those for the controller.

use tributary_dataplane::{IngressInput, Instance};

use super::Core;

impl Core {
    /// The ports of the active program whose frames arrive again.
    fn recirculation_ports(&self) -> impl Iterator<Item = u16> {
        self.config.recirculation_ports(self.architecture())
    }

    /// The lowest port above `last` whose frames arrive again, and which has any.
    fn waiting_after(&self, last: Option<u16>) -> Option<u16> {
        let waits = |port: &u16| Some(*port) > last && self.queue_depth(*port) > 0;
        self.recirculation_ports().filter(waits).min()
    }

    /// See [`crate::Switch::run_pending`].
    pub(crate) fn run_pending(&mut self, now_us: u64, budget: usize) -> bool {
        if !self.has_pending() {
            return false;
        }
        let mut frame = std::mem::take(&mut self.spare);
        let cpu_port = self.cpu_port();
        for _ in 0..budget {
            if !self.has_pending() {
                break;
            }
            // Each port in turn, so that a packet that always returns to one does not keep the others waiting.
            let mut last = None;
            while let Some(port) = self.waiting_after(last) {
                self.step_internal(now_us, port, &mut frame);
                self.step_recirculation(now_us);
                last = Some(port);
            }
            self.step_recirculation(now_us);
            if self.step_internal(now_us, cpu_port, &mut frame) {
                if self.packets_in.len() < self.config.queue_limit {
                    self.packets_in.push_back(std::mem::take(&mut frame));
                } else {
                    self.statistics.packet_in_drops += 1;
                }
            }
        }
        self.spare = frame;
        self.has_pending()
    }

    /// Whether [`run_pending`](Self::run_pending) has something to do.
    pub(crate) fn has_pending(&self) -> bool {
        !self.recirculating.is_empty()
            || self.queue_depth(self.cpu_port()) > 0
            || self.recirculation_ports().any(|port| self.queue_depth(port) > 0)
    }

    /// Runs one recirculated packet through parser and ingress.
    fn step_recirculation(&mut self, now_us: u64) {
        let Some(slot) = self.recirculating.pop_front() else { return };
        self.statistics.generator_drops += self.generator.recirculated(now_us, &slot.frame);
        let Some(active) = &self.active else { return };
        let last = IngressInput { port: slot.port, time_us: now_us, instance: Instance::Normal };
        let input = active.pipeline().next_pass(&last, Instance::Recirculated);
        self.ingress_of(now_us, slot, input);
    }
}
