//! Peers of a hub: valid ones are served, others are dropped and counted.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::common::{
    Desk, TOKEN, bytes, event, hear, hello, is_closed, job, remind, say, served, short, values,
    worker,
};
use tributary_endpoint::driver::channel::{Incoming, Limits, Link, LinkConfig, LinkEvent, Peer};
use tributary_wire::channel::{
    Answer, FromServer, FromWorker, Hello, Refusal, Role, ToServer, ToWorker, Token, Values,
};
use tributary_wire::{Epoch, Sequence, WorkerSet};

fn peer(index: u16) -> Peer {
    Peer { job: job(1), role: Role::Worker(worker(index)) }
}

#[test]
fn messages_go_both_ways() {
    let mut desk = Desk::new(Limits::default());
    let mut link = desk.link(2);
    assert_eq!(event(&mut link), LinkEvent::Opened);
    assert_eq!(desk.next(), Incoming::Opened(peer(2)));
    let values_sent = FromWorker::Values { sequence: Sequence(9), values: values(3) };
    assert!(link.send(&remind(5)) && link.send(&values_sent));
    assert_eq!(desk.next(), Incoming::Worker(job(1), worker(2), remind(5)));
    assert_eq!(desk.next(), Incoming::Worker(job(1), worker(2), values_sent));
    let query = ToWorker::Query { sequence: Sequence(5), float: true };
    assert!(desk.hub.send_worker(job(1), worker(2), &query));
    assert!(desk.hub.send_worker(job(1), worker(2), &ToWorker::Dismissed));
    assert_eq!(event(&mut link), LinkEvent::Message(query));
    assert_eq!(event(&mut link), LinkEvent::Message(ToWorker::Dismissed));
    assert_eq!(desk.hub.peers(), [peer(2)]);

    // The worker is not connected: the message is not sent, and the caller is told.
    assert!(!desk.hub.send_worker(job(1), worker(0), &ToWorker::Dismissed));
    assert!(!desk.hub.send_server(job(1), &ToServer::Over { sequence: Sequence(0) }));
    drop(link);
    assert_eq!(desk.next(), Incoming::Closed(peer(2)));
    assert!(desk.hub.peers().is_empty());
    let stats = desk.hub.stats();
    assert_eq!((stats.welcomed, stats.received, stats.sent), (1, 2, 2));
    assert_eq!((stats.undeliverable, stats.replaced, stats.garbage), (2, 0, 0));
}

#[test]
fn pending_messages_are_sent_before_either_side_ends() {
    let mut desk = Desk::new(Limits::default());
    let mut link = desk.link(0);
    assert_eq!(event(&mut link), LinkEvent::Opened);
    for sequence in 0..1000 {
        assert!(link.send(&remind(sequence)));
    }
    drop(link);
    assert_eq!(desk.next(), Incoming::Opened(peer(0)));
    for sequence in 0..1000 {
        assert_eq!(desk.next(), Incoming::Worker(job(1), worker(0), remind(sequence)));
    }
    assert_eq!(desk.next(), Incoming::Closed(peer(0)));

    let mut link = desk.link(1);
    assert_eq!(event(&mut link), LinkEvent::Opened);
    for _ in 0..1000 {
        assert!(desk.hub.send_worker(job(1), worker(1), &ToWorker::Dismissed));
    }
    drop(desk);
    for _ in 0..1000 {
        assert_eq!(event(&mut link), LinkEvent::Message(ToWorker::Dismissed));
    }
    assert_eq!(event(&mut link), LinkEvent::Closed);
}

#[test]
fn a_separate_server_is_admitted_where_it_is_expected() {
    let mut desk = Desk::new(Limits::default());
    desk.hub.add_job(tributary_endpoint::driver::channel::HubJob { server: true, ..served(2) });
    let config = LinkConfig::new(desk.hub.address(), hello(2, Role::Server), crate::common::VALUES);
    let mut link: Link<ToServer, FromServer> = Link::start(config, Default::default()).unwrap();
    assert_eq!(event(&mut link), LinkEvent::Opened);
    assert_eq!(desk.next(), Incoming::Opened(Peer { job: job(2), role: Role::Server }));
    let (sequence, workers) = (Sequence(3), WorkerSet::from_low_bits(5));
    let deliver = FromServer::Deliver { sequence, workers, values: values(1) };
    assert!(link.send(&deliver));
    assert_eq!(desk.next(), Incoming::Server(job(2), deliver));
    let missing = ToServer::Missing { sequence, workers };
    assert!(desk.hub.send_server(job(2), &missing));
    assert_eq!(event(&mut link), LinkEvent::Message(missing));

    // Job 1's server is in the agent's process.
    let mut stranger = desk.stranger();
    say(&mut stranger, &hello(1, Role::Server));
    assert_eq!(hear(&mut stranger), Some(Answer::Refused(Refusal::Role)));
    assert_eq!(desk.hub.stats().wrong_role, 1);
}

