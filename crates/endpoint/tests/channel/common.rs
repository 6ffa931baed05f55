//! A hub on loopback, and misbehaving peers.

#![allow(dead_code, reason = "each test program uses its part")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tributary_endpoint::driver::channel::{
    Hub, HubConfig, HubJob, Incoming, Limits, Link, LinkConfig, LinkEvent, Stats, secrecy,
};
use tributary_netio::{Poller, Waker};
use tributary_wire::channel::{
    Answer, BODY_MAX, FromWorker, Hello, Message, Role, ToWorker, Token, Values, split_frame,
};
use tributary_wire::{Epoch, JobId, Sequence, WorkerIndex};

/// Longer than any step of these tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) const TOKEN: Token = Token([7; 16]);
pub(crate) const VALUES: u16 = 4;

/// A peer without a link.
pub(crate) type Stranger = rustls::StreamOwned<rustls::ClientConnection, TcpStream>;

pub(crate) type WorkerLink = Link<ToWorker, FromWorker>;

pub(crate) fn job(number: u16) -> JobId {
    JobId::new(number).unwrap()
}

pub(crate) fn worker(index: u16) -> WorkerIndex {
    WorkerIndex::new(index).unwrap()
}

pub(crate) fn hello(number: u16, role: Role) -> Hello {
    Hello { job: job(number), epoch: Epoch::FIRST, role, token: TOKEN }
}

pub(crate) fn values(seed: u8) -> Values {
    Values { float: false, payload: vec![seed; 4 * usize::from(VALUES)].into() }
}

/// Limits short enough for tests.
pub(crate) fn short() -> Limits {
    Limits {
        greeting: Duration::from_millis(200),
        progress: Duration::from_millis(300),
        idle: Duration::from_secs(1),
        outgoing: 64 << 10,
        incoming: 64,
        strangers: 4,
    }
}

/// A hub that serves job 1 with three workers, and its endpoint's poller.
pub(crate) struct Desk {
    pub(crate) hub: Hub,
    pub(crate) poller: Poller,
}

impl Desk {
    pub(crate) fn new(limits: Limits) -> Self {
        Self::at((Ipv4Addr::LOCALHOST, 0).into(), limits)
    }

    pub(crate) fn at(address: SocketAddr, limits: Limits) -> Self {
        let poller = Poller::new();
        let config = HubConfig { address, limits };
        let hub = Hub::start(&config, [served(1)], poller.waker().clone()).unwrap();
        Self { hub, poller }
    }

    /// Waits for the next event.
    pub(crate) fn next(&mut self) -> Incoming {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(incoming) = self.hub.poll() {
                return incoming;
            }
            assert!(Instant::now() < deadline, "nothing came: {:?}", self.hub.stats());
            self.poller.wait(Some(PATIENCE)).unwrap();
        }
    }

    /// Waits until the hub's counters satisfy a condition.
    pub(crate) fn until(&self, reached: impl Fn(&Stats) -> bool) -> Stats {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let stats = self.hub.stats();
            if reached(&stats) {
                return stats;
            }
            assert!(Instant::now() < deadline, "{stats:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn link(&self, index: u16) -> WorkerLink {
        self.link_with(hello(1, Role::Worker(worker(index))), Limits::default())
    }

    pub(crate) fn link_with(&self, hello: Hello, limits: Limits) -> WorkerLink {
        let config = LinkConfig { agent: self.hub.address(), hello, values: VALUES, limits };
        Link::start(config, Waker::new()).unwrap()
    }

    /// A connection that has not sent anything yet.
    pub(crate) fn plain(&self) -> TcpStream {
        let stream = TcpStream::connect(self.hub.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// An encrypted connection that has not said anything yet.
    pub(crate) fn stranger(&self) -> Stranger {
        self.stranger_with(1, TOKEN)
    }

    /// The same with another job and token in the handshake.
    pub(crate) fn stranger_with(&self, number: u16, token: Token) -> Stranger {
        let config = secrecy::client(&token);
        let tls = rustls::ClientConnection::new(config, secrecy::name(job(number))).unwrap();
        let mut stream = Stranger::new(tls, self.plain());
        // Not the first thing that is said, and maybe in vain.
        let _ = stream.conn.complete_io(&mut stream.sock);
        stream
    }

    /// A connection that was admitted, without a link.
    pub(crate) fn guest(&self, index: u16) -> Stranger {
        let mut stream = self.stranger();
        say(&mut stream, &hello(1, Role::Worker(worker(index))));
        assert_eq!(hear::<Answer>(&mut stream), Some(Answer::Welcome));
        stream
    }
}

/// A job with three workers whose PS is in the agent's process.
pub(crate) fn served(number: u16) -> HubJob {
    HubJob {
        id: job(number),
        epoch: Epoch::FIRST,
        token: TOKEN,
        workers: 3,
        values: VALUES,
        server: false,
    }
}

/// The next event of a link.
pub(crate) fn event<In: Message + Send + 'static, Out: Message>(
    link: &mut Link<In, Out>,
) -> LinkEvent<In> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(event) = link.poll() {
            return event;
        }
        assert!(Instant::now() < deadline, "nothing came: {:?}", link.trouble());
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn bytes(message: &impl Message) -> BytesMut {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes);
    bytes
}

pub(crate) fn say(stream: &mut impl Write, message: &impl Message) {
    stream.write_all(&bytes(message)).unwrap();
    stream.flush().unwrap();
}

/// Whether the other side has gone, with or without a farewell in TLS.
fn is_end(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof)
}

/// One message; `None` if the connection was closed before.
pub(crate) fn hear<M: Message>(stream: &mut impl Read) -> Option<M> {
    let mut received = BytesMut::new();
    let mut byte = [0];
    loop {
        match stream.read(&mut byte) {
            Ok(0) => return None,
            Ok(_) => received.extend_from_slice(&byte),
            Err(error) if is_end(&error) => return None,
            Err(error) => panic!("{error}"),
        }
        if let Some(body) = split_frame(&mut received, BODY_MAX).unwrap() {
            return Some(M::decode(body).unwrap());
        }
    }
}

/// Whether the other side closes the connection, after any messages.
pub(crate) fn is_closed(stream: &mut impl Read) -> bool {
    let mut rest = [0; 4096];
    loop {
        match stream.read(&mut rest) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return is_end(&error),
        }
    }
}

pub(crate) fn remind(sequence: u32) -> FromWorker {
    FromWorker::Remind { sequence: Sequence(sequence) }
}
