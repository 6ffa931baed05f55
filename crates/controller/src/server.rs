//! The controller's gRPC server, on a TCP or a Unix socket.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::service::Routes;
use tonic::transport::ServerTlsConfig;
use tributary_limits::connections::bounded;

/// How long requests in progress may delay the end of the server.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Limits: open connections, calls per connection, and the flow-control window of a connection.
const CONNECTIONS: usize = 512;
const CALLS_PER_CONNECTION: u32 = 32;
const CONNECTION_WINDOW: u32 = 256 << 10;

/// Longest request, which names the hosts of 1024 workers, with 61 letters each. With the limits above, unfinished requests
/// take at most 1.2 GB of memory.
pub(crate) const MESSAGE_LIMIT: usize = 64 << 10;

/// The address of the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listen {
    /// On a TCP socket; port 0 takes a free one.
    Tcp(SocketAddr),
    /// On a Unix socket with this path, to which only the current user may connect. It is removed
    /// when the server stops.
    Unix(PathBuf),
}

/// The text is neither kind of address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("write ADDRESS:PORT or unix:PATH")]
pub struct BadAddress;

impl FromStr for Listen {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        match text.strip_prefix("unix:") {
            Some("") => Err(BadAddress),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| BadAddress),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

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
    pub async fn start(services: Routes, address: &Listen) -> io::Result<Self> {
        Self::start_with(services, address, None).await
    }

    /// Starts a server whose connections are encrypted, if it has certificates.
    ///
    /// # Errors
    /// If it cannot listen at the address, or the certificates are unusable.
    pub async fn start_with(
        services: Routes,
        address: &Listen,
        tls: Option<ServerTlsConfig>,
    ) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async {
            // An error means that the sender was dropped, which also ends the server.
            let _ = stopped.await;
        };
        let mut builder = tonic::transport::Server::builder();
        if let Some(tls) = tls {
            builder = builder.tls_config(tls).map_err(io::Error::other)?;
        }
        let router = builder
            // Detects clients that vanished without closing, whose streams would stay open.
            .http2_keepalive_interval(Some(Duration::from_secs(10)))
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_concurrent_streams(CALLS_PER_CONNECTION)
            .add_routes(services);
        let (address, task) = match address {
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address).await?;
                let address = Listen::Tcp(listener.local_addr()?);
                let incoming = bounded(TcpListenerStream::new(listener), CONNECTIONS);
                let serving = router.serve_with_incoming_shutdown(incoming, stopped);
                (address, tokio::spawn(complain(serving)))
            }
            Listen::Unix(path) => {
                let incoming = bounded(UnixListenerStream::new(bind(path).await?), CONNECTIONS);
                let serving = router.serve_with_incoming_shutdown(incoming, stopped);
                (address.clone(), tokio::spawn(complain(serving)))
            }
        };
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
        // The watch of a job that could not be released never ends by itself.
        let _ = tokio::time::timeout(LAST_WORDS, &mut self.task).await;
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

async fn complain(serving: impl Future<Output = Result<(), tonic::transport::Error>>) {
    if let Err(error) = serving.await {
        tracing::warn!("the controller's server failed: {error}");
    }
}

/// Binds a Unix socket, replacing one that a killed server left behind.
async fn bind(path: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let socket = std::fs::symlink_metadata(path)?.file_type().is_socket();
            if !socket || UnixStream::connect(path).await.is_ok() {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        other => other?,
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}