#[test]
fn invalid_greetings_are_answered_and_counted() {
    let desk = Desk::new(short());
    let mut near_miss = TOKEN.0;
    near_miss[15] ^= 1;
    let role = Role::Worker(worker(0));
    for (hello, refusal) in [
        (Hello { token: Token(near_miss), ..hello(1, role) }, Refusal::Token),
        (Hello { token: Token([0; 16]), ..hello(1, role) }, Refusal::Token),
        (Hello { epoch: Epoch::new(2).unwrap(), ..hello(1, role) }, Refusal::Run),
        (hello(9, role), Refusal::Job),
        (hello(1, Role::Worker(worker(3))), Refusal::Role),
        (hello(1, Role::Worker(worker(31))), Refusal::Role),
    ] {
        let mut stranger = desk.stranger();
        say(&mut stranger, &hello);
        assert_eq!(hear(&mut stranger), Some(Answer::Refused(refusal)), "{hello:?}");
        assert!(is_closed(&mut stranger));
    }
    // A wrong role is reported only with the right token.
    let mut stranger = desk.stranger();
    say(&mut stranger, &Hello { token: Token([1; 16]), ..hello(1, Role::Worker(worker(31))) });
    assert_eq!(hear(&mut stranger), Some(Answer::Refused(Refusal::Token)));
    let stats = desk.hub.stats();
    assert_eq!((stats.forged, stats.unknown_job, stats.wrong_role), (3, 1, 2));
    assert_eq!(stats.other_run, 1);
    assert_eq!((stats.welcomed, stats.garbage, stats.silent), (0, 0, 0));
    assert!(desk.hub.peers().is_empty());
}

#[test]
fn garbage_in_place_of_a_greeting() {
    let desk = Desk::new(short());
    let mut version = bytes(&hello(1, Role::Worker(worker(0))));
    version[5] = 9;
    let other_message = bytes(&remind(0));
    let too_long = 0x7fff_ffffu32.to_be_bytes();
    for garbage in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 64], &[0xff; 64], &version, &other_message, &too_long]
    {
        let mut stranger = desk.stranger();
        stranger.write_all(garbage).unwrap();
        stranger.flush().unwrap();
        assert_eq!(hear(&mut stranger), Some(Answer::Refused(Refusal::Hello)), "{garbage:?}");
        assert!(is_closed(&mut stranger));
    }
    // Nor is what begins without encryption, a greeting among it, or a peer of an unknown job.
    for plain in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), bytes(&hello(1, Role::Server)).to_vec()] {
        let mut stranger = desk.plain();
        stranger.write_all(&plain).unwrap();
        assert!(is_closed(&mut stranger));
    }
    assert_eq!(desk.until(|stats| stats.garbage == 8).unknown_job, 0);
    drop(desk.stranger_with(9, TOKEN));
    assert_eq!(desk.until(|stats| stats.unknown_job == 1).garbage, 8);
    drop(desk.stranger_with(1, Token([8; 16])));
    assert_eq!(desk.until(|stats| stats.forged == 1).garbage, 8);
    // Other peers are served as before.
    desk.guest(0);
}

#[test]
fn garbage_from_an_admitted_peer() {
    let mut desk = Desk::new(short());
    let wrong_direction = bytes(&ToWorker::Dismissed);
    let long = 5000u32.to_be_bytes();
    let other_v = FromWorker::Values {
        sequence: Sequence(0),
        values: Values { float: false, payload: vec![0; 8].into() },
    };
    let other_v = bytes(&other_v);
    for garbage in [&wrong_direction[..], &[0, 0, 0, 1, 99], &[0; 4], &long, &other_v] {
        let mut guest = desk.guest(0);
        say(&mut guest, &remind(1));
        guest.write_all(garbage).unwrap();
        guest.flush().unwrap();
        say(&mut guest, &remind(2));
        assert!(is_closed(&mut guest), "{garbage:?}");
        assert_eq!(desk.next(), Incoming::Opened(peer(0)));
        assert_eq!(desk.next(), Incoming::Worker(job(1), worker(0), remind(1)));
        assert_eq!(desk.next(), Incoming::Closed(peer(0)), "nothing behind the garbage is heard");
    }
    assert_eq!(desk.hub.stats().garbage, 5);
}

