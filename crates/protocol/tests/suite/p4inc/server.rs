//! Unit tests of the parameter server.

use std::time::Duration;

use tributary_protocol::server::{ParameterServer, Stats};
use tributary_protocol::{ConfigError, Endpoint, Recovery, Time};
use tributary_wire::agg::Repr;
use tributary_wire::{AggregatorIndex, Bitmap, Epoch, Flags, Host, Kind, Protocol, Sequence};

use crate::p4inc::setup::{
    FORWARDED, JOB, LOCAL, PARTIAL, SWITCHML, Sent, Setup, frame, host, sent, us,
};

const NONE: Flags = Flags::NONE;
const RESEND: Flags = Flags::RESEND;
const OVERFLOW: Flags = Flags::OVERFLOW;
const EVERYONE: u32 = 0b111;

fn server(setup: Setup) -> ParameterServer {
    let mut config = setup.server();
    config.timing.recovery = Recovery::Papers;
    ParameterServer::new(config).unwrap()
}

/// Handles a gradient and returns the frames that the PS sends.
fn gradient(
    server: &mut ParameterServer,
    setup: Setup,
    round: (u32, u8),
    bitmap: u32,
    flags: Flags,
    value: i32,
) -> Vec<Sent> {
    let repr = Repr { flags, ..setup.repr(Kind::Gradient, round, bitmap) };
    server.handle_frame(us(1), &frame(&repr, &[value, -value]));
    sent(server, us(1))
}

#[test]
fn sums_of_units_and_gradients_of_workers_complete_a_result() {
    for setup in [PARTIAL, FORWARDED] {
        let mut server = server(setup);
        assert!(gradient(&mut server, setup, (5, 0), 0b011, NONE, 10).is_empty());
        let all = gradient(&mut server, setup, (5, 0), 0b100, Flags::ECN, 7);
        assert_eq!(all.len(), 1);
        let expected = Repr { flags: Flags::ECN, ..setup.repr(Kind::Parameter, (5, 0), EVERYONE) };
        assert_eq!((all[0].repr, &all[0].words[..]), (expected, &[17, -17][..]));
        let envelope = all[0].envelope;
        assert_eq!((envelope.source, envelope.destination), (host(100), Host::group(JOB)));
    }
}

#[test]
fn overlapping_gradients_are_dropped_and_queried() {
    let mut server = server(PARTIAL);
    gradient(&mut server, PARTIAL, (0, 0), 0b001, RESEND, 1);
    let all = gradient(&mut server, PARTIAL, (0, 0), 0b011, NONE, 3);
    let asked: Vec<_> = all.iter().map(|s| (s.repr, s.envelope.destination)).collect();
    let query = |bit| PARTIAL.repr(Kind::Query, (0, 0), bit);
    assert_eq!(asked, [(query(0b010), host(1)), (query(0b100), host(2))]);
    gradient(&mut server, PARTIAL, (0, 0), 0b010, RESEND, 2);
    let all = gradient(&mut server, PARTIAL, (0, 0), 0b100, NONE, 4);
    assert_eq!(all[0].words, [7, -7]);
    assert_eq!((server.stats().overlaps, server.stats().completed), (1, 1));
}

#[test]
fn resends_of_a_finished_round_get_a_reply() {
    let mut server = server(PARTIAL);
    gradient(&mut server, PARTIAL, (0, 0), EVERYONE, NONE, 9);
    assert!(gradient(&mut server, PARTIAL, (0, 0), 0b011, NONE, 3).is_empty());
    let all = gradient(&mut server, PARTIAL, (0, 0), 0b011, RESEND | Flags::ECN, 3);
    let replies: Vec<_> =
        all.iter().map(|s| (s.repr, s.envelope.destination, s.words[0])).collect();
    let reply = PARTIAL.repr(Kind::Reply, (0, 0), EVERYONE);
    assert_eq!(replies, [(reply, host(0), 9), (reply, host(1), 9)]);
    assert_eq!((server.stats().duplicates, server.stats().replies), (2, 2));
}

