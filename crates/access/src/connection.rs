//! Connections of clients.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream, UnixListenerStream};
use tokio_stream::{Stream, StreamExt as _};
use tributary_base::connections::{Connection, ConnectionId, bounded};
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

use crate::keys::ServerKeys;
use crate::policy::Caller;
use crate::refusals;
use crate::silence::watch_host;

/// Time for a client's part of the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Time between two lines of the log about clients that are not let in.
const QUIET: Duration = Duration::from_secs(1);

/// Bytes that are read of a client that is not let in.
const LAST_BYTES: u64 = 64 << 10;

/// Time limit for reading them.
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
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<IO: AsyncRead + AsyncWrite + Send + Unpin> Io for IO {}

/// A connection of any kind, with its caller, who may be [`Caller::Anyone`].
pub type Identified = Connection<Box<dyn Io>, Peer>;

fn identify(io: Connection<impl Io + 'static>, caller: Caller) -> Identified {
    let connection = *io.info();
    io.map(|io| Box::new(io) as Box<dyn Io>, Peer { caller, connection })
}

/// The connections that a server accepts.
pub type Incoming = Pin<Box<dyn Stream<Item = io::Result<Identified>> + Send>>;

/// Accepts at most `most` open connections at a TCP address, encrypted if there are keys. A connection breaks when its
/// client's host is silent for `silence`.
#[must_use]
pub fn tcp(
    listener: TcpListener,
    keys: Option<ServerKeys>,
    most: usize,
    silence: Option<Duration>,
) -> Incoming {
    let set = move |stream: &TcpStream| {
        drop(stream.set_nodelay(true));
        if let Some(patience) = silence
            && let Err(error) = watch_host(stream, patience)
        {
            tracing::warn!("cannot watch the host of a client: {error}");
        }
    };
    let streams = TcpListenerStream::new(listener).map(move |stream| stream.inspect(set));
    match keys {
        Some(keys) => encrypted(bounded(streams, most), keys),
        None => anonymous(streams, most),
    }
}

/// Accepts at most `most` open connections at a Unix socket, and identifies callers by their users.
#[must_use]
pub fn unix(listener: UnixListener, most: usize) -> Incoming {
    Box::pin(bounded(UnixListenerStream::new(listener), most).filter_map(|stream| {
        // A process that is gone has no user.
        let of_user = |io: Connection<UnixStream>| {
            let user = io.get_ref().peer_cred().ok()?.uid();
            Some(identify(io, Caller::User(user)))
        };
        stream.map(of_user).transpose()
    }))
}

/// Accepts at most `most` open connections of any kind, without identifying callers.
pub fn anonymous(
    streams: impl Stream<Item = io::Result<impl Io + 'static>> + Send + 'static,
    most: usize,
) -> Incoming {
    Box::pin(bounded(streams, most).map(|io| io.map(|io| identify(io, Caller::Anyone))))
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
                        let connection = *below.info();
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
                        let io: Box<dyn Io> = Box::new(io);
                        let known = Connection::new(io, Peer { caller, connection });
                        drop(sender.send(Ok(known)).await);
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
