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
use crate::switch::{Core, Switch};

/// What the thread of a core needs to run it.
pub(super) struct Engine {
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
    pub(super) fn lead(mut self, mut switch: Switch, mut commands: Commands) -> Switch {
        while !commands.control.is_stopping() {
            let commanded = commands.run(&self, &mut switch);
            let core = switch.first_mut();
            if !self.turn(core, commanded, true) {
                self.sleep(core, true);
            }
        }
        self.flush();
        *switch.others_mut() = commands.leader.end();
        switch
    }

    /// Runs another core until the first one's thread ends it. Returns the core.
    pub(super) fn follow(
        mut self,
        mut core: Core,
        follower: &Follower,
        control: Control,
    ) -> Option<Core> {
        let _alarm = Alarm(control);
        while !follower.is_stopping() {
            if follower.is_recalled() {
                core = follower.lend(core)?;
            }
            if !self.turn(&mut core, false, false) {
                self.sleep(&core, false);
            }
        }
        self.flush();
        Some(core)
    }

    /// One turn of the loop. Returns whether there may be more to do at once.
    fn turn(&mut self, core: &mut Core, mut busy: bool, notices: bool) -> bool {
        let now = Instant::now();
        busy |= self.receive(core, now);
        busy |= self.collect(core, now);
        busy |= core.generate(self.micros(now), PENDING);
        busy |= core.run_pending(self.micros(now), PENDING);
        self.post.deliver(core);
        self.tell_controllers(core, now, notices);
        busy |= self.transmit(core);
        // Transmitting may also have recirculated packets.
        busy || core.has_pending()
    }

    fn flush(&mut self) {
        for port in &mut self.ports {
            drop(port.io.flush());
        }
    }

    /// Messages for slow or missing receivers are lost, as on a full queue.
    fn tell_controllers(&self, core: &mut Core, now: Instant, notices: bool) {
        while let Some(frame) = core.poll_packet_in() {
            drop(self.packets_in.try_send(ToController::Packet(frame)));
        }
        let now_us = self.micros(now);
        if !notices || core.next_notice_us().is_none_or(|due| due > now_us) {
            return;
        }
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let time_of_day =
            since_epoch.map_or(0, |time| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX));
        for mut notice in core.poll_notices(now_us) {
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
    fn collect(&self, core: &mut Core, now: Instant) -> bool {
        let now_us = self.micros(now);
        while let Some(buffer) = self.post.take_buffer() {
            core.take_buffer(buffer);
        }
        for taken in 0..BATCH * self.ports.len().max(1) {
            let Some((handover, from)) = self.post.take() else { return taken > 0 };
            if let Some(buffer) = core.take_over(now_us, handover) {
                self.post.give_back(from, buffer);
            }
        }
        true
    }

    fn receive(&mut self, core: &mut Core, now: Instant) -> bool {
        let now_us = self.micros(now);
        let mut any = false;
        for port in &mut self.ports {
            if port.is_paused(now) {
                continue;
            }
            let number = port.number;
            let result = port.io.receive(BATCH, &mut |frame| core.receive(now_us, number, frame));
            match result {
                Ok(count) => any |= count > 0,
                Err(error) => port.fail(now, &error),
            }
        }
        any
    }

    /// Sends a batch of each port's queue. Returns true if some port may accept more at once.
    fn transmit(&mut self, core: &mut Core) -> bool {
        let mut more = false;
        let now = Instant::now();
        let now_us = self.micros(now);
        for port in &mut self.ports {
            if port.is_paused(now) {
                continue;
            }
            match port.transmit(core, now, now_us) {
                Ok(unfinished) => more |= unfinished,
                Err(error) => port.fail(now, &error),
            }
        }
        more
    }

    fn sleep(&mut self, core: &Core, notices: bool) {
        let now = Instant::now();
        let mut timeout: Option<Duration> = None;
        let mut until = |wait: Duration| timeout = Some(timeout.map_or(wait, |t| t.min(wait)));
        if notices && let Some(due) = core.next_notice_us() {
            until(Duration::from_micros(due.saturating_sub(self.micros(now))));
        }
        if let Some(due) = core.generator_due_us() {
            until(Duration::from_micros(due.saturating_sub(self.micros(now))));
        }
        for port in &mut self.ports {
            if let Some(failed) = port.failed.filter(|_| port.is_paused(now)) {
                until((failed + PAUSE_AFTER_ERROR).saturating_duration_since(now));
                continue;
            }
            // A held frame waits until there is room; a queue without one waits for its rate. The
            // time may already have come since the queue was examined: then there is no sleep.
            if !port.held && core.queue_depth(port.number) > 0 {
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
    fn run(&mut self, engine: &Engine, switch: &mut Switch) -> bool {
        let next = |commands: &mut Self| {
            commands.unfinished.take().or_else(|| commands.commands.try_recv().ok())
        };
        let Some(mut command) = next(self) else { return false };
        self.leader.recall(switch);
        loop {
            let now_us = engine.micros(Instant::now());
            switch.advance(now_us);
            if !command(switch, now_us) {
                self.unfinished = Some(command);
                break;
            }
            match next(self) {
                Some(following) => command = following,
                None => break,
            }
        }
        self.leader.release(switch);
        true
    }
}