#[test]
fn overflow_makes_the_next_rung_due_and_otherwise_the_next_fragment() {
    let mut server = server(PARTIAL);
    gradient(&mut server, PARTIAL, (3, 0), 0b001, OVERFLOW, 0);
    let all = gradient(&mut server, PARTIAL, (3, 0), 0b110, NONE, 5);
    assert_eq!(all[0].short(), (3, 0, OVERFLOW));
    // Neither the slot's next fragment nor a further rung is due.
    for round in [(11, 0), (3, 2)] {
        assert!(gradient(&mut server, PARTIAL, round, EVERYONE, NONE, 5).is_empty());
    }
    assert_eq!(server.stats().out_of_window, 2);
    // Still integers, also from several workers at once.
    gradient(&mut server, PARTIAL, (3, 1), 0b011, OVERFLOW, 0);
    assert_eq!(gradient(&mut server, PARTIAL, (3, 1), 0b100, NONE, 1)[0].short(), (3, 1, OVERFLOW));
    // Workers that missed the result of the preceding rung are served until this rung is complete,
    // and no longer.
    assert!(gradient(&mut server, PARTIAL, (3, 0), 0b100, RESEND, 5).is_empty());
    assert_eq!(server.stats().stale, 1);
    gradient(&mut server, PARTIAL, (3, 2), 0b001, NONE, 1);
    assert_eq!(
        gradient(&mut server, PARTIAL, (3, 1), 0b100, RESEND, 1)[0].short(),
        (3, 1, OVERFLOW)
    );
    let all = gradient(&mut server, PARTIAL, (3, 2), 0b110, NONE, 5);
    assert_eq!((all[0].short(), &all[0].words[..]), ((3, 2, NONE), &[6, -6][..]));
    assert!(gradient(&mut server, PARTIAL, (3, 3), EVERYONE, NONE, 5).is_empty());
    assert_eq!(
        gradient(&mut server, PARTIAL, (11, 0), EVERYONE, NONE, 5)[0].short(),
        (11, 0, NONE)
    );
    assert_eq!((server.stats().overflow_tasks, server.stats().completed), (2, 4));
}

#[test]
fn the_last_rung_is_always_followed_by_the_next_fragment() {
    let mut server = server(PARTIAL);
    for rung in 0..8 {
        gradient(&mut server, PARTIAL, (0, rung), EVERYONE, OVERFLOW, 0);
    }
    assert_eq!(gradient(&mut server, PARTIAL, (8, 0), EVERYONE, NONE, 1)[0].short(), (8, 0, NONE));
}

#[test]
fn a_server_started_between_iterations_learns_the_due_tasks() {
    let mut server = server(FORWARDED);
    // A late packet of an iteration that another server had is assumed to be due, until a later one
    // arrives.
    gradient(&mut server, FORWARDED, (800, 1), 0b001, NONE, 100);
    gradient(&mut server, FORWARDED, (1600, 0), 0b010, NONE, 2);
    gradient(&mut server, FORWARDED, (800, 0), 0b100, RESEND, 100);
    gradient(&mut server, FORWARDED, (1600, 0), 0b001, NONE, 1);
    let all = gradient(&mut server, FORWARDED, (1600, 0), 0b100, NONE, 4);
    assert_eq!((all[0].short(), &all[0].words[..]), ((1600, 0, NONE), &[7, -7][..]));
    assert_eq!((server.stats().stale, server.pending_tasks()), (1, 0));
    // From there on the due task is certain.
    gradient(&mut server, FORWARDED, (1616, 0), 0b001, NONE, 1);
    assert_eq!(server.stats().out_of_window, 1);
}

#[test]
fn late_packets_of_the_old_assignment_are_recognised() {
    let mut server = server(PARTIAL);
    gradient(&mut server, PARTIAL, (0, 0), EVERYONE, NONE, 1);
    gradient(&mut server, PARTIAL, (8, 0), 0b001, NONE, 1);
    server.reassign(FORWARDED.assignment()).unwrap();
    assert_eq!((server.pending_tasks(), server.poll_timeout()), (0, None));
    assert!(gradient(&mut server, PARTIAL, (8, 0), 0b001, RESEND, 1).is_empty());
    assert_eq!(server.stats().rejected.other_service, 1);
    let all = gradient(&mut server, FORWARDED, (9, 0), EVERYONE, NONE, 1);
    assert_eq!(all[0].repr, FORWARDED.repr(Kind::Parameter, (9, 0), EVERYONE));
    let mut bad = PARTIAL.assignment();
    bad.segment.offset = AggregatorIndex(u32::MAX);
    assert!(matches!(server.reassign(bad), Err(ConfigError::Segment { .. })));
    assert_eq!(server.config().job.assignment, FORWARDED.assignment());
    // Late packets of earlier forwarded iterations. The due task lies beyond.
    server.reassign(PARTIAL.assignment()).unwrap();
    server.reassign(FORWARDED.assignment()).unwrap();
    assert!(gradient(&mut server, FORWARDED, (9, 0), EVERYONE, RESEND, 1).is_empty());
    assert_eq!((server.stats().stale, server.pending_tasks()), (1, 0));
    assert_eq!(gradient(&mut server, FORWARDED, (25, 0), EVERYONE, NONE, 1).len(), 1);
    // In a local job the PS does nothing.
    server.reassign(LOCAL.assignment()).unwrap();
    assert!(gradient(&mut server, LOCAL, (17, 0), EVERYONE, NONE, 1).is_empty());
    assert_eq!(server.stats().rejected.other_service, 2);
    let error = ParameterServer::new(SWITCHML.server()).unwrap_err();
    assert_eq!(error, ConfigError::Protocol(Protocol::SwitchMl));
}

