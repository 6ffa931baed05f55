//! The agent's side of the channel.
//!
//! | file | content |
//! | --- | --- |
//! | `registry` | the jobs, their tokens, and the connected peers |
//! | `listen` | the thread: connections, greetings, messages |
//! | `stats` | the counters |

mod listen;
mod registry;
mod stats;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::sync::{mpsc, oneshot};
use tributary_netio::Waker;
use tributary_protocol::Time;
use tributary_protocol::esa::{Backend, ToPeer};
use tributary_wire::channel::{FromServer, FromWorker, Message, Role, ToServer, ToWorker, Token};
use tributary_wire::{Epoch, JobId, WorkerIndex};

use crate::driver::channel::Limits;
use crate::driver::channel::outbox::NoRoom;
use registry::Shared;

pub use stats::Stats;

/// Most messages per turn, so that packets are also handled.
const BATCH: usize = 256;

/// A hub's address and limits.
#[derive(Clone, Debug)]
pub struct HubConfig {
    /// The address; port 0 takes a free one.
    pub address: SocketAddr,
    /// The limits.
    pub limits: Limits,
}

impl HubConfig {
    /// The configuration with default limits.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self { address, limits: Limits::default() }
    }
}

/// A job that a hub serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HubJob {
    /// The job.
    pub id: JobId,
    /// The epoch of its run.
    pub epoch: Epoch,
    /// The token that its peers must present.
    pub token: Token,
    /// How many workers it has.
    pub workers: u16,
    /// Values per packet; a message with another number of values is invalid.
    pub values: u16,
    /// Whether its PS connects; a PS in the agent's process does not.
    pub server: bool,
}

/// The other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer {
    /// The job.
    pub job: JobId,
    /// The peer's role in the job.
    pub role: Role,
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of job {}", self.role, self.job)
    }
}

/// An event for the endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Incoming {
    /// A peer was admitted, for the first time or again.
    Opened(Peer),
    /// A peer has disconnected. The end of an older, replaced connection is not reported.
    Closed(Peer),
    /// A worker's message.
    Worker(JobId, WorkerIndex, FromWorker),
    /// A PS's message.
    Server(JobId, FromServer),
}

/// Accepts the workers, and the servers in other processes, of any number of jobs.
///
/// Dropping it sends pending messages for at most half a second, and closes all connections.
#[derive(Debug)]
pub struct Hub {
    address: SocketAddr,
    shared: Arc<Shared>,
    incoming: mpsc::Receiver<Incoming>,
    shutdown: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Hub {
    /// Listens for the peers of some jobs. `waker` is woken when [`poll`](Self::poll) has an event.
    ///
    /// # Errors
    /// If the address cannot be used, or the thread cannot be started.
    pub fn start(
        config: &HubConfig,
        jobs: impl IntoIterator<Item = HubJob>,
        waker: Waker,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(config.address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (sender, incoming) = mpsc::channel(config.limits.incoming);
        let shared = Arc::new(Shared::new(config.limits, waker, sender));
        jobs.into_iter().for_each(|job| shared.add(job));
        let (shutdown, stopped) = oneshot::channel();
        let task = listen::run(listener, Arc::clone(&shared), stopped);
        let thread = thread::Builder::new().name("reminder hub".into()).spawn(move || {
            runtime.block_on(async {
                if let Err(error) = task.await {
                    tracing::error!("the reminder hub cannot listen on {address}: {error}");
                }
            });
        })?;
        Ok(Self { address, shared, incoming, shutdown: Some(shutdown), thread: Some(thread) })
    }

    /// The listening address, with the actual port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a job, or replaces it: the peers of the old one are disconnected.
    pub fn add_job(&self, job: HubJob) {
        self.shared.add(job);
    }

    /// Removes a job and disconnects its peers.
    pub fn remove_job(&self, job: JobId) {
        self.shared.remove(job);
    }

    /// The next event; `None` if there is none at the moment.
    pub fn poll(&mut self) -> Option<Incoming> {
        self.incoming.try_recv().ok()
    }

    /// Sends a message to a worker. Returns whether the worker is connected. A worker that does not
    /// read earlier messages is disconnected.
    pub fn send_worker(&self, job: JobId, worker: WorkerIndex, message: &ToWorker) -> bool {
        self.send(Peer { job, role: Role::Worker(worker) }, message)
    }

    /// Sends a message to a PS, like [`send_worker`](Self::send_worker).
    pub fn send_server(&self, job: JobId, message: &ToServer) -> bool {
        self.send(Peer { job, role: Role::Server }, message)
    }

    /// Exchanges messages between a backend's agent and the peers. Each call handles at most one
    /// batch, so that packets are also handled. Returns whether there were any messages.
    pub fn exchange(&mut self, now: Time, backend: &mut Backend) -> bool {
        let mut moved = false;
        for _ in 0..BATCH {
            let Some(incoming) = self.poll() else { break };
            moved = true;
            match incoming {
                Incoming::Worker(job, worker, message) => {
                    backend.handle_worker(now, job, worker, message);
                }
                Incoming::Server(job, message) => backend.handle_server(now, job, message),
                Incoming::Opened(Peer { job, role: Role::Server }) => backend.server_opened(job),
                Incoming::Opened(_) | Incoming::Closed(_) => {}
            }
        }
        while let Some(message) = backend.poll_message() {
            moved = true;
            // A message for a disconnected peer is lost: the agent's timer sends it again.
            match message {
                ToPeer::Worker { job, worker, message } => self.send_worker(job, worker, &message),
                ToPeer::Server { job, message } => self.send_server(job, &message),
            };
        }
        moved
    }

    fn send(&self, peer: Peer, message: &impl Message) -> bool {
        let sent = match self.shared.outbox(peer) {
            None => Err(NoRoom::Closed),
            Some(outbox) => outbox.push(message).inspect_err(|error| {
                if *error == NoRoom::Full {
                    outbox.end();
                    self.shared.counters.count(|stats| &mut stats.stalled);
                    self.shared.complaints.say("stalled", || {
                        format!("{peer} was disconnected: it does not read what it is sent")
                    });
                }
            }),
        };
        let counter = |stats: &mut Stats| match sent {
            Ok(()) => stats.sent += 1,
            Err(_) => stats.undeliverable += 1,
        };
        self.shared.counters.with(counter);
        sent.is_ok()
    }

    /// The connected peers.
    #[must_use]
    pub fn peers(&self) -> Vec<Peer> {
        self.shared.peers()
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.counters.get()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // Releases peers that wait for room in the hub's queue.
        self.incoming.close();
        self.shutdown.take();
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            drop(thread.join());
        }
    }
}
