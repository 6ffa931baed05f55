//! Hosts and switches that take turns on processors.

use tributary_model::{End, SwitchId};

use super::processors::Work;
use super::{Event, Network, transmit};

impl Network {
    /// Lets a host, or after the hosts a switch or a busy loop, do a piece of work in its turn on a
    /// core.
    pub(super) fn turn(&mut self, node: usize) {
        let now = self.now;
        let work = self.processors.as_mut().and_then(|processors| processors.take(node, now));
        match (node.checked_sub(self.hosts.len()), work) {
            (None, Some(Work::Frame(_, frame))) => self.deliver_to_host(node, &frame),
            (Some(switch), Some(Work::Frame(port, frame))) => {
                self.deliver_to_switch(SwitchId(switch), port, &frame);
            }
            (None, Some(Work::Send(direction))) => {
                self.send_into(direction);
                self.set_timer(node);
            }
            (Some(_), Some(Work::Send(direction))) => self.send_into(direction),
            (None, Some(Work::Timer)) => self.fire_timers(node),
            // A switch has no timers; a busy loop does nothing but take its turn.
            (Some(_), Some(Work::Timer)) | (_, None) => {}
        }
        let next = self.processors.as_mut().and_then(|processors| processors.rest(node, now));
        if let Some((node, at)) = next {
            self.schedule(at, Event::Turn(node));
        }
    }

    /// Fires a host's timers, with processors in its next turn.
    pub(super) fn timers(&mut self, host: usize) {
        // It may have been set to an earlier time since.
        if self.hosts[host].timer.take_if(|at| *at == self.now).is_none() {
            return;
        }
        let Some(processors) = &mut self.processors else { return self.fire_timers(host) };
        if let Some(at) = processors.ask(host, self.now, Work::Timer) {
            self.schedule(at, Event::Turn(host));
        }
    }

    fn fire_timers(&mut self, host: usize) {
        let now = self.now();
        for process in &mut self.hosts[host].processes {
            let endpoint = process.endpoint();
            if endpoint.poll_timeout().is_some_and(|due| due <= now) {
                endpoint.handle_timeout(now);
            }
        }
        self.serve_host(host);
    }

    /// Sends frames into a direction, if it is its node's turn: the link's queue takes them.
    /// Otherwise, and after a batch, the node sends them in its next turn.
    ///
    /// The queue of a host's link takes any number of frames, as a socket does. That of a switch's
    /// link takes one: all others wait in the switch, where they mark congestion.
    pub(super) fn send_in_turn(&mut self, direction: usize) {
        let (from, _) = self.wiring.ends[direction];
        let (node, room) = match from {
            End::Host(host) => (host.0, usize::MAX),
            End::Switch(switch, _) => (self.hosts.len() + switch.0, 1),
        };
        let Some(processors) = &mut self.processors else { return };
        let its = &mut self.directions[direction];
        let mut left = if processors.is_running(node) { processors.batch() } else { 0 };
        while left > 0 && its.queued() < room {
            let mut frame = Vec::new();
            if !transmit(&mut self.hosts, &mut self.switches, from, self.now, &mut frame) {
                return self.send_queued(direction);
            }
            its.queue(processors.send(node), frame);
            left -= 1;
        }
        // A full queue asks again when it sends.
        if its.queued() < room
            && let Some(at) = processors.ask(node, self.now, Work::Send(direction))
        {
            self.schedule(at, Event::Turn(node));
        }
        self.send_queued(direction);
    }

    /// Sends the next frame of a direction's queue after one has left, and asks a switch for more.
    pub(super) fn sent_queued(&mut self, direction: usize) {
        self.send_queued(direction);
        if let (End::Switch(switch, port), _) = self.wiring.ends[direction]
            && self.switches[switch.0].queue_depth(port) > 0
        {
            self.send_in_turn(direction);
        }
    }

    /// Starts sending the next frame of a direction's queue, if it is idle.
    fn send_queued(&mut self, direction: usize) {
        if let Some(leaves) = self.directions[direction].take_queued() {
            let duration = self.directions[direction].begin();
            self.schedule(leaves.max(self.now) + duration, Event::Left(direction));
        }
    }
}