/// Selects a counter.
type Counter = fn(&Stats) -> u64;

#[test]
fn packets_that_are_not_the_jobs_change_nothing() {
    let good = PARTIAL.repr(Kind::Gradient, (0, 0), 0b001);
    let wrong: [(Repr, Counter); 10] = [
        (Repr { priority: 16, ..good }, |s| s.rejected.other_service),
        (Repr { priority: 0, ..good }, |s| s.rejected.other_service),
        (Repr { epoch: Epoch::new(4).unwrap(), ..good }, |s| s.rejected.other_run),
        (Repr { protocol: Protocol::Atp, ..good }, |s| s.rejected.other_protocol),
        (Repr { kind: Kind::Asynchronous, ..good }, |s| s.rejected.wrong_kind),
        (Repr { kind: Kind::Parameter, ..good }, |s| s.rejected.wrong_kind),
        (Repr { values: 3, ..good }, |s| s.rejected.wrong_values),
        (Repr { bitmap: Bitmap(0b1001), ..good }, |s| s.rejected.wrong_bitmap),
        (Repr { bitmap: Bitmap(0), ..good }, |s| s.rejected.wrong_bitmap),
        (Repr { index: AggregatorIndex(15), ..good }, |s| s.rejected.wrong_index),
    ];
    let mut server = server(PARTIAL);
    for (repr, counter) in wrong {
        let before = counter(server.stats());
        server.handle_frame(us(1), &frame(&repr, &[1, 2, 3][..usize::from(repr.values)]));
        assert_eq!(counter(server.stats()), before + 1, "{repr:?}");
        assert!(sent(&mut server, us(1)).is_empty() && server.pending_tasks() == 0, "{repr:?}");
    }
}

#[test]
fn tasks_that_wait_are_asked_for_after_a_timeout() {
    let mut server = server(PARTIAL);
    gradient(&mut server, PARTIAL, (2, 0), 0b001, NONE, 1);
    let at = server.poll_timeout().unwrap();
    server.handle_timeout(at);
    let all = sent(&mut server, at);
    let asked: Vec<_> = all.iter().map(|s| s.repr).collect();
    assert_eq!(asked, [0b010, 0b100].map(|bit| PARTIAL.repr(Kind::Query, (2, 0), bit)));
    assert_eq!(server.stats().timeouts, 1);
    assert_eq!(all[0].repr.sequence, Sequence(16));
}

/// How long after its first gradient a server asks for the rest of a fragment, and when it does.
fn asks(server: &mut ParameterServer, fragment: u32, begin: Time) -> (Duration, Time) {
    let before = server.stats().timeouts;
    contribute(server, fragment, begin, (0b001, NONE));
    loop {
        let at = server.poll_timeout().expect("it waits").max(begin);
        server.handle_timeout(at);
        sent(server, at);
        if server.stats().timeouts > before {
            return (at - begin, at);
        }
    }
}

fn contribute(server: &mut ParameterServer, fragment: u32, at: Time, packet: (u32, Flags)) {
    let (bitmap, flags) = packet;
    let repr = Repr { flags, ..FORWARDED.repr(Kind::Gradient, (fragment, 0), bitmap) };
    server.handle_frame(at, &frame(&repr, &[1, 1]));
    sent(server, at);
}

/// What it asked for was on its way: it asks later next time. What was sent again says nothing of that.
#[test]
fn a_server_that_asks_too_early_learns_it() {
    for (flags, learns) in [(NONE, true), (RESEND, false)] {
        let mut server = server(FORWARDED);
        // A quick fragment.
        contribute(&mut server, 0, us(10), (0b001, NONE));
        contribute(&mut server, 0, us(30), (0b110, NONE));
        // From here on, its timer is that of the fragment which waits.
        let (_, at) = asks(&mut server, 1, us(1_000));
        contribute(&mut server, 1, at, (0b110, RESEND));
        let (first, at) = asks(&mut server, 2, us(200_000));
        contribute(&mut server, 2, at + 20 * first, (0b110, flags));
        assert_eq!(server.stats().completed, 3);
        let (second, _) = asks(&mut server, 3, us(800_000));
        assert_eq!(second > 2 * first, learns, "{first:?}, then {second:?}");
        assert_eq!(second == first, !learns, "{first:?}, then {second:?}");
    }
}
