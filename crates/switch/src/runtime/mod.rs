//! Runs a switch: one thread that moves frames between it and its ports.
//!
//! The thread receives a batch from each port, lets the switch work, and sends frames from the
//! egress queues as long as ports accept them. Packets for a port without room stay in its egress
//! queue, so programs see real queue depths. With nothing to do the thread sleeps. Other threads
//! access the switch through [`Control`], between batches.

mod control;
mod shaper;

use std::io;
use std::sync::mpsc::Receiver;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::mpsc as packets;
use tributary_netio::{FrameIo, Poller, Waker};
use tributary_p4runtime_proto::p4::v1::stream_message_response::Update;

use self::control::{Command, statistics};
pub use self::control::{Control, Stopped};
use self::shaper::Shaper;
use crate::config::SwitchConfig;
use crate::statistics::{PortStatistics, SwitchStatistics};
use crate::switch::Switch;

/// Frames received from a port, and sent to it, before the next port's turn.
const BATCH: usize = 64;

/// Recirculations, and packets to the controller, between two batches.
const PENDING: usize = 64;

/// Packets to the controller that may wait for the server.
const PACKETS_IN: usize = 1024;

/// Pause after an error of a port.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

/// A switch with its ports before it runs.
#[derive(Debug)]
pub struct Runtime {
    config: SwitchConfig,
    ports: Vec<Port>,
    poller: Poller,
}

impl Runtime {
    /// A switch without ports: [`add_port`](Self::add_port) replaces those in `config`.
    #[must_use]
    pub fn new(config: SwitchConfig) -> Self {
        let config = SwitchConfig { ports: Vec::new(), ..config };
        Self { config, ports: Vec::new(), poller: Poller::new() }
    }

    /// Wakes the switch's thread. With memory links made with it, the thread's sleeps cost least.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        self.poller.waker()
    }

    /// Connects a port under the number that programs use. With a rate, the port sends at most that
    /// many bits per second, including an Ethernet link's preamble and gap.
    ///
    /// # Panics
    /// If the port exists already, is the CPU port or needs more than 9 bits.
    pub fn add_port(&mut self, port: u16, io: Box<dyn FrameIo>, bits_per_second: Option<u64>) {
        assert!(port < crate::config::PORT_COUNT as u16 - 1, "port {port} needs more than 9 bits");
        assert!(
            port != self.config.cpu_port && !self.config.ports.contains(&port),
            "port {port} is there already"
        );
        self.config.ports.push(port);
        self.ports.push(Port {
            number: port,
            io,
            shaper: Shaper::new(bits_per_second),
            frame: Vec::new(),
            held: false,
            failed: None,
        });
    }

    /// Starts the thread. The switch drops all packets until it has a program, for example from
    /// [`crate::server`]. `PacketsIn` receives the packets that programs send to the controller; if
    /// it is dropped, they are dropped.
    ///
    /// # Errors
    /// If the operating system cannot create a thread.
    pub fn start(self) -> io::Result<(SwitchHandle, PacketsIn)> {
        let (control, commands) = Control::new(&self.config, self.poller.waker().clone());
        let (packets_in, receiver) = packets::channel(PACKETS_IN);
        let mut engine = Engine {
            switch: Switch::new(self.config),
            ports: self.ports,
            poller: self.poller,
            control: control.clone(),
            commands,
            unfinished: None,
            packets_in,
            start: Instant::now(),
        };
        let thread = thread::Builder::new().name("switch".into()).spawn(move || engine.run())?;
        Ok((SwitchHandle { control, thread: Some(thread) }, PacketsIn(receiver)))
    }
}

/// Packets from programs to the controller, and notices, for [`crate::server::Service`].
#[derive(Debug)]
pub struct PacketsIn(packets::Receiver<ToController>);

/// A message for the primary controllers.
#[derive(Debug)]
pub(crate) enum ToController {
    /// A frame that left through the controller's port.
    Packet(Vec<u8>),
    /// Digests or idle entries.
    Notice(Update),
}

impl PacketsIn {
    /// The next message; `None` when the switch has stopped.
    pub(crate) async fn next(&mut self) -> Option<ToController> {
        self.0.recv().await
    }
}

/// A running switch. Dropping it stops the switch.
#[derive(Debug)]
pub struct SwitchHandle {
    control: Control,
    thread: Option<JoinHandle<Report>>,
}

