//! The hub's thread: connections, greetings, messages.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::server::Acceptor;
use tokio::io::{ReadHalf, WriteHalf, split};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tributary_wire::channel::{
    Answer, Error, FromServer, FromWorker, HELLO_LEN, Hello, Message, Refusal, Role, Values,
};

use super::registry::{Admission, Shared};
use super::{Incoming, Peer};
use crate::driver::channel::outbox::Outbox;
use crate::driver::channel::stream::{Bodies, ReadError};
use crate::driver::channel::{keepalive, longest_body, secrecy};

/// How long peers have to receive pending messages when the hub ends.
const FAREWELL: Duration = Duration::from_millis(500);

/// Pause after `accept` fails, for example because no file descriptors are left.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections until `stopped`, then closes all.
pub(super) async fn run(
    listener: TcpListener,
    shared: Arc<Shared>,
    mut stopped: oneshot::Receiver<()>,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let strangers = Strangers::new(shared.limits.strangers);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    shared.counters.count(|stats| &mut stats.connections);
                    let Some(stranger) = strangers.admit(address.ip()) else {
                        shared.counters.count(|stats| &mut stats.crowded);
                        shared.complaints.say("crowded", || format!(
                            "a connection from {address} was closed: too many peers have not \
                             greeted yet"
                        ));
                        continue;
                    };
                    let shared = Arc::clone(&shared);
                    connections.spawn(async move {
                        Connection { shared, address }.serve(stream, stranger).await;
                    });
                }
                Err(error) => {
                    shared.complaints.say("accept", || format!("cannot accept peers: {error}"));
                    sleep(PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    shared.finish();
    // Connections without a greeting, and those that do not read, are closed after this time.
    let all = async { while connections.join_next().await.is_some() {} };
    drop(timeout(FAREWELL, all).await);
    connections.shutdown().await;
    Ok(())
}

/// Connections without a greeting so far.
#[derive(Clone)]
struct Strangers {
    most: usize,
    there: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
}

/// The place of one such connection, freed on drop.
struct Stranger {
    address: IpAddr,
    there: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
}

impl Strangers {
    fn new(most: usize) -> Self {
        Self { most, there: Arc::default() }
    }

    /// `None` if there are too many. One address may have an eighth of the places, so that one host
    /// cannot lock out the others. Loopback may have all, because all hosts share it in the memory
    /// fabric.
    fn admit(&self, address: IpAddr) -> Option<Stranger> {
        let own_most = if address.is_loopback() { self.most } else { self.most.div_ceil(8) };
        let mut there = lock(&self.there);
        let all: usize = there.values().sum();
        let own = there.get(&address).copied().unwrap_or_default();
        if all >= self.most || own >= own_most {
            return None;
        }
        there.insert(address, own + 1);
        Some(Stranger { address, there: Arc::clone(&self.there) })
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut there = lock(&self.there);
        if let Some(own) = there.get_mut(&self.address) {
            *own -= 1;
            if *own == 0 {
                there.remove(&self.address);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One connection.
struct Connection {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl Connection {
    async fn serve(self, stream: TcpStream, stranger: Stranger) {
        // Send small messages without delay.
        drop(stream.set_nodelay(true));
        if let Err(error) = keepalive::watch(&stream, &self.shared.limits) {
            // The peer has already left.
            return self.on_silence(&error.to_string());
        }
        let deadline = Instant::now() + self.shared.limits.greeting;
        let stream = match timeout_at(deadline, self.shake_hands(stream)).await {
            Ok(Some(stream)) => stream,
            Ok(None) => return,
            Err(_) => return self.on_silence("it did not greet in time"),
        };
        let (reader, mut writer) = split(stream);
        let mut bodies = Bodies::new(reader);
        let admission = match timeout_at(deadline, self.greet(&mut bodies)).await {
            Ok(Ok(admission)) => admission,
            Ok(Err(None)) => return self.on_silence("it left before it had greeted"),
            Ok(Err(Some(refusal))) => return self.refuse(&mut writer, refusal).await,
            Err(_) => return self.on_silence("it did not greet in time"),
        };
        drop(stranger);
        self.shared.counters.with(|stats| {
            stats.welcomed += 1;
            stats.replaced += u64::from(admission.replaces);
        });
        let peer = admission.peer;
        tracing::debug!("{peer} connected from {}", self.address);
        if self.shared.hand_over(Incoming::Opened(peer)).await {
            self.converse(&admission, bodies, writer).await;
        }
        if self.shared.leave(&admission) {
            self.shared.hand_over(Incoming::Closed(peer)).await;
        }
        tracing::debug!("{peer} at {} is gone", self.address);
    }

    /// Begins to encrypt the connection, with the key of the job that the peer names.
    async fn shake_hands(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let hello = match LazyConfigAcceptor::new(Acceptor::default(), stream).await {
            Ok(hello) => hello,
            Err(error) => {
                self.on_no_handshake("a stranger", &error);
                return None;
            }
        };
        let job = hello.client_hello().server_name().and_then(secrecy::job);
        let tls = job.and_then(|job| self.shared.tls(job));
        let served = tls.is_some();
        match hello.into_stream(tls.unwrap_or_else(secrecy::refusing)).await {
            Ok(stream) => Some(stream),
            Err(error) => {
                let who = match job {
                    Some(job) => format!("a peer of job {job}"),
                    None => "a stranger".to_owned(),
                };
                match (served, is_alert(&error)) {
                    (false, _) => self.on_refusal(&who, Refusal::Job),
                    // It does not find the agent's key to be that of its token.
                    (true, true) => self.on_refusal(&who, Refusal::Token),
                    (true, false) => self.on_no_handshake(&who, &error),
                }
                None
            }
        }
    }

    /// Reads the greeting. `None`: it did not arrive in time.
    async fn greet(&self, bodies: &mut Bodies<Reader>) -> Result<Admission, Option<Refusal>> {
        let patience = self.shared.limits.greeting;
        let hello = match bodies.next(HELLO_LEN, patience).await {
            Ok(body) => Hello::decode(body),
            Err(ReadError::Garbage(error)) => Err(error),
            Err(_) => return Err(None),
        };
        let hello = hello.map_err(|error| {
            self.on_garbage("a stranger", &error);
            Some(Refusal::Hello)
        })?;
        self.shared.admit(&hello).map_err(|refusal| {
            let peer = Peer { job: hello.job, role: hello.role };
            self.on_refusal(&peer.to_string(), refusal);
            Some(refusal)
        })
    }

    /// Sends the reason if the peer still reads, and closes the connection.
    async fn refuse(&self, writer: &mut Writer, refusal: Refusal) {
        let outbox = Outbox::new(usize::MAX, Default::default());
        // It has room for one message.
        let _ = outbox.push(&Answer::Refused(refusal));
        outbox.finish();
        drop(outbox.write_to(writer, self.shared.limits.greeting).await);
    }

    /// Sends and receives messages until the connection ends.
    async fn converse(
        &self,
        admission: &Admission,
        mut bodies: Bodies<Reader>,
        mut writer: Writer,
    ) {
        let Admission { peer, outbox, .. } = admission;
        let patience = self.shared.limits.progress;
        let write = outbox.write_to(&mut writer, patience);
        let ended = tokio::select! {
            error = self.listen(admission, &mut bodies) => Some(error),
            result = write => match result {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    Some(Ending::Read(ReadError::Stalled(patience)))
                }
                _ => None,
            },
            () = outbox.ended() => None,
        };
        outbox.end();
        match ended {
            Some(Ending::Read(ReadError::Garbage(error))) => {
                self.on_garbage(&peer.to_string(), &error);
            }
            Some(Ending::Read(error @ ReadError::Stalled(_))) => {
                self.shared.counters.count(|stats| &mut stats.stalled);
                self.shared.complaints.say("stalled", || {
                    format!("{peer} at {} was disconnected: {error}", self.address)
                });
            }
            Some(Ending::Values(found)) => {
                self.shared.counters.count(|stats| &mut stats.garbage);
                self.shared.complaints.say("garbage", || {
                    format!(
                        "{peer} at {} was disconnected: it sent {found} values, and packets of \
                         the job have {}",
                        self.address, admission.values
                    )
                });
            }
            Some(Ending::Read(error)) => tracing::debug!("{peer} at {}: {error}", self.address),
            Some(Ending::Deaf) | None => {}
        }
    }

    /// Passes the peer's messages on until one is invalid.
    async fn listen(&self, admission: &Admission, bodies: &mut Bodies<Reader>) -> Ending {
        let longest = longest_body(admission.values);
        loop {
            let body = match bodies.next(longest, self.shared.limits.progress).await {
                Ok(body) => body,
                Err(error) => return Ending::Read(error),
            };
            let Peer { job, role } = admission.peer;
            let decoded = match role {
                Role::Worker(index) => {
                    FromWorker::decode(body).map(|message| Incoming::Worker(job, index, message))
                }
                Role::Server => {
                    FromServer::decode(body).map(|message| Incoming::Server(job, message))
                }
            };
            let message = match decoded {
                Ok(message) => message,
                Err(error) => return Ending::Read(error.into()),
            };
            if let Some(values) = values(&message)
                && values.len() != usize::from(admission.values)
            {
                return Ending::Values(values.len());
            }
            self.shared.counters.count(|stats| &mut stats.received);
            if !self.shared.hand_over(message).await {
                return Ending::Deaf;
            }
        }
    }

    fn on_silence(&self, why: &str) {
        self.shared.counters.count(|stats| &mut stats.silent);
        let line = || format!("a connection from {} was closed: {why}", self.address);
        self.shared.complaints.say("silent", line);
    }

    fn on_garbage(&self, who: &str, error: &Error) {
        self.shared.counters.count(|stats| &mut stats.garbage);
        self.shared.complaints.say("garbage", || {
            format!("{who} at {} was disconnected: it sent garbage: {error}", self.address)
        });
    }

    fn on_no_handshake(&self, who: &str, error: &io::Error) {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return self.on_silence("it left before it had greeted");
        }
        self.shared.counters.count(|stats| &mut stats.garbage);
        self.shared.complaints.say("garbage", || {
            format!("{who} at {} was disconnected: no encrypted connection: {error}", self.address)
        });
    }

    fn on_refusal(&self, peer: &str, refusal: Refusal) {
        let (kind, why) = match refusal {
            Refusal::Job => ("job", "the job is not served here"),
            Refusal::Token => ("token", "its token is not the job's"),
            Refusal::Run => ("run", "it is of another run of the job"),
            Refusal::Role | Refusal::Hello => ("role", "the job has no such peer"),
        };
        self.shared.counters.count(|stats| match refusal {
            Refusal::Job => &mut stats.unknown_job,
            Refusal::Token => &mut stats.forged,
            Refusal::Run => &mut stats.other_run,
            Refusal::Role | Refusal::Hello => &mut stats.wrong_role,
        });
        self.shared
            .complaints
            .say(kind, || format!("{} says it is {peer} and was refused: {why}", self.address));
    }
}

type Reader = ReadHalf<TlsStream<TcpStream>>;
type Writer = WriteHalf<TlsStream<TcpStream>>;

/// Whether the peer ended a handshake because of what it was told.
fn is_alert(error: &io::Error) -> bool {
    let error = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    matches!(error, Some(rustls::Error::AlertReceived(_)))
}

/// Why a conversation ended.
enum Ending {
    Read(ReadError),
    /// A message whose number of values differs from the job's packets.
    Values(usize),
    /// The endpoint has ended.
    Deaf,
}

/// The values in a message.
fn values(message: &Incoming) -> Option<&Values> {
    match message {
        Incoming::Worker(
            ..,
            FromWorker::Values { values, .. } | FromWorker::Result { values, .. },
        )
        | Incoming::Server(_, FromServer::Deliver { values, .. }) => Some(values),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_cannot_take_the_place_of_the_others() {
        let strangers = Strangers::new(64);
        let [attacker, worker, own] =
            [[10, 0, 0, 1], [10, 0, 0, 2], [127, 0, 0, 1]].map(IpAddr::from);
        let mut silent: Vec<_> = (0..8).map(|_| strangers.admit(attacker).unwrap()).collect();
        assert!(strangers.admit(attacker).is_none());
        let greeting = strangers.admit(worker);
        assert!(greeting.is_some());
        silent.pop();
        assert!(strangers.admit(attacker).is_some(), "a place is free again");
        drop(greeting);
        assert_eq!(lock(&strangers.there).len(), 1, "a peer that has left is removed");
        let local: Vec<_> = std::iter::from_fn(|| strangers.admit(own)).collect();
        assert_eq!(local.len(), 64 - 7, "as many as there may be in all");
        assert!(strangers.admit(worker).is_none());
    }
}
