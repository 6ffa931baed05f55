//! Links: they reconnect whatever the agent does, and never block.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::common::{
    Desk, PATIENCE, TOKEN, VALUES, bytes, event, hello, job, remind, say, short, values, worker,
};
use tributary_endpoint::driver::channel::{Incoming, Limits, Link, LinkConfig, LinkEvent, secrecy};
use tributary_netio::Waker;
use tributary_wire::Sequence;
use tributary_wire::channel::{Answer, FromWorker, HELLO_LEN, Refusal, Role, ToWorker, Token};

fn link_to(listener: &TcpListener, limits: Limits) -> crate::common::WorkerLink {
    let hello = hello(1, Role::Worker(worker(0)));
    let agent = listener.local_addr().unwrap();
    Link::start(LinkConfig { agent, hello, values: VALUES, limits }, Waker::new()).unwrap()
}

fn listener() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

/// An agent without a hub.
type Agent = rustls::StreamOwned<rustls::ServerConnection, TcpStream>;

/// Accepts a link's connection, as an agent with a token.
fn meet(listener: &TcpListener, token: Token) -> Agent {
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Agent::new(rustls::ServerConnection::new(secrecy::server(&token)).unwrap(), stream)
}

/// Accepts a link's connection and reads its greeting.
fn accept(listener: &TcpListener) -> Agent {
    let mut stream = meet(listener, TOKEN);
    let mut greeting = [0; 4 + HELLO_LEN];
    stream.read_exact(&mut greeting).unwrap();
    assert_eq!(greeting, bytes(&hello(1, Role::Worker(worker(0))))[..]);
    stream
}

