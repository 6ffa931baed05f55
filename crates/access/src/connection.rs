//! Connections of clients.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream, UnixListenerStream};
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::server::Connected;
use tributary_base::connections::{Connection, ConnectionId, Greeted, bounded};
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

use crate::keys::ServerKeys;
use crate::policy::Caller;
use crate::refusals;

/// Time for a client's part of the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Time between two lines of the log about clients that are not let in.
const QUIET: Duration = Duration::from_secs(1);

/// Bytes that are read of a client that is not let in.
const LAST_BYTES: u64 = 64 << 10;

/// The time for that.
const LAST_TIME: Duration = Duration::from_millis(500);

/// The other end of a connection. Each request has it among its extensions.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Who it is.
    pub caller: Caller,
    /// The connection.
    pub connection: ConnectionId,
}

/// Input and output of a connection.
trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<IO: AsyncRead + AsyncWrite + Send + Unpin> Io for IO {}

/// A connection of any kind, whose peer is known.
pub struct Known {
    io: Box<dyn Io>,
    peer: Peer,
    /// Of one of the few that may do nothing.
    place: Option<OwnedSemaphorePermit>,
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Known").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Known {
    fn new(
        io: Connection<impl AsyncRead + AsyncWrite + Send + Unpin + 'static>,
        caller: Caller,
    ) -> Self {
        let connection = io.id();
        Self { io: Box::new(io), peer: Peer { caller, connection }, place: None }
    }

    /// The other end.
    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Keeps a place until the connection ends.
    pub(crate) fn hold(&mut self, place: OwnedSemaphorePermit) {
        self.place = Some(place);
    }
}

/// The connections that a server accepts.
pub type Incoming = Pin<Box<dyn Stream<Item = io::Result<Known>> + Send>>;

/// At most so many open connections at a TCP address, encrypted if there are keys.
#[must_use]
pub fn tcp(listener: TcpListener, keys: Option<ServerKeys>, most: usize) -> Incoming {
    let streams = TcpListenerStream::new(listener)
        .map(|stream| stream.inspect(|stream| drop(stream.set_nodelay(true))));
    match keys {
        Some(keys) => encrypted(bounded(streams, most), keys),
        None => any(streams, most),
    }
}

/// At most so many open connections at a Unix socket.
#[must_use]
pub fn unix(listener: UnixListener, most: usize) -> Incoming {
    Box::pin(bounded(UnixListenerStream::new(listener), most).filter_map(|stream| {
        // A process that is gone has no user.
        let known = |io: Connection<UnixStream>| {
            let user = io.get_ref().peer_cred().ok()?.uid();
            Some(Known::new(io, Caller::User(user)))
        };
        stream.map(known).transpose()
    }))
}

/// At most so many open connections of any kind, of callers that are not asked who they are.
pub fn any<IO: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    streams: impl Stream<Item = io::Result<IO>> + Send + 'static,
    most: usize,
) -> Incoming {
    Box::pin(bounded(streams, most).map(|io| io.map(|io| Known::new(io, Caller::Anyone))))
}

impl Connected for Known {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Known {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl AsyncWrite for Known {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

/// The connections whose clients are through with the TLS handshake, in the calling Tokio runtime. Why others
/// are not let in is logged, once per second at most.
fn encrypted(
    streams: impl Stream<Item = io::Result<Connection<TcpStream>>> + Send + 'static,
    keys: ServerKeys,
) -> Incoming {
    let (sender, receiver) = mpsc::channel(16);
    let warned = Arc::new(Mutex::new(None));
    tokio::spawn(async move {
        let mut streams = std::pin::pin!(streams);
        loop {
            let next = tokio::select! {
                next = streams.next() => next,
                // The server has ended.
                () = sender.closed() => return,
            };
            let Some(Ok(io)) = next else { return };
            let (acceptor, sender) = (TlsAcceptor::from(keys.config()), sender.clone());
            let (clients, warned) = (keys.clients(), Arc::clone(&warned));
            let address = io.get_ref().peer_addr();
            let client =
                address.map_or("a client".into(), |address| format!("the client at {address}"));
            tokio::spawn(async move {
                let accept = acceptor.accept(io).into_fallible();
                match tokio::time::timeout(HANDSHAKE, accept).await {
                    Ok(Ok(io)) => {
                        let (below, session) = io.get_ref();
                        let connection = below.id();
                        let certificates = session.peer_certificates();
                        let caller = match certificates.and_then(<[_]>::first) {
                            Some(certificate) => Caller::Certified(names(certificate).into()),
                            None => Caller::Anyone,
                        };
                        let known = |name: &String| matches!(&caller, Caller::Certified(own) if own.contains(name));
                        if !clients.is_empty() && !clients.iter().any(known) {
                            let why = format!(
                                "{caller} is not one of the names that may use this server"
                            );
                            return warn(&warned, &format!("{client} was not let in: {why}"));
                        }
                        let peer = Peer { caller, connection };
                        let io = Box::new(Greeted::new(io));
                        drop(sender.send(Ok(Known { io, peer, place: None })).await);
                    }
                    Ok(Err((error, io))) => {
                        let why = refusals::of_client(&error);
                        warn(&warned, &format!("{client} was not let in: {why}"));
                        drain(io).await;
                    }
                    Err(_) => tracing::debug!("{client}: its TLS handshake took too long"),
                }
            });
        }
    });
    Box::pin(ReceiverStream::new(receiver))
}

/// Logs a refusal, unless one was logged just now: strangers must not fill the log.
fn warn(last: &Mutex<Option<Instant>>, text: &str) {
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_none_or(|last| last.elapsed() >= QUIET) {
        *last = Some(Instant::now());
        tracing::warn!("{text}");
    }
}

/// Reads what a client that is refused still sends. Otherwise the connection is reset, and the client does not
/// get the reason, which is on its way.
async fn drain(mut io: Connection<TcpStream>) {
    let rest = async {
        io.shutdown().await?;
        tokio::io::copy(&mut io.take(LAST_BYTES), &mut tokio::io::sink()).await
    };
    // The client may be gone.
    let _ = tokio::time::timeout(LAST_TIME, rest).await;
}

/// The names in a certificate: its DNS names, or else its common names.
fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, parsed)) = parse_x509_certificate(certificate) else { return Vec::new() };
    let alternatives = parsed.subject_alternative_name().ok().flatten();
    let alternatives = alternatives.iter().flat_map(|names| &names.value.general_names);
    let mut names: Vec<String> = alternatives
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
        .collect();
    if names.is_empty() {
        let common = parsed.subject().iter_common_name();
        names.extend(common.filter_map(|name| name.as_str().ok().map(str::to_owned)));
    }
    names
}
