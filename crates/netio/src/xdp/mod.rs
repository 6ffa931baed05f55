//! Frames over a Linux network interface, through AF_XDP sockets.
//!
//! An XDP program on the interface passes frames to a socket before the kernel's network stack
//! processes them. Frames are in memory that this process shares with the kernel, and rings refer
//! to them. Receiving a frame needs no system call, and sending a batch needs one.
//!
//! The frames that the program takes depend on the [`Traffic`]. For a host it is only UDP to one
//! port, so that ARP, TCP and other traffic stay with the kernel. For a switch's port it is
//! everything, because the switch itself forwards all frames. The kernel then receives nothing from
//! that interface: do not use the interface over which you administer the machine.
//!
//! - Every receive queue of the interface has a socket; frames are sent through the first. An
//!   interface with several queues needs no configuration.
//! - The driver is asked to share the memory (zero-copy) and to run the program. If it does not
//!   support that, the kernel copies the frames or runs the program itself. A log line reports the
//!   outcome.
//! - The sockets of a switch share their memory ([`XdpSocket::open_all`]).
//! - Frames longer than a chunk of that memory use several chunks, if the kernel supports it.
//! - The program is detached when the socket is dropped and when the process ends, for any reason.
//!
//! Sent frames bypass queueing disciplines: neither traffic shaping nor packet captures on the
//! sending host see them.
//!
//! Start reading at [`XdpSocket`], then `queue` (a socket and its rings), `ring` (the rings'
//! rules), `program` (the XDP program) and `attachment`. All unsafe code is in `sys`.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use crate::ethtool;
use crate::interface::Interface;
use crate::packet::{self, Requests};
use crate::port::{Config, DEVICE_RETRY, Statistics, TAG, Traffic, ethernet_group};
use crate::{ETHERNET_HEADER, FrameIo, Watch};

mod assembler;
mod attachment;
mod error;
mod program;
mod queue;
mod ring;
mod sys;
mod umem;

pub use error::OpenError;

use attachment::Attachment;
use program::Wanted;
use queue::{Flushed, Memory, Queue, Setting};
use sys::bpf::Mode;
use sys::socket::Sizes;
use umem::Umem;

/// EtherTypes that mark a VLAN tag after the Ethernet addresses.
const TAG_PROTOCOLS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];

/// Sizes of chunks: the kernel accepts no others without huge pages.
const CHUNKS: [usize; 2] = [2048, 4096];

/// Bytes at the beginning of a chunk that the kernel leaves free for an arriving frame.
const HEADROOM: usize = 256;

/// Bytes of [`Config::receive_buffer`] for each frame that the kernel can keep.
const BYTES_A_FRAME: usize = 2048;

/// Minimum and maximum number of frames that a queue keeps.
const RECEIVE: (usize, usize) = (64, 1 << 15);

/// Number of entries of a transmit ring.
const TRANSMIT: u32 = 1024;

/// Number of chunks for sent frames, per queue on average over all that share the memory.
const TRANSMIT_CHUNKS: usize = 512;

/// AF_XDP sockets on all queues of one interface. They do not receive frames that this host sends.
#[derive(Debug)]
pub struct XdpSocket {
    // Dropped in this order, so that no frame is passed to a closed socket.
    attachment: Attachment,
    queues: Vec<Queue>,
    interface: Interface,
    /// The first queue to be polled for frames next time.
    turn: usize,
    /// Whether a frame found no room, or the device accepted no more: retry soon.
    blocked: bool,
    statistics: Statistics,
    /// The interface's memberships in groups, and promiscuous mode.
    requests: Requests,
    /// Reserves the UDP port; receives nothing.
    _port: Option<socket2::Socket>,
}

/// Data on an interface before its sockets are opened.
struct Plan<'a> {
    config: &'a Config,
    interface: Interface,
    queues: u32,
    sizes: Sizes,
}

/// The common layout of the sockets that share memory.
#[derive(Clone, Copy)]
struct Layout {
    chunk_size: usize,
    several_chunks: bool,
}

impl Layout {
    /// The layout for frames of up to `longest` bytes.
    fn new(longest: usize) -> Self {
        let fits = |size: &usize| longest <= size - HEADROOM;
        match CHUNKS.into_iter().find(fits) {
            Some(chunk_size) => Self { chunk_size, several_chunks: false },
            None => Self { chunk_size: CHUNKS[CHUNKS.len() - 1], several_chunks: true },
        }
    }
}

/// The length of the longest frame of an interface.
fn longest_frame(interface: &Interface) -> usize {
    interface.mtu + ETHERNET_HEADER + TAG
}

impl<'a> Plan<'a> {
    fn new(config: &'a Config) -> Result<Self, OpenError> {
        let interface = Interface::find(&config.interface)?;
        if !interface.up {
            return Err(OpenError::Down(interface.name));
        }
        let queues = ethtool::receive_queues(&interface.name)
            .map_err(|error| OpenError::of_system(&interface.name, "count the queues", error))?;
        let frames = config.receive_buffer / BYTES_A_FRAME / queues as usize;
        let receive = frames.next_power_of_two().clamp(RECEIVE.0, RECEIVE.1) as u32;
        let sizes = Sizes { receive, transmit: TRANSMIT };
        Ok(Self { config, interface, queues, sizes })
    }