#[test]
fn connections_without_a_complete_greeting_are_closed_in_time() {
    let desk = Desk::new(short());
    let start = Instant::now();
    let mut silent = desk.plain();
    let mut half = desk.stranger();
    half.write_all(&bytes(&hello(1, Role::Worker(worker(0))))[..10]).unwrap();
    half.flush().unwrap();
    drop(desk.stranger());
    assert!(is_closed(&mut silent) && is_closed(&mut half));
    assert!(start.elapsed() >= Duration::from_millis(150), "{:?}", start.elapsed());
    desk.until(|stats| stats.silent == 3);
    assert_eq!(desk.hub.stats().welcomed, 0);
}

#[test]
fn connections_beyond_the_limit_are_closed_and_delay_others_briefly() {
    let desk = Desk::new(short());
    let mut crowd: Vec<_> = (0..20).map(|_| desk.plain()).collect();
    let stats = desk.until(|stats| stats.connections == 20);
    assert_eq!(stats.crowded, 16);
    for stranger in &mut crowd {
        assert!(is_closed(stranger));
    }
    desk.until(|stats| stats.silent == 4);
    desk.guest(1);
}

#[test]
fn a_peer_that_stops_in_the_middle_of_a_message() {
    let mut desk = Desk::new(short());
    let mut guest = desk.guest(0);
    let message = bytes(&FromWorker::Result { sequence: Sequence(1), values: values(1) });
    guest.write_all(&message).unwrap();
    // Silence between two messages is not a fault.
    std::thread::sleep(2 * short().progress);
    let (begin, end) = message.split_at(9);
    guest.write_all(begin).unwrap();
    std::thread::sleep(short().progress / 3);
    guest.write_all(end).unwrap();
    guest.write_all(begin).unwrap();
    assert!(is_closed(&mut guest));
    assert_eq!(desk.next(), Incoming::Opened(peer(0)));
    for _ in 0..2 {
        assert!(matches!(desk.next(), Incoming::Worker(.., FromWorker::Result { .. })));
    }
    assert_eq!(desk.next(), Incoming::Closed(peer(0)));
    assert_eq!(desk.hub.stats().stalled, 1);
}

#[test]
fn a_peer_that_does_not_read_is_disconnected_and_others_are_served() {
    let mut desk = Desk::new(short());
    let stalled = desk.guest(0);
    let mut link = desk.link(1);
    assert_eq!(event(&mut link), LinkEvent::Opened);
    let result = ToWorker::Result { sequence: Sequence(1), values: values(9) };
    // The kernel's buffers fill, then the queue; nothing blocks.
    let mut accepted = 0u64;
    let start = Instant::now();
    while desk.hub.send_worker(job(1), worker(0), &result) {
        accepted += 1;
        if accepted.is_multiple_of(1000) {
            assert!(desk.hub.send_worker(job(1), worker(1), &result));
            assert_eq!(event(&mut link), LinkEvent::Message(result.clone()));
        }
        assert!(start.elapsed() < crate::common::PATIENCE);
    }
    desk.until(|stats| stats.stalled == 1);
    let mut seen = Vec::new();
    while !seen.contains(&Incoming::Closed(peer(0))) {
        seen.push(desk.next());
    }
    assert!(!desk.hub.send_worker(job(1), worker(0), &result));
    assert!(desk.hub.send_worker(job(1), worker(1), &result));
    drop(stalled);
}

#[test]
fn a_peer_that_leaves_a_few_bytes_unread_is_disconnected_in_time() {
    let mut desk = Desk::new(Limits { outgoing: 64 << 20, ..short() });
    let stalled = desk.guest(0);
    // More than the kernel accepts, less than the queue does.
    let result = ToWorker::Result { sequence: Sequence(1), values: values(9) };
    for _ in 0..1_000_000 {
        assert!(desk.hub.send_worker(job(1), worker(0), &result) || desk.hub.stats().stalled == 1);
    }
    desk.until(|stats| stats.stalled == 1);
    assert_eq!(desk.next(), Incoming::Opened(peer(0)));
    assert_eq!(desk.next(), Incoming::Closed(peer(0)));
    drop(stalled);
}