#[test]
fn a_link_starts_before_the_agent_and_outlives_its_restarts() {
    let address = listener().local_addr().unwrap();
    let hello = hello(1, Role::Worker(worker(0)));
    let config = LinkConfig { agent: address, hello, values: VALUES, limits: Limits::default() };
    let mut link: crate::common::WorkerLink = Link::start(config, Waker::new()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert!(link.poll().is_none());
    assert!(!link.has_room() && !link.send(&remind(0)), "nothing is taken while it is closed");
    assert!(link.trouble().unwrap().contains("cannot connect"), "{:?}", link.trouble());
    for round in 0..3 {
        let mut desk = Desk::at(address, Limits::default());
        assert_eq!(event(&mut link), LinkEvent::Opened);
        assert!(link.send(&remind(round)));
        assert!(matches!(desk.next(), Incoming::Opened(_)));
        assert_eq!(desk.next(), Incoming::Worker(job(1), worker(0), remind(round)));
        drop(desk);
        assert_eq!(event(&mut link), LinkEvent::Closed);
    }
}

#[test]
fn a_link_reconnects_to_an_agent_that_sends_garbage() {
    let listener = listener();
    // The limits are too long to end a connection here: garbage does.
    let limits = Limits { greeting: PATIENCE, progress: PATIENCE, ..short() };
    let mut link = link_to(&listener, limits);
    for garbage in [&b"HTTP/1.1 400\r\n"[..], &[0; 8], &[0, 0, 0, 1, 16]] {
        let mut agent = accept(&listener);
        agent.write_all(garbage).unwrap();
        agent.flush().unwrap();
        assert_eq!(agent.read(&mut [0]).unwrap_or(0), 0, "it hangs up");
        assert!(link.poll().is_none(), "it was never open");
    }
    // And in the place of a handshake.
    let (mut agent, _) = listener.accept().unwrap();
    agent.write_all(b"HTTP/1.1 400\r\n").unwrap();
    let mut hello = Vec::new();
    let _ = agent.read_to_end(&mut hello);
    assert!(link.poll().is_none() && !hello.is_empty());
    // Also after admission: a message of the other direction, and one that is too long.
    for garbage in [bytes(&remind(0)), bytes(&Answer::Welcome), [0, 0, 0x10, 0][..].into()] {
        let mut agent = accept(&listener);
        say(&mut agent, &Answer::Welcome);
        assert_eq!(event(&mut link), LinkEvent::Opened);
        say(&mut agent, &ToWorker::Dismissed);
        agent.write_all(&garbage).unwrap();
        agent.flush().unwrap();
        assert_eq!(event(&mut link), LinkEvent::Message(ToWorker::Dismissed));
        assert_eq!(event(&mut link), LinkEvent::Closed);
        assert!(link.trouble().unwrap().contains("garbage"), "{:?}", link.trouble());
    }
}

#[test]
fn a_link_reconnects_to_an_agent_that_does_not_answer() {
    let listener = listener();
    let start = Instant::now();
    let mut link = link_to(&listener, short());
    let silent = accept(&listener);
    let mut second = accept(&listener);
    assert!(start.elapsed() >= short().greeting);
    say(&mut second, &Answer::Welcome);
    assert_eq!(event(&mut link), LinkEvent::Opened);
    drop(silent);
}

#[test]
fn an_agent_that_does_not_read_is_disconnected_and_blocks_nothing() {
    let listener = listener();
    let mut link = link_to(&listener, short());
    let mut agent = accept(&listener);
    say(&mut agent, &Answer::Welcome);
    assert_eq!(event(&mut link), LinkEvent::Opened);
    let start = Instant::now();
    let mut refused = 0u64;
    let closed = loop {
        let before = Instant::now();
        refused += u64::from(!link.send(&remind(7)));
        assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
        assert!(start.elapsed() < PATIENCE);
        if let Some(event) = link.poll() {
            break event;
        }
    };
    assert_eq!(closed, LinkEvent::Closed);
    assert!(refused > 0, "the queue is bounded");
    let mut again = accept(&listener);
    say(&mut again, &Answer::Welcome);
    assert_eq!(event(&mut link), LinkEvent::Opened);
    assert!(link.send(&remind(9)), "the new channel has room");
    let mut first = vec![0; bytes(&remind(9)).len()];
    again.read_exact(&mut first).unwrap();
    assert_eq!(first, bytes(&remind(9))[..], "nothing of the old channel");
}

#[test]
fn the_waker_is_woken_when_there_is_room() {
    let listener = listener();
    let limits = Limits { progress: PATIENCE, outgoing: 256 << 10, ..short() };
    let hello = hello(1, Role::Worker(worker(0)));
    let agent = listener.local_addr().unwrap();
    let mut poller = tributary_netio::Poller::new();
    let config = LinkConfig { agent, hello, values: VALUES, limits };
    let mut link: crate::common::WorkerLink = Link::start(config, poller.waker().clone()).unwrap();
    let mut agent = accept(&listener);
    say(&mut agent, &Answer::Welcome);
    assert_eq!(event(&mut link), LinkEvent::Opened);
    let mut quiet = 0;
    // Until the kernel accepts nothing more.
    while quiet < 20 {
        if link.has_room() {
            quiet = 0;
            assert!(link.send(&remind(1)));
        } else {
            quiet += 1;
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let reader = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        let mut rest = vec![0; 1 << 20];
        while agent.read(&mut rest).is_ok_and(|read| read > 0) {}
    });
    let start = Instant::now();
    while !link.has_room() {
        poller.wait(Some(PATIENCE)).unwrap();
    }
    assert!(start.elapsed() < PATIENCE / 2, "{:?}", start.elapsed());
    drop(link);
    reader.join().unwrap();
}

/// A host that takes over the agent's address has another key, and learns nothing.
#[test]
fn a_link_tells_no_token_to_a_host_that_pretends_to_be_the_agent() {
    let listener = listener();
    let mut link = link_to(&listener, Limits::default());
    let mut token = TOKEN.0;
    token[0] ^= 1;
    // At first, the agent may not have learned of the job yet.
    let refused = loop {
        let mut pretender = meet(&listener, Token(token));
        let mut heard = Vec::new();
        assert!(pretender.read_to_end(&mut heard).is_err(), "the handshake fails");
        assert!(heard.is_empty());
        if let Some(refused) = link.poll() {
            break refused;
        }
    };
    assert_eq!(refused, LinkEvent::Refused(Refusal::Token));
    // The right one is still welcome.
    let mut agent = accept(&listener);
    say(&mut agent, &Answer::Welcome);
    // The last attempts may have been refused before the first refusal was seen.
    let next = std::iter::repeat_with(|| event(&mut link)).find(|event| *event != refused);
    assert_eq!(next, Some(LinkEvent::Opened));
}

/// What passes on the wire, in one direction.
fn passing(mut from: TcpStream, mut to: TcpStream) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let (mut all, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(length @ 1..) = from.read(&mut piece) {
            all.extend_from_slice(&piece[..length]);
            if to.write_all(&piece[..length]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Write);
        all
    })
}