    fn chunks(&self) -> usize {
        self.queues as usize * (self.sizes.receive as usize + TRANSMIT_CHUNKS)
    }

    /// The memory for the interfaces of some plans.
    fn memory(plans: &[Self], layout: Layout) -> Result<Arc<Umem>, OpenError> {
        let chunks = plans.iter().map(Self::chunks).sum();
        let umem = Umem::new(chunks, layout.chunk_size).map_err(|source| {
            let name = &plans[0].interface.name;
            OpenError::of_system(name, "get memory for AF_XDP", source)
        })?;
        Ok(Arc::new(umem))
    }
}

/// Checks whether this process can create an AF_XDP socket.
///
/// # Errors
///
/// The kernel's error.
pub fn supported() -> io::Result<()> {
    sys::socket::open().map(drop)
}

impl XdpSocket {
    /// Opens sockets in the calling thread's network namespace. They stay in that namespace if the
    /// thread changes its own.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        let mut sockets = Self::open_all(std::slice::from_ref(config))?;
        Ok(sockets.pop().expect("one was asked for"))
    }

    /// Opens several interfaces, in order, with shared memory: chunks for sent frames that one
    /// interface does not need are available to the others.
    ///
    /// # Errors
    ///
    /// The first error; then no interface is open.
    pub fn open_all(configs: &[Config]) -> Result<Vec<Self>, OpenError> {
        let plans = configs.iter().map(Plan::new).collect::<Result<Vec<_>, _>>()?;
        let Some(longest) = plans.iter().map(|plan| longest_frame(&plan.interface)).max() else {
            return Ok(Vec::new());
        };
        let layout = Layout::new(longest);
        let umem = Plan::memory(&plans, layout)?;
        let mut sockets: Vec<Self> = Vec::with_capacity(plans.len());
        for plan in &plans {
            let owner = sockets.first().and_then(|socket| socket.queues.first());
            let socket = Self::open_planned(plan, layout, &umem, owner)?;
            sockets.push(socket);
        }
        Ok(sockets)
    }

    fn open_planned(
        plan: &Plan<'_>,
        layout: Layout,
        umem: &Arc<Umem>,
        owner: Option<&Queue>,
    ) -> Result<Self, OpenError> {
        let Plan { config, interface, .. } = plan;
        let name = &interface.name;
        let failed = |what| move |error| OpenError::of_system(name, what, error);
        let requests = Requests::new(interface).map_err(failed("open a packet socket"))?;
        if config.promiscuous {
            requests.promiscuous().map_err(failed("take all addresses"))?;
        }
        let (wanted, port) = match config.traffic {
            Traffic::All => (Wanted::All, None),
            Traffic::Udp(port) => {
                let address = (!config.promiscuous).then_some(interface.mac);
                (Wanted::Udp { port, address }, Some(packet::hold_port(port, name)?))
            }
        };
        // Attach the program before opening the sockets: drivers assign a queue to a socket only
        // then.
        let attachment = Attachment::new(interface, wanted, plan.queues)?;
        let queues = plan.open_queues(layout, attachment.mode(), umem, owner)?;
        for (number, queue) in queues.iter().enumerate() {
            let added = attachment.add(number as u32, queue);
            added.map_err(failed("hand frames to an AF_XDP socket"))?;
        }
        tracing::info!(
            interface = name,
            program = attachment.program_id().unwrap_or_default(),
            native = attachment.mode() == Mode::Native,
            zero_copy = queues.iter().all(Queue::is_zero_copy),
            queues = queues.len(),
            "AF_XDP is open"
        );
        let mut socket = Self {
            attachment,
            queues,
            interface: interface.clone(),
            turn: 0,
            blocked: false,
            statistics: Statistics::default(),
            requests,
            _port: port,
        };
        for group in &config.groups {
            socket.join(*group).map_err(failed("join a multicast group"))?;
        }
        Ok(socket)
    }

    /// The interface, as it was when the socket was opened.
    #[must_use]
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Number of sockets: one for each receive queue of the interface.
    #[must_use]
    pub fn queues(&self) -> usize {
        self.queues.len()
    }

    /// Whether the driver runs the program, rather than the kernel's generic hook.
    #[must_use]
    pub fn is_native(&self) -> bool {
        self.attachment.mode() == Mode::Native
    }

    /// Whether the driver and this process exchange frames without copying.
    #[must_use]
    pub fn is_zero_copy(&self) -> bool {
        self.queues.iter().all(Queue::is_zero_copy)
    }

    /// The XDP program's ID in the system.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn program_id(&self) -> io::Result<u32> {
        self.attachment.program_id()
    }

    /// Joins a multicast group.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn join(&mut self, group: Ipv4Addr) -> io::Result<()> {
        self.requests.join(ethernet_group(group))
    }

    /// Reverts a [`join`](Self::join); has no effect without one.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn leave(&mut self, group: Ipv4Addr) -> io::Result<()> {
        self.requests.leave(ethernet_group(group))
    }

    /// The counters.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn statistics(&mut self) -> io::Result<Statistics> {
        let mut statistics = self.statistics;
        for queue in &self.queues {
            let (overrun, invalid) = queue.dropped()?;
            statistics.overrun += overrun + queue.misplaced;
            statistics.unsendable += invalid;
        }
        statistics.sent -= statistics.unsendable.min(statistics.sent);
        Ok(statistics)
    }

    /// Rejects frames that the medium can never carry.
    fn check(&self, frame: &[u8]) -> io::Result<()> {
        let tagged = TAG_PROTOCOLS.iter().any(|tag| frame.get(12..14) == Some(tag));
        let most = self.interface.mtu + ETHERNET_HEADER + if tagged { TAG } else { 0 };
        if (ETHERNET_HEADER..=most).contains(&frame.len()) {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "a frame of {} bytes does not fit network interface `{}`, whose MTU is {}",
                frame.len(),
                self.interface.name,
                self.interface.mtu
            ),
        ))
    }
}

