//! Values that are too large, and the ladder of scales.

use tributary_protocol::worker::{Event, Failure, SubmitError};
use tributary_protocol::{Endpoint, Tensor, Worker};
use tributary_wire::Sequence;

use super::{NONE, OVERFLOW, RESEND, floats, fresh, loaded, result, sums};
use crate::p4inc::setup::{LOCAL, Setup, rounds, sent, us};

#[test]
fn values_that_do_not_fit_are_sent_as_zeros_and_again_at_the_next_rung() {
    // At scale 1000 and with three workers, values up to 715 827 882 fit: 7e5 does, 1e7 needs 2^4,
    // and the others need further rungs in turn.
    for (value, rung) in
        [(7e5, 0), (1e7, 1), (1e8, 2), (2e9, 3), (1e12, 4), (1e20, 5), (1e30, 6), (3e38, 7)]
    {
        let mut worker = floats(LOCAL, [1.0, value]);
        for step in 0..rung {
            let all = sent(&mut worker, us(step));
            assert_eq!(all.len(), 1, "{value} at rung {step}");
            assert_eq!(all[0].short(), (0, step as u8, OVERFLOW));
            assert_eq!(all[0].words, [0, 0]);
            assert_eq!(all[0].repr.index, LOCAL.index(0));
            result(&mut worker, LOCAL, step, (0, step as u8), OVERFLOW);
            assert!(sums(&mut worker).is_empty());
        }
        let all = sent(&mut worker, us(9));
        assert_eq!((all.len(), all[0].short()), (1, (0, rung as u8, NONE)), "{value}");
        let divisor = 2f64.powi([0, 4, 8, 16, 32, 64, 96, 128][rung as usize]);
        let scaled = (f64::from(value) * 1000.0 / divisor).round_ties_even();
        assert_eq!(f64::from(all[0].words[1]), scaled);
        result(&mut worker, LOCAL, 9, (0, rung as u8), NONE);
        let sum = (500.0 / (1000.0 / divisor)) as f32;
        assert_eq!(sums(&mut worker), [Tensor::F32(vec![sum, -sum].into())]);
        let stats = worker.stats();
        assert_eq!((stats.coarser, stats.overflow_packets, stats.results), (rung, rung, 1));
    }
}

#[test]
fn workers_whose_values_fit_also_repeat_and_repeats_ignore_the_window() {
    let mut config = LOCAL.papers(1);
    config.initial_window = Some(1);
    let mut worker = Worker::new(config).unwrap();
    worker.submit(Tensor::F32(vec![1.0; 6].into())).unwrap();
    assert_eq!(rounds(&mut worker, us(0)), fresh([0]));
    result(&mut worker, LOCAL, 1, (0, 0), OVERFLOW);
    // The window has grown to two: the repeat, without RESEND, and one new fragment.
    assert_eq!(rounds(&mut worker, us(1)), [(0, 1, NONE), (1, 0, NONE)]);
    assert_eq!(worker.outstanding().start, Sequence(1));
    // Fragment 0 is not complete: the window ends there.
    result(&mut worker, LOCAL, 2, (1, 0), NONE);
    assert_eq!(rounds(&mut worker, us(2)), fresh([2]));
    assert_eq!(worker.outstanding().start, Sequence(1));
    // A lost repeat is sent again.
    let at = us(50_000);
    worker.handle_timeout(at);
    assert_eq!(rounds(&mut worker, at)[0], (0, 1, RESEND));
}

#[test]
fn a_result_counts_for_its_round_only() {
    let mut worker = floats(LOCAL, [1.0, 2.0]);
    sent(&mut worker, us(0));
    // Never sent, so no valid result exists.
    result(&mut worker, LOCAL, 1, (0, 1), NONE);
    result(&mut worker, LOCAL, 1, (1, 0), NONE);
    assert_eq!((worker.stats().unsent, worker.stats().results), (2, 0));
    result(&mut worker, LOCAL, 2, (0, 0), OVERFLOW);
    // This round is complete, and the next one has not been sent yet.
    result(&mut worker, LOCAL, 3, (0, 0), OVERFLOW);
    result(&mut worker, LOCAL, 3, (0, 0), NONE);
    result(&mut worker, LOCAL, 3, (0, 1), NONE);
    assert_eq!((worker.stats().unsent, worker.stats().duplicates), (3, 2));
    assert_eq!(rounds(&mut worker, us(4)), [(0, 1, NONE)]);
    result(&mut worker, LOCAL, 5, (0, 1), NONE);
    assert_eq!(sums(&mut worker), [Tensor::F32(vec![8.0, -8.0].into())]);
}

#[test]
fn workers_that_cannot_climb_give_up() {
    let mut worker = loaded(LOCAL, 1);
    sent(&mut worker, us(0));
    result(&mut worker, LOCAL, 1, (0, 0), OVERFLOW);
    let failure = Failure::KindMismatch { sequence: Sequence(0) };
    assert_eq!((worker.failure(), worker.poll_timeout()), (Some(failure), None));
    let mut worker = floats(LOCAL, [1.0, 2.0]);
    for rung in 0..8 {
        sent(&mut worker, us(0));
        result(&mut worker, LOCAL, 1, (0, rung), OVERFLOW);
    }
    let failure = Failure::OffLadder { sequence: Sequence(7) };
    assert_eq!(
        (worker.failure(), worker.poll_event()),
        (Some(failure), Some(Event::Failed(failure)))
    );
}

#[test]
fn values_beyond_the_last_rung_are_rejected_with_their_position() {
    let setup = Setup { scale: 1e9, ..LOCAL };
    let mut worker = Worker::new(setup.papers(0)).unwrap();
    let error = worker.submit(Tensor::F32(vec![1.0, -3e38].into())).unwrap_err();
    assert_eq!(error, SubmitError::OffLadder { position: 1, value: -3e38 });
    assert!(worker.submit(Tensor::F32(vec![1.0, -2e38].into())).is_ok());
}

#[test]
fn an_unsent_repeat_is_not_marked_as_lost() {
    let mut worker = Worker::new(LOCAL.papers(1)).unwrap();
    worker.submit(Tensor::F32(vec![1.0; 16].into())).unwrap();
    assert_eq!(rounds(&mut worker, us(0)), fresh(0..8));
    result(&mut worker, LOCAL, 1, (0, 0), OVERFLOW);
    for fragment in 1..6 {
        result(&mut worker, LOCAL, 1, (fragment, 0), NONE);
    }
    assert_eq!((worker.stats().fast_resends, worker.window()), (0, 8));
    assert_eq!(rounds(&mut worker, us(2)), [(0, 1, NONE)]);
    // Only results after its transmission count: two later results do not suffice.
    result(&mut worker, LOCAL, 3, (6, 0), NONE);
    result(&mut worker, LOCAL, 3, (7, 0), NONE);
    assert_eq!((rounds(&mut worker, us(3)), worker.stats().fast_resends), (vec![], 0));
}
