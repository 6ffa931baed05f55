//! The thread of one core.

use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::mpsc as packets;
use tributary_netio::Poller;
use tributary_p4runtime::p4::v1::stream_message_response::Update;

use super::control::{Command, Control};
use super::crew::{Follower, Leader, Post};
use super::port::{PAUSE_AFTER_ERROR, Port};
use super::{BATCH, PENDING, ToController};
use crate::switch::Switch;

/// A core's part of the switch, and what its thread needs to run it.
pub(super) struct Engine {
    pub(super) switch: Switch,
    pub(super) ports: Vec<Port>,
    pub(super) poller: Poller,
    pub(super) packets_in: packets::Sender<ToController>,
    pub(super) start: Instant,
    /// To and from other cores.
    pub(super) post: Post,
}

/// What only the first core does: commands, and notices for the controller.
pub(super) struct Commands {
    pub(super) control: Control,
    pub(super) commands: Receiver<Command>,
    /// A command of many steps; others wait for it.
    pub(super) unfinished: Option<Command>,
    pub(super) leader: Leader,
}

impl Engine {
    /// Runs the first core until the switch is stopped. Returns the whole switch.
    pub(super) fn lead(mut self, mut commands: Commands) -> Switch {
        while !commands.control.is_stopping() {
            let commanded = commands.run(&mut self);
            let busy = self.turn(commanded, true);
            if !busy {
                self.sleep(true);
            }
        }
        self.flush();
        let others = commands.leader.end();
        *self.switch.others_mut() = others;
        self.switch
    }

    /// Runs another core until the first one ends it. Returns its part of the switch.
    pub(super) fn follow(mut self, follower: &Follower, control: Control) -> Option<Switch> {
        let _alarm = Alarm(control);
        while !follower.is_stopping() {
            if follower.is_recalled() {
                self.switch = follower.lend(self.switch)?;
            }
            if !self.turn(false, false) {
                self.sleep(false);
            }
        }
        self.flush();
        Some(self.switch)
    }

    /// One turn of the loop. Returns whether there may be more to do at once.
    fn turn(&mut self, mut busy: bool, notices: bool) -> bool {
        let now = Instant::now();
        busy |= self.receive(now);
        busy |= self.collect(now);
        busy |= self.switch.generate(self.micros(now), PENDING);
        busy |= self.switch.run_pending(self.micros(now), PENDING);
        self.post.deliver(&mut self.switch);
        self.tell_controllers(now, notices);
        busy |= self.transmit();
        // Transmitting may also have recirculated packets.
        busy || self.switch.has_pending()
    }

    fn flush(&mut self) {
        for port in &mut self.ports {
            drop(port.io.flush());
        }
    }

    /// Messages for slow or missing receivers are lost, as on a full queue.
    fn tell_controllers(&mut self, now: Instant, notices: bool) {
        while let Some(frame) = self.switch.poll_packet_in() {
            drop(self.packets_in.try_send(ToController::Packet(frame)));
        }
        let now_us = self.micros(now);
        if !notices || self.switch.next_notice_us().is_none_or(|due| due > now_us) {
            return;
        }
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let time_of_day =
            since_epoch.map_or(0, |time| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX));
        for mut notice in self.switch.poll_notices(now_us) {
            match &mut notice {
                Update::Digest(list) => list.timestamp = time_of_day,
                Update::IdleTimeoutNotification(idle) => idle.timestamp = time_of_day,
                _ => {}
            }
            drop(self.packets_in.try_send(ToController::Notice(notice)));
        }
    }

    fn micros(&self, now: Instant) -> u64 {
        now.duration_since(self.start).as_micros() as u64
    }

    /// Processes packets that other cores have handed over. Returns whether there were any.
    fn collect(&mut self, now: Instant) -> bool {
        let now_us = self.micros(now);
        while let Some(buffer) = self.post.take_buffer() {
            self.switch.take_buffer(buffer);
        }
        for taken in 0..BATCH * self.ports.len().max(1) {
            let Some((handover, from)) = self.post.take() else { return taken > 0 };
            if let Some(buffer) = self.switch.take_over(now_us, handover) {
                self.post.give_back(from, buffer);
            }
        }
        true
    }

    fn receive(&mut self, now: Instant) -> bool {
        let now_us = self.micros(now);
        let mut any = false;
        for port in &mut self.ports {
            if port.is_paused(now) {
                continue;
            }
            let (number, switch) = (port.number, &mut self.switch);
            let result = port.io.receive(BATCH, &mut |frame| switch.receive(now_us, number, frame));
            match result {
                Ok(count) => any |= count > 0,
                Err(error) => port.fail(now, &error),
            }
        }
        any
    }

    /// Sends a batch of each port's queue. Returns true if some port may accept more at once.
    fn transmit(&mut self) -> bool {
        let mut more = false;
        let now = Instant::now();
        let now_us = self.micros(now);
        for port in &mut self.ports {
            if port.is_paused(now) {
                continue;
            }
            match port.transmit(&mut self.switch, now, now_us) {
                Ok(unfinished) => more |= unfinished,
                Err(error) => port.fail(now, &error),
            }
        }
        more
    }

    fn sleep(&mut self, notices: bool) {
        let now = Instant::now();
        let mut timeout: Option<Duration> = None;
        let mut until = |wait: Duration| timeout = Some(timeout.map_or(wait, |t| t.min(wait)));
        if notices && let Some(due) = self.switch.next_notice_us() {
            until(Duration::from_micros(due.saturating_sub(self.micros(now))));
        }
        if let Some(due) = self.switch.generator_due_us() {
            until(Duration::from_micros(due.saturating_sub(self.micros(now))));
        }
        for port in &mut self.ports {
            if let Some(failed) = port.failed.filter(|_| port.is_paused(now)) {
                until((failed + PAUSE_AFTER_ERROR).saturating_duration_since(now));
                continue;
            }
            // A held frame waits until there is room; a queue without one waits for its rate. The
            // time may already have come since the queue was examined: then there is no sleep.
            if !port.held && self.switch.queue_depth(port.number) > 0 {
                until(port.shaper.wait(now).unwrap_or_default());
            }
            if let Err(error) = self.poller.add(&mut *port.io) {
                port.fail(now, &error);
                until(PAUSE_AFTER_ERROR);
            }
        }
        if let Err(error) = self.poller.wait(timeout) {
            tracing::warn!(%error, "waiting for ports failed");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Stops the whole switch if the thread of one core panics: the rows of its registers are lost.
struct Alarm(Control);

impl Drop for Alarm {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

impl Commands {
    /// Runs commands on the whole switch. Returns whether there were any.
    fn run(&mut self, engine: &mut Engine) -> bool {
        let next = |commands: &mut Self| {
            commands.unfinished.take().or_else(|| commands.commands.try_recv().ok())
        };
        let Some(mut command) = next(self) else { return false };
        self.leader.recall(&mut engine.switch);
        loop {
            let now_us = engine.micros(Instant::now());
            engine.switch.advance(now_us);
            if !command(&mut engine.switch, now_us) {
                self.unfinished = Some(command);
                break;
            }
            match next(self) {
                Some(following) => command = following,
                None => break,
            }
        }
        self.leader.release(&mut engine.switch);
        true
    }
}