impl Plan<'_> {
    fn open_queues(
        &self,
        layout: Layout,
        mode: Mode,
        umem: &Arc<Umem>,
        owner: Option<&Queue>,
    ) -> Result<Vec<Queue>, OpenError> {
        // Zero-copy frames bypass the kernel's generic hook.
        let copy = mode == Mode::Generic;
        let owner = owner.filter(|owner| !(copy && owner.is_zero_copy()));
        let mut queues: Vec<Queue> = Vec::with_capacity(self.queues as usize);
        for number in 0..self.queues {
            let setting = Setting {
                interface: self.interface.index,
                queue: number,
                sizes: self.sizes,
                copy,
                several_chunks: layout.several_chunks,
            };
            let opened = match queues.first().or(owner) {
                Some(owner) => Queue::open(setting, Memory::Of(owner)),
                None => Queue::open(setting, Memory::Own(Arc::clone(umem))),
            };
            let opened = match opened {
                // The driver cannot share memory in the way of the first interface's driver.
                Err(failed) if queues.is_empty() && owner.is_some() && !failed.is_taken() => {
                    tracing::info!(
                        interface = self.interface.name,
                        error = %failed.error,
                        "the memory cannot be shared; the interface has its own"
                    );
                    let own = Self::memory(std::slice::from_ref(self), layout)?;
                    Queue::open(setting, Memory::Own(own))
                }
                other => other,
            };
            queues.push(opened.map_err(|failed| self.explain(layout, number, failed))?);
        }
        if !copy && !queues.iter().all(Queue::is_zero_copy) {
            tracing::info!(
                interface = self.interface.name,
                "the driver shares no memory; the kernel copies frames"
            );
        }
        Ok(queues)
    }

    fn explain(&self, layout: Layout, queue: u32, failed: queue::Failed) -> OpenError {
        let most = CHUNKS[CHUNKS.len() - 1] - HEADROOM - ETHERNET_HEADER - TAG;
        let Interface { name, mtu, .. } = &self.interface;
        if layout.several_chunks && *mtu > most && failed.is_unsupported() {
            return OpenError::FramesTooLong { interface: name.clone(), mtu: *mtu, most };
        }
        OpenError::of_queue(name, queue, self.chunks() * layout.chunk_size, failed)
    }
}

impl FrameIo for XdpSocket {
    fn receive(&mut self, max: usize, sink: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let longest = longest_frame(&self.interface);
        let count = self.queues.len();
        let mut delivered = 0;
        for step in 0..count {
            let queue = &mut self.queues[(self.turn + step) % count];
            let received = queue.receive(max - delivered, longest, sink);
            queue.refill();
            delivered += received.delivered;
            self.statistics.oversized += received.oversized;
        }
        self.turn = (self.turn + 1) % count;
        self.statistics.received += delivered as u64;
        Ok(delivered)
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        self.check(frame)?;
        let mut taken = self.queues[0].send(frame);
        if !taken || self.queues[0].unflushed() >= queue::KICK {
            self.flush()?;
            taken = taken || self.queues[0].send(frame);
            self.blocked |= !taken;
        }
        self.statistics.sent += u64::from(taken);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.queues[0].flush(&mut self.statistics.unsendable);
        self.blocked = flushed.map_err(|error| self.interface.named(&error))? == Flushed::Stuck;
        Ok(())
    }

    fn watch(&mut self, watch: &mut Watch) -> io::Result<()> {
        if self.blocked {
            watch.due_in(DEVICE_RETRY);
        }
        for queue in &self.queues {
            watch.descriptor(queue, libc::POLLIN);
        }
        Ok(())
    }
}
