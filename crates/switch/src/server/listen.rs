//! Sockets and streams of the server.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio_stream::Stream;
use tributary_access::ServerKeys;
use tributary_access::connection::{self, Incoming};
use tributary_access::transport::{self, Http2, Pings};

use super::intake::counted;
use super::service::Service;

/// Largest accepted message in bytes: programs are text and can be long.
const MESSAGE_LIMIT: usize = 16 << 20;

/// How long calls in progress may continue when the server stops.
const GRACE: Duration = Duration::from_millis(500);

/// A primary whose machine is lost must not stay primary. Windows bound unread bytes.
const HTTP2: Http2 = Http2 {
    pings: Some(Pings { every: Duration::from_secs(20), patience: Duration::from_secs(20) }),
    call_window: Some(64 << 10),
    connection_window: 1 << 20,
    calls: 128,
};

/// Number of open connections.
const CONNECTIONS: usize = 1024;

/// The address of the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listen {
    /// On a TCP socket; port 0 takes a free one.
    Tcp(SocketAddr),
    /// On a Unix socket with this path. It is removed when the server stops.
    Unix(PathBuf),
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Why a server could not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be used.
    #[error("cannot serve P4Runtime on {address}: {reason}")]
    Listen {
        /// The address.
        address: Listen,
        /// The problem.
        reason: String,
    },
    /// The threads could not be started.
    #[error("cannot start the P4Runtime server: {0}")]
    Threads(#[source] io::Error),
    /// The transport failed.
    #[error("the P4Runtime server failed: {0}")]
    Transport(#[from] tonic::transport::Error),
}

impl Service {
    /// Serves on streams of any kind, until there are no more or `shutdown` resolves. Then open
    /// stream channels are closed, and calls in progress may finish within half a second.
    ///
    /// # Errors
    /// If the transport fails.
    pub async fn serve<IO: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        self,
        streams: impl Stream<Item = io::Result<IO>> + Send + 'static,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServerError> {
        self.serve_on(connection::anonymous(streams, CONNECTIONS), shutdown).await
    }

    async fn serve_on(
        self,
        incoming: Incoming,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServerError> {
        self.start_packets_in();
        let (ending, ended) = oneshot::channel::<()>();
        let closing = self.clone();
        let shutdown = async move {
            shutdown.await;
            closing.close();
            drop(ending);
        };
        // Clients that do not read their answers must not delay the end of the server.
        let patience = async move {
            drop(ended.await);
            tokio::time::sleep(GRACE).await;
        };
        let service = self.clone();
        let intake = Arc::new(move |request| counted(&service, request));
        let routes = tributary_p4runtime::server::routes(Arc::new(self), MESSAGE_LIMIT, intake);
        tokio::select! {
            served = transport::serve(routes, None, incoming, HTTP2, Box::pin(shutdown)) => Ok(served?),
            () = patience => Ok(()),
        }
    }
}

/// A server with threads of its own. Dropping it stops the server.
#[derive(Debug)]
pub struct ServerHandle {
    address: Listen,
    shutdown: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
}

impl ServerHandle {
    /// Starts a server; it accepts connections when this returns.
    ///
    /// # Errors
    /// If the address cannot be used, for example because another program uses it.
    pub fn start(service: Service, address: Listen) -> Result<Self, ServerError> {
        Self::start_with(service, address, None)
    }

    /// The same, with TLS at a TCP address if there are certificates.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(
        service: Service,
        address: Listen,
        keys: Option<ServerKeys>,
    ) -> Result<Self, ServerError> {
        if let (Listen::Unix(_), Some(_)) = (&address, &keys) {
            let reason = "a Unix socket needs no TLS; leave out the certificate".into();
            return Err(ServerError::Listen { address, reason });
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("p4runtime")
            .enable_all()
            .build()
            .map_err(ServerError::Threads)?;
        let bound = runtime.block_on(bind(&address)).map_err(|error| ServerError::Listen {
            address: address.clone(),
            reason: match error.kind() {
                io::ErrorKind::AddrInUse => "the address is in use".into(),
                _ => error.to_string(),
            },
        })?;
        let address = match &bound {
            Bound::Tcp(listener) => {
                Listen::Tcp(listener.local_addr().map_err(ServerError::Threads)?)
            }
            Bound::Unix(..) => address,
        };
        let (shutdown, stopped) = oneshot::channel();
        let run = move || {
            let stopped = async { drop(stopped.await) };
            runtime.block_on(async {
                let (incoming, _path) = match bound {
                    Bound::Tcp(listener) => {
                        (connection::tcp(listener, keys, CONNECTIONS, None), None)
                    }
                    Bound::Unix(listener, path) => {
                        (connection::unix(listener, CONNECTIONS), Some(path))
                    }
                };
                service.serve_on(incoming, stopped).await
            })
        };
        let thread = thread::Builder::new().name("p4runtime".into()).spawn(run);
        let thread = thread.map_err(ServerError::Threads)?;
        Ok(Self { address, shutdown: Some(shutdown), thread: Some(thread) })
    }

    /// The listening address, with the actual port.
    #[must_use]
    pub fn address(&self) -> &Listen {
        &self.address
    }

    /// Stops the server: streams are closed; calls in progress may finish within half a second.
    ///
    /// # Errors
    /// If the transport had failed before.
    pub fn stop(mut self) -> Result<(), ServerError> {
        self.shutdown.take();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.shutdown.take();
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            drop(thread.join());
        }
    }
}

enum Bound {
    Tcp(TcpListener),
    Unix(UnixListener, RemovedPath),
}

/// A socket's file, removed with the server.
struct RemovedPath(PathBuf);

impl Drop for RemovedPath {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

async fn bind(address: &Listen) -> io::Result<Bound> {
    match address {
        Listen::Tcp(address) => TcpListener::bind(address).await.map(Bound::Tcp),
        Listen::Unix(path) => {
            remove_stale(path).await?;
            let listener = UnixListener::bind(path)?;
            Ok(Bound::Unix(listener, RemovedPath(path.clone())))
        }
    }
}

/// Removes the socket of a killed server: one on which no server answers.
async fn remove_stale(path: &Path) -> io::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if metadata.file_type().is_socket()
        && let Err(error) = UnixStream::connect(path).await
        && error.kind() == io::ErrorKind::ConnectionRefused
    {
        return std::fs::remove_file(path);
    }
    Err(io::ErrorKind::AddrInUse.into())
}
