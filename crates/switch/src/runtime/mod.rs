//! Runs a switch: threads that move frames between it and its ports.
//!
//! A thread receives a batch from each port, lets the switch work, and sends frames from the egress
//! queues as long as ports accept them. Packets for a port without room stay in its egress queue,
//! so programs see real queue depths. With nothing to do the thread sleeps. Other threads access
//! the switch through [`Control`], between batches.
//!
//! With several [cores](SwitchConfig::cores), there is a thread for each, with a core of the switch
//! and a part of each port: for instance a socket of its own, among which the kernel shares out the
//! frames. If the program has registers, each packet is processed, and what becomes of it is sent, by
//! the core that has its register row. If another one has received it, it is handed over, which can
//! cost more than processing it. So it pays to share out frames by the register row
//! ([`tributary_dataplane::Pipeline::divide`]). A program whose registers cannot be divided runs on
//! the first core only; a warning in the log gives the reason.

mod control;
mod crew;
mod engine;
mod port;
mod shaper;

use std::io;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use tokio::sync::mpsc as packets;
use tributary_netio::{FrameIo, Poller, Waker};
use tributary_p4runtime::p4::v1::stream_message_response::Update;

use self::control::statistics;
pub use self::control::{Control, Stopped};
use self::crew::{Leader, Post};
use self::engine::{Commands, Engine};
use self::port::Port;
use crate::config::SwitchConfig;
use crate::statistics::{PortStatistics, SwitchStatistics};
use crate::switch::Switch;

/// Frames received from a port, and sent to it, before the next port's turn.
const BATCH: usize = 64;

/// Recirculations, and packets to the controller, between two batches.
const PENDING: usize = 64;

/// Packets to the controller that may wait for the server.
const PACKETS_IN: usize = 1024;

/// A switch with its ports before it runs.
#[derive(Debug)]
pub struct Runtime {
    config: SwitchConfig,
    /// By core: its parts of the ports, and what its thread sleeps in.
    cores: Vec<(Vec<Port>, Poller)>,
}

impl Runtime {
    /// A switch without ports: [`add_port`](Self::add_port) replaces those in `config`.
    ///
    /// # Panics
    /// If there is no core.
    #[must_use]
    pub fn new(config: SwitchConfig) -> Self {
        assert!(config.cores > 0, "a switch needs a core");
        let cores = (0..config.cores).map(|_| (Vec::new(), Poller::new())).collect();
        Self { config: SwitchConfig { ports: Vec::new(), ..config }, cores }
    }

    /// Wakes the switch's thread, the first one if there are several. With memory links made with
    /// it, the thread's sleeps cost least.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        self.cores[0].1.waker()
    }

    /// Wakes the thread of each core.
    pub fn wakers(&self) -> impl Iterator<Item = &Waker> {
        self.cores.iter().map(|(_, poller)| poller.waker())
    }

    /// Connects a port of a switch with one core; see [`add_parts`](Self::add_parts).
    ///
    /// # Panics
    /// As `add_parts`.
    pub fn add_port(&mut self, port: u16, io: Box<dyn FrameIo>, bits_per_second: Option<u64>) {
        self.add_parts(port, vec![io], bits_per_second);
    }

    /// Connects a port under the number that programs use, with a part for each core. With a rate,
    /// the port sends at most that many bits per second, including an Ethernet link's preamble and
    /// gap; each core an equal part of them.
    ///
    /// # Panics
    /// If the port exists already, is the CPU port or needs more than 9 bits, or if the number of
    /// parts is not that of the cores.
    pub fn add_parts(
        &mut self,
        port: u16,
        parts: Vec<Box<dyn FrameIo>>,
        bits_per_second: Option<u64>,
    ) {
        assert!(port < crate::config::PORT_COUNT as u16 - 1, "port {port} needs more than 9 bits");
        assert!(
            port != self.config.cpu_port && !self.config.ports.contains(&port),
            "port {port} is there already"
        );
        assert_eq!(parts.len(), self.cores.len(), "a port has a part for each core");
        self.config.ports.push(port);
        let rate = bits_per_second.map(|rate| (rate / self.cores.len() as u64).max(1));
        for ((ports, _), io) in self.cores.iter_mut().zip(parts) {
            ports.push(Port::new(port, io, rate));
        }
    }

    /// Starts the threads. The switch drops all packets until it has a program, for example from
    /// [`crate::server`]. `PacketsIn` receives the packets that programs send to the controller; if
    /// it is dropped, they are dropped.
    ///
    /// # Errors
    /// If the operating system cannot create a thread.
    pub fn start(self) -> io::Result<(SwitchHandle, PacketsIn)> {
        let (control, commands) = Control::new(&self.config, self.waker().clone());
        let (packets_in, receiver) = packets::channel(PACKETS_IN);
        let posts = Post::of_cores(self.wakers().cloned());
        let start = Instant::now();
        let mut switch = Switch::new(self.config);
        let others = std::mem::take(switch.others_mut());
        let mut engines = self.cores.into_iter().zip(posts).map(|((ports, poller), post)| Engine {
            ports,
            poller,
            packets_in: packets_in.clone(),
            start,
            post,
        });
        let first = engines.next().expect("there is a core");
        let mut leader = Leader::default();
        for ((engine, core), number) in engines.zip(others).zip(1..) {
            let name = format!("switch {number}");
            let control = control.clone();
            leader.add(engine.poller.waker().clone(), |follower| {
                let follow = move || engine.follow(core, &follower, control);
                thread::Builder::new().name(name).spawn(follow)
            })?;
        }
        let commands = Commands { control: control.clone(), commands, unfinished: None, leader };
        let lead = move || {
            let (switch, ports) = statistics(&first.lead(switch, commands));
            Report { switch, ports }
        };
        let thread = thread::Builder::new().name("switch".into()).spawn(lead)?;
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
