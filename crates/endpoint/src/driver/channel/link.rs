//! The connecting side of the channel: a worker's, or that of a PS outside the agent's process.

use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustls::{AlertDescription, ClientConfig};
use tokio::io::{ReadHalf, WriteHalf, split};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tributary_base::Backoff;
use tributary_netio::Waker;
use tributary_wire::channel::{Answer, Hello, Message, Refusal};

use crate::driver::channel::complaints::Complaints;
use crate::driver::channel::outbox::Outbox;
use crate::driver::channel::stream::{Bodies, ReadError};
use crate::driver::channel::{Limits, keepalive, longest_body, secrecy};

/// Pause after the first failed attempt; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// The longest pause between attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long the agent of a new job or run may take to learn of it.
const BEGINNING: Duration = Duration::from_secs(3);

/// How long the agent has to receive pending messages when the link ends.
const FAREWELL: Duration = Duration::from_millis(500);

/// The peer that connects, and the agent's address.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// The agent's address.
    pub agent: SocketAddr,
    /// The greeting.
    pub hello: Hello,
    /// Values per packet of the job.
    pub values: u16,
    /// The limits; [`greeting`](Limits::greeting) is also the timeout for connecting.
    pub limits: Limits,
}

impl LinkConfig {
    /// The configuration with default limits.
    #[must_use]
    pub fn new(agent: SocketAddr, hello: Hello, values: u16) -> Self {
        Self { agent, hello, values, limits: Limits::default() }
    }
}

/// An event of a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkEvent<In> {
    /// The channel is open, for the first time or again.
    Opened,
    /// The channel is closed; the link tries to open it again.
    Closed,
    /// The agent refuses this peer. The link keeps trying.
    Refused(Refusal),
    /// A message from the agent.
    Message(In),
}

/// A channel to the agent that is opened again whenever it breaks. `In` is the type of received
/// messages, `Out` that of sent ones.
///
/// Dropping it sends pending messages if the agent accepts them within half a second.
#[derive(Debug)]
pub struct Link<In, Out> {
    shared: Arc<Shared>,
    events: mpsc::Receiver<LinkEvent<In>>,
    shutdown: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    out: PhantomData<fn(Out)>,
}

/// State shared by the link and its thread.
#[derive(Debug, Default)]
struct Shared {
    /// The outbox of the current connection.
    outbox: Mutex<Option<Arc<Outbox>>>,
    /// Why there is no connection.
    trouble: Mutex<Option<String>>,
    complaints: Complaints,
}

impl<In: Message + Send + 'static, Out: Message> Link<In, Out> {
    /// Starts to connect. `waker` is woken when [`poll`](Self::poll) has an event, or when there is
    /// [room](Self::has_room) again.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(config: LinkConfig, waker: Waker) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (sender, events) = mpsc::channel(config.limits.incoming);
        let (shutdown, stopped) = oneshot::channel();
        let shared = Arc::new(Shared::default());
        let tls = secrecy::client(&config.hello.token);
        let task = Task { config, tls, shared: Arc::clone(&shared), events: sender, waker };
        let thread = thread::Builder::new()
            .name("reminder link".into())
            .spawn(move || runtime.block_on(task.run(stopped)))?;
        let (shutdown, thread) = (Some(shutdown), Some(thread));
        Ok(Self { shared, events, shutdown, thread, out: PhantomData })
    }

    /// The next event; `None` if there is none at the moment.
    pub fn poll(&mut self) -> Option<LinkEvent<In>> {
        self.events.try_recv().ok()
    }

    /// Whether the channel is open and accepts a message. If not, the waker is woken once it does.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.shared.outbox().is_some_and(|outbox| outbox.has_room())
    }

    /// Sends a message without blocking. Returns whether it was accepted: not while the channel is
    /// closed or has no [room](Self::has_room). An accepted message is lost if the channel breaks.
    pub fn send(&self, message: &Out) -> bool {
        self.shared.outbox().is_some_and(|outbox| outbox.push(message).is_ok())
    }

    /// Why the channel is closed, if it is.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble.lock().expect("nobody panics with it").clone()
    }
}

impl<In, Out> Drop for Link<In, Out> {
    fn drop(&mut self) {
        self.events.close();
        self.shutdown.take();
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            drop(thread.join());
        }
    }
}

impl Shared {
    fn outbox(&self) -> Option<Arc<Outbox>> {
        self.outbox.lock().expect("nobody panics with it").clone()
    }

    fn set_outbox(&self, outbox: Option<Arc<Outbox>>) {
        *self.outbox.lock().expect("nobody panics with it") = outbox;
    }

    fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().expect("nobody panics with it") = trouble;
    }
}

/// The link's thread.
struct Task<In> {
    config: LinkConfig,
    tls: Arc<ClientConfig>,
    shared: Arc<Shared>,
    events: mpsc::Sender<LinkEvent<In>>,
    waker: Waker,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("no encrypted connection: {0}")]
    Handshake(io::Error),
    #[error("no answer within {0:?}")]
    Silent(Duration),
    #[error("refused: {0}")]
    Refused(Refusal),
    #[error("{0}")]
    Read(#[from] ReadError),
    #[error("cannot write: {0}")]
    Write(io::Error),
}

type Reader = ReadHalf<TlsStream<TcpStream>>;
type Writer = WriteHalf<TlsStream<TcpStream>>;

