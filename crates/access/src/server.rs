//! Accepts connections, and passes requests with their grants.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{Request, Response};
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream, UnixListenerStream};
use tokio_stream::{Stream, StreamExt as _};
use tonic::Status;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::transport::server::Connected;
use tower::{Layer, Service};
use tributary_base::connections::{Connection, ConnectionId, Greeted, bounded};
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

use crate::keys::ServerKeys;
use crate::listen::{self, Listen};
use crate::policy::{Caller, Policy};
use crate::refusals;

/// How long requests in progress may delay the end of a server.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Time for a client's part of the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Time between two lines of the log about clients that are not let in.
const QUIET: Duration = Duration::from_secs(1);

/// Bytes that are read of a client that is not let in.
const LAST_BYTES: u64 = 64 << 10;

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
    /// A client that answers nothing for this long has vanished without closing its connection.
    pub silence: Duration,
}

/// For most servers: a host that is very busy is not taken for one that is gone.
pub const SILENCE: Duration = Duration::from_secs(30);

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
        match listen {
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address).await?;
                let address = Listen::Tcp(listener.local_addr()?);
                let streams = TcpListenerStream::new(listener)
                    .map(|stream| stream.inspect(|stream| drop(stream.set_nodelay(true))));
                let streams = bounded(streams, most);
                let guarded = guarded(services, policy);
                Ok(match keys {
                    Some(keys) => Self::serve(guarded, address, encrypted(streams, keys), limits),
                    None => {
                        let named = streams.map(|io| io.map(|io| Known::new(io, Caller::Anyone)));
                        Self::serve(guarded, address, named, limits)
                    }
                })
            }
            Listen::Unix(path) => {
                let listener = listen::bind(&path, policy.is_list()).await?;
                let streams = bounded(UnixListenerStream::new(listener), most);
                let streams = streams.filter_map(|stream| {
                    // A process that is gone has no user.
                    let known = |io: Connection<UnixStream>| {
                        let user = io.get_ref().peer_cred().ok()?.uid();
                        Some(Known::new(io, Caller::User(user)))
                    };
                    stream.map(known).transpose()
                });
                Ok(Self::serve(guarded(services, policy), Listen::Unix(path), streams, limits))
            }
        }
    }

    fn serve<IO>(
        services: Guarded,
        address: Listen,
        incoming: impl Stream<Item = io::Result<Known<IO>>> + Send + 'static,
        limits: Limits,
    ) -> Self
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (stop, stopped) = oneshot::channel::<()>();
        let policy = services.layer.0.clone();
        let incoming = admitted(incoming, policy, limits.connections / STRANGERS);
        let stopped = async {
            // An error means that the sender was dropped, which also ends the server.
            let _ = stopped.await;
        };
        let router = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(limits.silence / 3))
            .http2_keepalive_timeout(Some(limits.silence * 2 / 3))
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_concurrent_streams(limits.calls)
            .layer(services.layer)
            .add_routes(services.routes);
        let serving = router.serve_with_incoming_shutdown(incoming, stopped);
        let task = tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::warn!("a server failed: {error}");
            }
        });
        Self { address, stop: Some(stop), task }
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

/// Services with a guard before them.
struct Guarded {
    routes: Routes,
    layer: GuardLayer,
}

fn guarded(routes: Routes, policy: Policy) -> Guarded {
    Guarded { routes, layer: GuardLayer(policy) }
}

/// The connections of callers that may do something. Of the others so many stay, to be told that they may
/// not; otherwise they could take the places of all.
fn admitted<IO>(
    streams: impl Stream<Item = io::Result<Known<IO>>>,
    policy: Policy,
    most: usize,
) -> impl Stream<Item = io::Result<Known<IO>>> {
    let places = Arc::new(Semaphore::new(most.max(1)));
    streams.filter_map(move |stream| {
        let mut known = match stream {
            Ok(known) => known,
            Err(error) => return Some(Err(error)),
        };
        if policy.grant(&known.peer.caller).is_none() {
            let place = Arc::clone(&places).try_acquire_owned();
            known.place = Some(place.ok()?);
        }
        Some(Ok(known))
    })
}

/// An encrypted connection.
pub type Encrypted = Known<Greeted<tokio_rustls::server::TlsStream<Connection<TcpStream>>>>;

/// The connections whose clients are through with the TLS handshake, in the calling Tokio runtime. Why others
/// are not let in is logged, once per second at most.
pub fn encrypted(
    streams: impl Stream<Item = io::Result<Connection<TcpStream>>> + Send + 'static,
    keys: ServerKeys,
) -> impl Stream<Item = io::Result<Encrypted>> {
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
                        let known = Known { io: Greeted::new(io), peer, place: None };
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
    ReceiverStream::new(receiver)
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
    let _ = tokio::time::timeout(LAST_WORDS, rest).await;
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

/// The other end of a connection. Each request has it among its extensions.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Who it is.
    pub caller: Caller,
    /// The connection.
    pub connection: ConnectionId,
}

/// A connection whose peer is known.
#[derive(Debug)]
pub struct Known<IO> {
    io: IO,
    peer: Peer,
    /// Of one of the few that may do nothing.
    place: Option<OwnedSemaphorePermit>,
}

impl<IO> Known<Connection<IO>> {
    fn new(io: Connection<IO>, caller: Caller) -> Self {
        let connection = io.id();
        Self { io, peer: Peer { caller, connection }, place: None }
    }
}

impl<IO> Connected for Known<IO> {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Known<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Known<IO> {
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
}

/// Puts a guard before services.
#[derive(Clone, Debug)]
struct GuardLayer(Policy);

impl<S> Layer<S> for GuardLayer {
    type Service = Guard<S>;

    fn layer(&self, inner: S) -> Guard<S> {
        Guard { inner, policy: self.0.clone() }
    }
}

/// Gives each request the grant of its caller.
#[derive(Clone)]
struct Guard<S> {
    inner: S,
    policy: Policy,
}

impl<S> fmt::Debug for Guard<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&self.policy).finish()
    }
}

impl<S> Service<Request<Body>> for Guard<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let peer = request.extensions().get::<Peer>();
        let caller = peer.map(|peer| peer.caller.clone());
        let grant = caller.as_ref().and_then(|caller| self.policy.grant(caller));
        let Some(grant) = grant else {
            let who = caller.map_or_else(|| "nobody".to_owned(), |caller| caller.to_string());
            let refusal = Status::permission_denied(format!("{who} may not use this server"));
            return Box::pin(async move { Ok(refusal.into_http()) });
        };
        request.extensions_mut().insert(grant);
        Box::pin(self.inner.call(request))
    }
}
