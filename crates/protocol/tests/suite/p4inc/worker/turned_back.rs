//! Asynchronous errors: packets that the switch returns.

use tributary_protocol::{Endpoint, Tensor, Worker};
use tributary_wire::agg::Repr;
use tributary_wire::{Flags, Kind};

use super::{NONE, OVERFLOW, RESEND, WIDE, floats, loaded, result};
use crate::p4inc::setup::{Setup, frame, rounds, us};

fn turned_back(worker: &mut Worker, setup: Setup, micros: u64, round: (u32, u8)) {
    let repr = Repr { flags: Flags::ECN, ..setup.repr(Kind::Asynchronous, round, 0b010) };
    worker.handle_frame(us(micros), &frame(&repr, &[0, 0]));
}

#[test]
fn a_returned_packet_halves_the_window_once_and_is_resent_when_the_aggregator_is_free() {
    let mut worker = loaded(WIDE, 40);
    assert_eq!(rounds(&mut worker, us(0)).len(), 16);
    for fragment in [8, 9, 15] {
        turned_back(&mut worker, WIDE, 1, (fragment, 0));
    }
    assert_eq!((worker.stats().asynchronous, worker.window()), (3, 8));
    assert_eq!(rounds(&mut worker, us(1)), []);
    // Fragment 1 preceded 9 in its aggregator.
    result(&mut worker, WIDE, 2, (1, 0), NONE);
    assert_eq!(rounds(&mut worker, us(2)), [(9, 0, RESEND)]);
    // A fragment that must be repeated is not complete.
    let mut other = floats(WIDE, [1.0; 2]);
    other.submit(Tensor::F32(vec![1.0; 38].into())).unwrap();
    rounds(&mut other, us(0));
    turned_back(&mut other, WIDE, 1, (8, 0));
    result(&mut other, WIDE, 2, (0, 0), OVERFLOW);
    assert_eq!(rounds(&mut other, us(2)), [(0, 1, NONE)]);
    result(&mut other, WIDE, 3, (0, 1), NONE);
    assert_eq!(rounds(&mut other, us(3)), [(8, 0, RESEND)]);
}

#[test]
fn only_the_timeout_marks_a_returned_packet_as_lost() {
    let mut worker = loaded(WIDE, 16);
    rounds(&mut worker, us(0));
    turned_back(&mut worker, WIDE, 1, (8, 0));
    for fragment in 9..16 {
        result(&mut worker, WIDE, 2, (fragment, 0), NONE);
    }
    let again: Vec<u32> = rounds(&mut worker, us(3)).iter().map(|(f, ..)| *f).collect();
    assert_eq!(again, (0..8).collect::<Vec<_>>());
    // Returned repeatedly; only the timeout resends it.
    let mut now = us(4);
    for _ in 0..3 {
        for fragment in 0..9 {
            turned_back(&mut worker, WIDE, now.as_nanos() / 1000, (fragment, 0));
        }
        assert_eq!(rounds(&mut worker, now), []);
        now = worker.poll_timeout().unwrap();
        worker.handle_timeout(now);
        now = worker.poll_timeout().unwrap_or(now);
        worker.handle_timeout(now);
        assert_eq!(rounds(&mut worker, now), [(0, 0, RESEND)]);
    }
}

#[test]
fn a_packet_returned_late_is_resent_at_once_but_only_once() {
    let mut worker = loaded(WIDE, 16);
    rounds(&mut worker, us(0));
    result(&mut worker, WIDE, 1, (0, 0), NONE);
    turned_back(&mut worker, WIDE, 2, (8, 0));
    assert_eq!(rounds(&mut worker, us(2)), [(8, 0, RESEND)]);
    turned_back(&mut worker, WIDE, 3, (8, 0));
    assert_eq!(rounds(&mut worker, us(3)), []);
    assert_eq!(worker.window(), 8);
    // The window is halved again for packets sent after that.
    for fragment in 1..16 {
        result(&mut worker, WIDE, 4, (fragment, 0), NONE);
    }
    assert!(worker.is_idle());
    turned_back(&mut worker, WIDE, 5, (8, 0));
    assert_eq!((worker.stats().asynchronous, worker.stats().duplicates), (2, 1));
}