/// The counters of a switch when it stopped.
#[derive(Clone, Debug)]
pub struct Report {
    /// The switch as a whole.
    pub switch: SwitchStatistics,
    /// Its ports, with the CPU port last.
    pub ports: Vec<(u16, PortStatistics)>,
}

impl SwitchHandle {
    /// Access to the switch from other threads.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Whether the thread has ended for any reason.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops the switch and waits for its thread.
    ///
    /// # Panics
    /// If the thread has panicked.
    #[must_use]
    pub fn stop(mut self) -> Report {
        self.control.stop();
        let thread = self.thread.take().expect("taken only here and when dropped");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for SwitchHandle {
    fn drop(&mut self) {
        self.control.stop();
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            drop(thread.join());
        }
    }
}

struct Port {
    number: u16,
    io: Box<dyn FrameIo>,
    shaper: Shaper,
    /// The next frame to send, if `held`: the port had no room for it.
    frame: Vec<u8>,
    held: bool,
    /// When the port's input or output last failed.
    failed: Option<Instant>,
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The state of the thread.
struct Engine {
    switch: Switch,
    ports: Vec<Port>,
    poller: Poller,
    control: Control,
    commands: Receiver<Command>,
    /// A command of many steps; others wait for it.
    unfinished: Option<Command>,
    packets_in: packets::Sender<ToController>,
    start: Instant,
}

impl Engine {
    fn run(&mut self) -> Report {
        while !self.control.is_stopping() {
            let mut busy = self.run_commands();
            let now = Instant::now();
            busy |= self.receive(now);
            busy |= self.switch.run_pending(self.micros(now), PENDING);
            self.tell_controllers(now);
            busy |= self.transmit();
            // Transmitting may also have recirculated packets.
            if !busy && !self.switch.has_pending() {
                self.sleep();
            }
        }
        for port in &mut self.ports {
            drop(port.io.flush());
        }
        let (switch, ports) = statistics(&self.switch);
        Report { switch, ports }
    }

    /// Messages for slow or missing receivers are lost, as on a full queue.
    fn tell_controllers(&mut self, now: Instant) {
        while let Some(frame) = self.switch.poll_packet_in() {
            drop(self.packets_in.try_send(ToController::Packet(frame)));
        }
        let now_us = self.micros(now);
        if self.switch.next_notice_us().is_none_or(|due| due > now_us) {
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

    fn run_commands(&mut self) -> bool {
        let mut any = false;
        while let Some(mut command) =
            self.unfinished.take().or_else(|| self.commands.try_recv().ok())
        {
            any = true;
            let now_us = self.micros(Instant::now());
            if !command(&mut self.switch, now_us) {
                self.unfinished = Some(command);
                break;
            }
        }
        any
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

    fn sleep(&mut self) {
        let now = Instant::now();
        let mut timeout: Option<Duration> = None;
        let mut until = |wait: Duration| timeout = Some(timeout.map_or(wait, |t| t.min(wait)));
        if let Some(due) = self.switch.next_notice_us() {
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

impl Port {
    fn is_paused(&self, now: Instant) -> bool {
        self.failed.is_some_and(|at| now < at + PAUSE_AFTER_ERROR)
    }

    fn fail(&mut self, now: Instant, error: &io::Error) {
        tracing::warn!(port = self.number, %error, "port failed");
        self.failed = Some(now);
    }

    /// Sends at most a batch. Returns true if the batch was used up, so that there may be more.
    fn transmit(&mut self, switch: &mut Switch, now: Instant, now_us: u64) -> io::Result<bool> {
        for _ in 0..BATCH {
            if self.shaper.wait(now).is_some() {
                self.io.flush()?;
                return Ok(false);
            }
            if !self.held && !switch.transmit(now_us, self.number, &mut self.frame) {
                self.io.flush()?;
                return Ok(false);
            }
            self.held = true;
            match self.io.send(&self.frame) {
                Ok(true) => {
                    self.held = false;
                    self.shaper.sent(now, self.frame.len());
                }
                Ok(false) => return Ok(false),
                // A frame that the medium can never carry is the program's fault, not the port's.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    self.held = false;
                    tracing::debug!(port = self.number, %error, "frame cannot be sent");
                }
                Err(error) => {
                    self.held = false;
                    return Err(error);
                }
            }
        }
        self.io.flush()?;
        Ok(true)
    }
}