#[test]
fn neither_tokens_nor_values_are_seen_on_the_way() {
    let mut desk = Desk::new(Limits::default());
    let listener = listener();
    let mut link = link_to(&listener, Limits::default());
    let (near, _) = listener.accept().unwrap();
    let far = TcpStream::connect(desk.hub.address()).unwrap();
    let there = passing(near.try_clone().unwrap(), far.try_clone().unwrap());
    let back = passing(far, near);
    assert_eq!(event(&mut link), LinkEvent::Opened);
    assert!(matches!(desk.next(), Incoming::Opened(_)));
    let secret = values(0x5a);
    let message = FromWorker::Values { sequence: Sequence(1), values: secret.clone() };
    assert!(link.send(&message));
    assert_eq!(desk.next(), Incoming::Worker(job(1), worker(0), message));
    drop(link);
    drop(desk);
    let seen = [there.join().unwrap(), back.join().unwrap()].concat();
    for secret in [&TOKEN.0[..], &secret.payload] {
        assert!(!seen.windows(secret.len()).any(|part| part == secret), "{secret:?}");
    }
}

/// The TCP timers of a port's connections: local port, remote port, timer, remaining time.
fn timers(port: u16) -> Vec<(u16, u16, String, Duration)> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port_of =
        |address: &str| u16::from_str_radix(address.split_once(':').unwrap().1, 16).unwrap();
    let established = table.lines().skip(1).filter_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (kind, left) = columns[5].split_once(':').unwrap();
        // In hundredths of a second, whatever the kernel's tick is.
        let left = Duration::from_millis(10 * u64::from_str_radix(left, 16).unwrap());
        (columns[3] == "01").then(|| (port_of(columns[1]), port_of(columns[2]), kind.into(), left))
    });
    established.filter(|(local, remote, ..)| *local == port || *remote == port).collect()
}

#[test]
fn both_ends_of_a_channel_probe_a_silent_peer() {
    let idle = Duration::from_secs(7);
    let mut desk = Desk::new(Limits { idle, ..Limits::default() });
    let hello = hello(1, Role::Worker(worker(0)));
    let mut link = desk.link_with(hello, Limits { idle: 2 * idle, ..Limits::default() });
    assert_eq!(event(&mut link), LinkEvent::Opened);
    assert!(matches!(desk.next(), Incoming::Opened(_)));
    let port = desk.hub.address().port();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let timers = timers(port);
        // 2 is keepalive; 1, for a moment, the retransmission timer of the last data.
        let asks = |idle: Duration, is_hub: bool| {
            timers.iter().any(|(local, _, kind, left)| {
                let long = *left > idle / 2 && *left <= idle;
                (*local == port) == is_hub && kind == "02" && long
            })
        };
        if timers.len() == 2 && asks(idle, true) && asks(2 * idle, false) {
            return;
        }
        assert!(Instant::now() < deadline, "{timers:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