#[test]
fn a_slow_endpoint_delays_its_peers_and_loses_nothing() {
    let mut desk = Desk::new(short());
    let mut link = desk.link_with(hello(1, Role::Worker(worker(0))), Limits::default());
    assert_eq!(event(&mut link), LinkEvent::Opened);
    const MESSAGES: u32 = 200_000;
    let mut sent = 0;
    let mut heard = 0;
    assert_eq!(desk.next(), Incoming::Opened(peer(0)));
    while heard < MESSAGES {
        while sent < MESSAGES && link.has_room() {
            assert!(link.send(&remind(sent)));
            sent += 1;
        }
        assert_eq!(desk.next(), Incoming::Worker(job(1), worker(0), remind(heard)));
        heard += 1;
    }
    assert_eq!(desk.hub.stats().stalled, 0);
}

#[test]
fn a_second_connection_of_a_peer_replaces_the_first() {
    let mut desk = Desk::new(short());
    let mut first = desk.guest(0);
    let mut second = desk.guest(0);
    assert!(is_closed(&mut first));
    desk.hub.send_worker(job(1), worker(0), &ToWorker::Dismissed);
    assert_eq!(hear(&mut second), Some(ToWorker::Dismissed));
    say(&mut second, &remind(4));
    assert_eq!(desk.next(), Incoming::Opened(peer(0)));
    assert_eq!(desk.next(), Incoming::Opened(peer(0)), "the first was not said to be closed");
    assert_eq!(desk.next(), Incoming::Worker(job(1), worker(0), remind(4)));
    drop(second);
    assert_eq!(desk.next(), Incoming::Closed(peer(0)));
    let stats = desk.hub.stats();
    assert_eq!((stats.welcomed, stats.replaced), (2, 1));
}

#[test]
fn jobs_come_and_go() {
    let mut desk = Desk::new(short());
    let mut link = desk.link_with(hello(2, Role::Worker(worker(0))), short());
    assert_eq!(event(&mut link), LinkEvent::Refused(Refusal::Job));
    assert!(link.trouble().unwrap().contains("does not serve the job"), "{:?}", link.trouble());
    desk.hub.add_job(served(2));
    while event(&mut link) != LinkEvent::Opened {}
    assert_eq!(link.trouble(), None);
    let its = Peer { job: job(2), role: Role::Worker(worker(0)) };
    assert_eq!(desk.next(), Incoming::Opened(its));
    let guest = desk.guest(0);
    assert_eq!(desk.next(), Incoming::Opened(peer(0)));

    desk.hub.remove_job(job(2));
    assert_eq!(event(&mut link), LinkEvent::Closed);
    assert_eq!(desk.next(), Incoming::Closed(its));
    assert_eq!(event(&mut link), LinkEvent::Refused(Refusal::Job));
    // With a different token.
    desk.hub.add_job(tributary_endpoint::driver::channel::HubJob {
        token: Token([8; 16]),
        ..served(2)
    });
    while event(&mut link) != LinkEvent::Refused(Refusal::Token) {}
    assert_eq!(desk.hub.peers(), [peer(0)], "the other job's peer is still there");
    drop(guest);
}

#[test]
fn many_peers_at_once() {
    const JOBS: u16 = 8;
    let mut desk = Desk::new(Limits::default());
    for number in 1..=JOBS {
        desk.hub
            .add_job(tributary_endpoint::driver::channel::HubJob { workers: 32, ..served(number) });
    }
    let mut links = Vec::new();
    for number in 1..=JOBS {
        for index in 0..32 {
            let hello = hello(number, Role::Worker(worker(index)));
            links.push((number, index, desk.link_with(hello, Limits::default())));
        }
    }
    for (.., link) in &mut links {
        assert_eq!(event(link), LinkEvent::Opened);
    }
    for (number, index, link) in &mut links {
        let sequence = u32::from(*number) << 8 | u32::from(*index);
        assert!(link.send(&remind(sequence)));
    }
    let mut left = links.len();
    while left > 0 {
        match desk.next() {
            Incoming::Opened(_) => {}
            Incoming::Worker(job, worker, message) => {
                let sequence = u32::from(job.get()) << 8 | u32::from(worker.get());
                assert_eq!(message, remind(sequence), "it comes from who sent it");
                let query = ToWorker::Query { sequence: Sequence(sequence), float: false };
                assert!(desk.hub.send_worker(job, worker, &query));
                left -= 1;
            }
            other => panic!("{other:?}"),
        }
    }
    for (number, index, link) in &mut links {
        let sequence = Sequence(u32::from(*number) << 8 | u32::from(*index));
        let query = ToWorker::Query { sequence, float: false };
        assert_eq!(event(link), LinkEvent::Message(query));
    }
    assert_eq!(desk.hub.peers().len(), usize::from(JOBS) * 32);
}