impl Failure {
    /// An agent without a key for the job denies access. One with another key has another token.
    fn of_handshake(error: io::Error) -> Self {
        match error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::AlertReceived(AlertDescription::AccessDenied)) => {
                Self::Refused(Refusal::Job)
            }
            Some(rustls::Error::InvalidCertificate(_)) => Self::Refused(Refusal::Token),
            _ => Self::Handshake(error),
        }
    }
}

impl<In: Message> Task<In> {
    async fn run(self, mut stopped: oneshot::Receiver<()>) {
        let agent = self.config.agent;
        let begin = Instant::now();
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let attempt = self.attempt();
            tokio::pin!(attempt);
            let (opened, failure) = tokio::select! {
                ended = &mut attempt => ended,
                _ = &mut stopped => {
                    if let Some(outbox) = self.shared.outbox() {
                        outbox.finish();
                        drop(timeout(FAREWELL, attempt).await);
                    }
                    return;
                }
            };
            let Some(failure) = failure else { return };
            if opened {
                backoff.reset();
            }
            // An agent closes connections when its jobs end. If it was replaced, the next attempt
            // reaches the new agent; otherwise that attempt's failure is logged. An agent learns of a new job or run
            // at the same time as its peers, and refuses them until then.
            let beginning = !opened
                && matches!(
                    failure,
                    Failure::Refused(Refusal::Job | Refusal::Token | Refusal::Run)
                )
                && begin.elapsed() < BEGINNING;
            if !(beginning || opened && matches!(failure, Failure::Read(ReadError::Closed))) {
                self.shared.complaints.say("agent", || {
                    format!("no channel to the reminder agent at {agent}: {failure}")
                });
            }
            if let Failure::Refused(refusal) = failure
                && !beginning
            {
                self.tell(LinkEvent::Refused(refusal)).await;
            }
            tokio::select! {
                () = sleep(backoff.next_pause()) => {}
                _ = &mut stopped => return,
            }
        }
    }

    /// One connection from start to end: whether it was open, and why it ended.
    async fn attempt(&self) -> (bool, Option<Failure>) {
        match self.connect().await {
            Ok(connection) => (true, self.converse(connection).await),
            Err(failure) => {
                self.shared.set_trouble(Some(failure.to_string()));
                (false, Some(failure))
            }
        }
    }

    /// Connects and greets.
    async fn connect(&self) -> Result<(Bodies<Reader>, Writer), Failure> {
        let patience = self.config.limits.greeting;
        let greeted = async {
            let stream = TcpStream::connect(self.config.agent).await.map_err(Failure::Connect)?;
            drop(stream.set_nodelay(true));
            keepalive::watch(&stream, &self.config.limits).map_err(Failure::Connect)?;
            let name = secrecy::name(self.config.hello.job);
            let stream = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await;
            let (reader, mut writer) = split(stream.map_err(Failure::of_handshake)?);
            let outbox = Outbox::new(usize::MAX, Waker::new());
            let _ = outbox.push(&self.config.hello);
            outbox.finish();
            outbox.write_to(&mut writer, patience).await.map_err(Failure::Write)?;
            let mut bodies = Bodies::new(reader);
            let body = bodies.next(ANSWER_MAX, patience).await?;
            match Answer::decode(body).map_err(ReadError::from)? {
                Answer::Welcome => Ok((bodies, writer)),
                Answer::Refused(refusal) => Err(Failure::Refused(refusal)),
            }
        };
        timeout(patience, greeted).await.unwrap_or(Err(Failure::Silent(patience)))
    }

    /// Sends and receives messages until the connection ends. `None`: the link was dropped.
    async fn converse(
        &self,
        (mut bodies, mut writer): (Bodies<Reader>, Writer),
    ) -> Option<Failure> {
        let Limits { progress, outgoing, .. } = self.config.limits;
        let outbox = Arc::new(Outbox::new(outgoing, self.waker.clone()));
        self.shared.set_outbox(Some(Arc::clone(&outbox)));
        self.shared.set_trouble(None);
        if !self.tell(LinkEvent::Opened).await {
            return None;
        }
        let failure = tokio::select! {
            failure = self.listen(&mut bodies) => failure,
            result = outbox.write_to(&mut writer, progress) => {
                result.err().map(Failure::Write)
            }
        };
        outbox.end();
        self.shared.set_outbox(None);
        // Set before the event, because its receiver may ask for the reason at once.
        self.shared.set_trouble(failure.as_ref().map(Failure::to_string));
        self.tell(LinkEvent::Closed).await;
        failure
    }

    async fn listen(&self, bodies: &mut Bodies<Reader>) -> Option<Failure> {
        let longest = longest_body(self.config.values);
        loop {
            let body = match bodies.next(longest, self.config.limits.progress).await {
                Ok(body) => body,
                Err(error) => return Some(error.into()),
            };
            match In::decode(body) {
                Ok(message) => {
                    if !self.tell(LinkEvent::Message(message)).await {
                        return None;
                    }
                }
                Err(error) => return Some(ReadError::from(error).into()),
            }
        }
    }

    /// Passes an event to the endpoint, waiting for room. `false` if the endpoint has ended.
    async fn tell(&self, event: LinkEvent<In>) -> bool {
        let taken = self.events.send(event).await.is_ok();
        self.waker.wake();
        taken
    }
}

/// Length of the longest [`Answer`].
const ANSWER_MAX: usize = 2;
