//! Accepts connections, and serves on them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio_stream::StreamExt as _;
use tonic::service::Routes;

use crate::connection::{self, Incoming};
use crate::keys::ServerKeys;
use crate::listen::{self, Listen};
use crate::policy::Policy;
use crate::silence::Silence;
use crate::transport::{self, Http2, Pings};

/// How long requests in progress may delay the end of a server.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// One of so many connections may be that of a caller that may do nothing.
const STRANGERS: usize = 8;

/// The flow-control window of a connection.
const CONNECTION_WINDOW: u32 = 256 << 10;

/// The way into a server.
#[derive(Debug)]
pub struct Door {
    /// Where it listens.
    pub listen: Listen,
    /// Its certificate, at a TCP address.
    pub keys: Option<ServerKeys>,
    /// Who may do what.
    pub policy: Policy,
}

impl Door {
    /// A door for this user's processes, or for anyone who reaches a TCP address.
    #[must_use]
    pub fn unlocked(listen: Listen) -> Self {
        Self { listen, keys: None, policy: Policy::all_may_operate() }
    }
}

/// Bounds on what clients can make a server hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Open connections.
    pub connections: usize,
    /// Calls of a connection, including streams.
    pub calls: u32,
    /// When a client has vanished without closing its connection.
    pub silence: Silence,
}

/// For most servers: a host that is very busy is not taken for one that is gone.
pub const SILENCE: Silence = Silence::OfProcess(Duration::from_secs(30));

/// A running server. Dropping it stops it at once.
#[derive(Debug)]
pub struct Server {
    address: Listen,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts a server.
    ///
    /// # Errors
    /// If it cannot listen at the address.
    pub async fn start(services: Routes, door: Door, limits: Limits) -> io::Result<Self> {
        let Door { listen, keys, policy } = door;
        let most = limits.connections;
        let (pings, of_host) = match limits.silence {
            Silence::OfProcess(silence) => {
                (Some(Pings { every: silence / 3, patience: silence * 2 / 3 }), None)
            }
            Silence::OfHost(silence) => (None, Some(silence)),
        };
        let (address, incoming) = match listen {
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address).await?;
                (
                    Listen::Tcp(listener.local_addr()?),
                    connection::tcp(listener, keys, most, of_host),
                )
            }
            Listen::Unix(path) => {
                let listener = listen::bind(&path, policy.is_list()).await?;
                (Listen::Unix(path), connection::unix(listener, most))
            }
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let incoming = admitted(incoming, policy.clone(), most / STRANGERS);
        let stopped = async {
            // An error means that the sender was dropped, which also ends the server.
            let _ = stopped.await;
        };
        let http2 = Http2 {
            pings,
            call_window: None,
            connection_window: CONNECTION_WINDOW,
            calls: limits.calls,
        };
        let serving = transport::serve(services, Some(policy), incoming, http2, Box::pin(stopped));
        let task = tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::warn!("a server failed: {error}");
            }
        });
        Ok(Self { address, stop: Some(stop), task })
    }

    /// The address that it listens at.
    #[must_use]
    pub fn address(&self) -> &Listen {
        &self.address
    }

    /// Stops accepting requests, and waits briefly for those in progress.
    pub async fn stop(mut self) {
        self.stop.take();
        // Some streams never end by themselves.
        let _ = tokio::time::timeout(LAST_WORDS, &mut self.task).await;
    }

    /// Returns when the server has stopped by itself, which it does only after an error.
    pub async fn failed(&mut self) {
        let _ = (&mut self.task).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        if let Listen::Unix(path) = &self.address {
            drop(std::fs::remove_file(path));
        }
    }
}

/// The connections of callers that may do something. Of the others so many stay, to be told that they may
/// not; otherwise they could take the places of all.
fn admitted(streams: Incoming, policy: Policy, most: usize) -> Incoming {
    let places = Arc::new(Semaphore::new(most.max(1)));
    Box::pin(streams.filter_map(move |stream| {
        let mut known = match stream {
            Ok(known) => known,
            Err(error) => return Some(Err(error)),
        };
        if policy.grant(&known.info().caller).is_none() {
            let place = Arc::clone(&places).try_acquire_owned();
            known.occupy(place.ok()?);
        }
        Some(Ok(known))
    }))
}
