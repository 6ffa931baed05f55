//! Connections of clients.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use nix::unistd::Uid;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::keys::{ClientKeys, KeyError};
use crate::listen;
use crate::refusals::{self, Explained};
use crate::silence::watch_host;

/// Time for a connection, with its handshake.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time for the beginning of an answer, unless a caller sets a shorter one. No server here needs as long. A request
/// that is sent just as its connection ends may get neither an answer nor an error (hyperium/hyper#4122).
const ANSWER: Duration = Duration::from_secs(300);

/// Why there is no connection: the innermost cause, such as "Connection refused".
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{cause}")]
pub struct ConnectError {
    cause: String,
    absent: bool,
}

impl ConnectError {
    /// See [`is_absence`].
    #[must_use]
    pub fn is_absence(&self) -> bool {
        self.absent
    }
}

impl From<tonic::transport::Error> for ConnectError {
    fn from(error: tonic::transport::Error) -> Self {
        Self { cause: root_cause(&error), absent: is_absence(&error) }
    }
}

/// Whether a connection failed because the server, or its host, is not running.
#[must_use]
pub fn is_absence(error: &(dyn Error + 'static)) -> bool {
    let kind = |cause: &(dyn Error + 'static)| {
        let h2 = cause.downcast_ref::<h2::Error>().and_then(h2::Error::get_io);
        cause.downcast_ref::<io::Error>().or(h2).map(io::Error::kind)
    };
    causes(error).filter_map(kind).any(|kind| {
        matches!(
            kind,
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::NotFound
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::TimedOut
        )
    })
}

/// What a server answered, or how the connection broke.
#[must_use]
pub fn reason(status: &Status) -> String {
    status.source().map_or_else(|| status.message().to_owned(), root_cause)
}

/// The innermost cause, in one line: the others only say that the transport failed.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    let text = causes(error).last().map(ToString::to_string).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(" | ")
}

/// An error and its causes.
fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// A server, and how to connect to it. Certificates that change are used from the next connection on.
#[derive(Clone)]
pub struct Remote {
    place: Arc<Place>,
    endpoint: Endpoint,
    /// After which a silent host counts as gone.
    silence: Option<Duration>,
}

/// Where a server is.
enum Place {
    Unix(String),
    Tcp { address: String, keys: Option<(Arc<ClientKeys>, ServerName<'static>)> },
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.place {
            Place::Unix(path) => write!(f, "unix:{path}"),
            Place::Tcp { address, .. } => f.write_str(address),
        }
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Remote {
    /// A server at HOST:PORT or unix:PATH; `None` if the address is neither. Connections to the former are encrypted if
    /// there are keys, unless it is written http://HOST:PORT. A Unix socket needs no TLS.
    ///
    /// # Errors
    /// If the host's name cannot be that of a certificate.
    pub fn new(address: &str, keys: Option<Arc<ClientKeys>>) -> Result<Option<Self>, KeyError> {
        let place = match address.strip_prefix("unix:") {
            Some("") => return Ok(None),
            Some(path) => Place::Unix(path.to_owned()),
            None => {
                let (address, keys) = match address.strip_prefix("http://") {
                    Some(plain) => (plain, None),
                    None => (address, keys),
                };
                let Some((host, port)) = address.rsplit_once(':') else { return Ok(None) };
                if host.is_empty() || port.parse::<u16>().is_err() {
                    return Ok(None);
                }
                let keys = keys.map(|keys| {
                    let host = host.trim_start_matches('[').trim_end_matches(']');
                    let name = keys.name.clone().unwrap_or_else(|| host.to_owned());
                    let known = ServerName::try_from(name.clone());
                    known
                        .map(|known| (keys, known))
                        .map_err(|_| KeyError(format!("`{name}` is not a server name")))
                });
                Place::Tcp { address: address.to_owned(), keys: keys.transpose()? }
            }
        };
        // It only names the requests: `connector` knows where they go.
        let endpoint = Endpoint::from_static("http://tributary");
        let endpoint = endpoint.connect_timeout(PATIENCE).timeout(ANSWER);
        Ok(Some(Self { place: Arc::new(place), endpoint, silence: None }))
    }

    /// The same with another time for a connection.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.endpoint = self.endpoint.connect_timeout(patience);
        self
    }

    /// The same for headers of answers of up to so many bytes.
    #[must_use]
    pub fn with_header(mut self, most: u32) -> Self {
        self.endpoint = self.endpoint.http2_max_header_list_size(most);
        self
    }

    /// The same with pings that find out when the server is gone.
    #[must_use]
    pub fn with_keepalive(mut self, interval: Duration) -> Self {
        self.endpoint =
            self.endpoint.http2_keep_alive_interval(interval).keep_alive_timeout(interval);
        self
    }

    /// The same with connections that break when the server's host is silent for this long, in whole seconds. The process
    /// of the server may be stopped.
    #[must_use]
    pub fn with_watched_host(mut self, patience: Duration) -> Self {
        self.silence = Some(patience);
        self
    }

    /// The same with a limit for each answer.
    #[must_use]
    pub fn with_timeout(mut self, limit: Duration) -> Self {
        self.endpoint = self.endpoint.timeout(limit);
        self
    }

    /// Connects.
    ///
    /// # Errors
    /// If the server does not answer, or one side does not trust the other.
    pub async fn connect(&self) -> Result<Channel, ConnectError> {
        let (place, silence) = (Arc::clone(&self.place), self.silence);
        let connector = service_fn(move |_| open(Arc::clone(&place), silence));
        Ok(self.endpoint.connect_with_connector(connector).await?)
    }

    /// Opens a connection without saying anything.
    ///
    /// # Errors
    /// As of [`connect`](Self::connect).
    pub async fn open(&self) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + use<>> {
        Ok(open(Arc::clone(&self.place), self.silence).await?.into_inner())
    }

    /// Connects when there is something to send.
    #[must_use]
    pub fn connect_lazy(&self) -> Channel {
        let (place, silence) = (Arc::clone(&self.place), self.silence);
        let connector = service_fn(move |_| open(Arc::clone(&place), silence));
        self.endpoint.connect_with_connector_lazy(connector)
    }
}

/// A stream of any kind.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

async fn open(
    place: Arc<Place>,
    silence: Option<Duration>,
) -> io::Result<TokioIo<Box<dyn Stream>>> {
    let io: Box<dyn Stream> = match &*place {
        Place::Unix(path) => {
            let io = UnixStream::connect(path).await?;
            let server = io.peer_cred()?.uid();
            if listen::is_standard(Path::new(path))
                && server != 0
                && server != Uid::effective().as_raw()
            {
                let what = format!("another user's server listens at unix:{path}");
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
            }
            Box::new(io)
        }
        Place::Tcp { address, keys } => {
            let io = TcpStream::connect(address).await?;
            io.set_nodelay(true)?;
            if let Some(patience) = silence {
                watch_host(&io, patience)?;
            }
            match keys {
                None => Box::new(io),
                Some((keys, name)) => {
                    let connector = TlsConnector::from(keys.config());
                    let io = connector.connect(name.clone(), io).await;
                    let io = io.map_err(|error| refusals::of_handshake(error, &name.to_str()))?;
                    Box::new(Explained(io))
                }
            }
        }
    };
    Ok(TokioIo::new(io))
}
