//! The default loss detection of a worker, packet by packet.

use tributary_protocol::{Endpoint, JobConfig, Tensor, Worker};
use tributary_wire::{Flags, Kind};

use crate::network::frames::{frame, repr, sent, us};
use crate::network::net::Setup;

/// A worker with `fragments` fragments, which has sent those in its window.
fn loaded(fragments: usize) -> (Worker, JobConfig) {
    let setup = Setup { values: 2, slots: 32, ..Setup::default() };
    let mut worker = Worker::new(setup.worker(0, 1)).unwrap();
    worker.submit(Tensor::I32(vec![1; 2 * fragments].into())).unwrap();
    (worker, setup.job(0))
}

/// Sequences and flags of the packets that the worker sends now.
fn sends(worker: &mut Worker, micros: u64) -> Vec<(u32, Flags)> {
    sent(worker, us(micros)).iter().map(|s| (s.repr.sequence.0, s.repr.flags)).collect()
}

fn result(worker: &mut Worker, micros: u64, sequence: u32) {
    let job = worker.config().job;
    let repr = repr(&job, Kind::Parameter, sequence, 0b111, Flags::NONE);
    worker.handle_frame(us(micros), &frame(&repr, &[3, 3]));
}

/// Lets its timers fire up to a time. Returns what it sent, and when.
fn wait(worker: &mut Worker, until: u64) -> Vec<(u64, Vec<u32>)> {
    let mut all = Vec::new();
    while let Some(at) = worker.poll_timeout().filter(|at| *at <= us(until)) {
        worker.handle_timeout(at);
        let sequences: Vec<_> = sent(worker, at).iter().map(|s| s.repr.sequence.0).collect();
        if !sequences.is_empty() {
            all.push((at.as_nanos() / 1000, sequences));
        }
    }
    all
}

/// The next packets that its timers cause, and when.
fn probe(worker: &mut Worker) -> (u64, Vec<u32>) {
    loop {
        let at = worker.poll_timeout().unwrap().as_nanos() / 1000;
        if let Some(probe) = wait(worker, at + 1).pop() {
            return probe;
        }
    }
}

#[test]
fn an_answered_later_transmission_marks_earlier_ones_as_lost() {
    let (mut worker, _) = loaded(6);
    assert_eq!(sends(&mut worker, 0).len(), 6);
    // One later result suffices after a quarter of a round trip, because packets may be reordered.
    result(&mut worker, 20, 2);
    assert_eq!(sends(&mut worker, 20), []);
    assert_eq!(wait(&mut worker, 25), [(25, vec![0, 1])]);
    // These and other fragments are lost again: each is detected separately one round trip later.
    result(&mut worker, 30, 5);
    let again = wait(&mut worker, 40);
    assert_eq!(again, [(35, vec![3, 4])], "0 and 1 were sent after 5 was");
    assert_eq!(worker.stats().fast_resends, 4);
    assert_eq!(worker.window(), 32, "losses are no congestion");
}

#[test]
fn a_loss_halves_the_window_if_all_results_are_marked() {
    let setup = Setup { values: 2, slots: 16, initial_window: Some(8), ..Setup::default() };
    let mut worker = Worker::new(setup.worker(0, 1)).unwrap();
    worker.submit(Tensor::I32(vec![1; 64].into())).unwrap();
    sends(&mut worker, 0);
    for sequence in 1..=8 {
        let repr = repr(&setup.job(0), Kind::Parameter, sequence, 0b111, Flags::ECN);
        let now = 20 + u64::from(sequence) / 8;
        worker.handle_frame(us(now), &frame(&repr, &[3, 3]));
        sends(&mut worker, 20);
    }
    assert!(worker.stats().fast_resends > 0);
    assert_eq!(worker.window(), 3, "marks reduce it to 7, and the loss halves that");
}

#[test]
fn the_second_resend_goes_around_the_switch() {
    let (mut worker, _) = loaded(4);
    sends(&mut worker, 0);
    result(&mut worker, 20, 3);
    worker.handle_timeout(us(25));
    assert_eq!(sends(&mut worker, 25), [0, 1, 2].map(|sequence| (sequence, Flags::NONE)));
    // The answered transmission of 2 is ambiguous, so earlier fragments get another round trip.
    result(&mut worker, 50, 2);
    assert_eq!(sends(&mut worker, 50), []);
    assert_eq!(wait(&mut worker, 79), []);
    worker.handle_timeout(us(80));
    assert_eq!(sends(&mut worker, 80), [0, 1].map(|sequence| (sequence, Flags::RESEND)));
    assert_eq!(worker.stats().resent, 5);
}

#[test]
fn silence_is_probed_with_the_lowest_and_the_highest() {
    let (mut worker, _) = loaded(6);
    sends(&mut worker, 0);
    result(&mut worker, 100, 0);
    // Three round trips; after the first probe the interval doubles, up to sixteen-fold.
    let probes = wait(&mut worker, 20_000);
    let times: Vec<_> = probes.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [400, 700, 1300, 2500, 4900, 9700, 14_500, 19_300]);
    assert!(probes.iter().all(|(_, sequences)| *sequences == [1, 5]), "{probes:?}");
    assert_eq!((worker.stats().timeouts, worker.window()), (8, 32));
}

/// All packets above 0 were lost, and other workers have not sent the highest fragment: only what all
/// resend is answered.
#[test]
fn probes_grow_while_nothing_else_is_answered() {
    let (mut worker, _) = loaded(32);
    sends(&mut worker, 0);
    result(&mut worker, 100, 0);
    for lowest in [1..2_u32, 2..4, 4..8, 8..16, 16..31] {
        let (at, sequences) = probe(&mut worker);
        assert_eq!(sequences, lowest.clone().chain([31]).collect::<Vec<_>>());
        lowest.for_each(|sequence| result(&mut worker, at + 100, sequence));
    }
    // As soon as a first transmission is answered, losses are found in other ways again.
    let (mut worker, _) = loaded(32);
    sends(&mut worker, 0);
    result(&mut worker, 100, 0);
    let (at, sequences) = probe(&mut worker);
    assert_eq!(sequences, [1, 31]);
    result(&mut worker, at + 10, 1);
    result(&mut worker, at + 20, 2);
    assert_eq!(probe(&mut worker).1, [3, 31]);
}

#[test]
fn scheduling_delay_does_not_slow_down_the_next_probes() {
    let (mut worker, _) = loaded(6);
    sends(&mut worker, 0);
    result(&mut worker, 100, 0);
    assert_eq!(worker.poll_timeout(), Some(us(400)));
    // The worker was not scheduled for 2 ms, and its driver has passed in what arrived meanwhile: a
    // result. The silence begins with it.
    result(&mut worker, 2400, 1);
    worker.handle_timeout(us(2400));
    assert_eq!(sends(&mut worker, 2400), []);
    assert_eq!(worker.poll_timeout(), Some(us(2700)));
    // Late again, and nothing has arrived: it probes now, and after the usual time once more.
    worker.handle_timeout(us(5000));
    assert_eq!(sends(&mut worker, 5000).len(), 2);
    assert_eq!(worker.poll_timeout(), Some(us(5300)));
}
