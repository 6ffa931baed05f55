//! Groups of ranks that share memory, each rank a thread with its own mapping and connection.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use half::{bf16, f16};
use proptest::prelude::*;
use tributary_collective::memory::{Communicator, Memory};
use tributary_collective::settings::{self, NonFinite};
use tributary_collective::{Call, ElementType, Error, Group, Values};

use super::common::{
    TIMEOUT, check_late, is_average, leave_after_a_sum, lend, ones, reduce, reduce_all, wait,
    wait_for_a_late_rank,
};

/// Runs `work` at each rank of a group, and returns what each rank returned.
fn group<T: Send>(
    nonfinite: NonFinite,
    ranks: usize,
    work: impl Fn(usize, &Communicator) -> T + Sync,
) -> Vec<T> {
    let settings = settings::Group { nonfinite, ..settings::Group::default() };
    let memory = Memory::open(ranks, settings).unwrap();
    let description = memory.description();
    let barrier = Barrier::new(ranks);
    thread::scope(|scope| {
        let (work, barrier, description) = (&work, &barrier, &description);
        let run = move |rank, communicator: Communicator| {
            let result = work(rank, &communicator);
            barrier.wait();
            communicator.close();
            result
        };
        let first = Communicator::first(memory, ranks, TIMEOUT).unwrap();
        let mut threads = vec![scope.spawn(move || run(0, first))];
        for rank in 1..ranks {
            threads.push(scope.spawn(move || {
                run(rank, Communicator::join(description, rank, ranks, TIMEOUT).unwrap())
            }));
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn value(rank: usize, call: usize, at: usize) -> f32 {
    let hash = (at * 2_654_435_761 + rank * 40_503 + call * 7_919) % 10_007;
    [1.0, 1e-6, 300.0, 1e9, 1e-30][(call + at) % 5] * (hash as f32 / 10_007.0 - 0.5)
}

/// Added in the order of the ranks, divided, and rounded.
fn sum_over(ranks: usize, divisor: f64, value: impl Fn(usize) -> f32) -> f32 {
    ((0..ranks).map(|rank| f64::from(value(rank))).sum::<f64>() / divisor) as f32
}

fn sum(ranks: usize, value: impl Fn(usize) -> f32) -> f32 {
    sum_over(ranks, 1.0, value)
}

#[test]
fn overlapping_sums_are_rounded_once_and_the_same_at_all_ranks() {
    let sizes = [0, 1, 15, 4096, 4097, 65_536, 65_537, 131_072 + 3, 300_001];
    for ranks in [2, 3, 8] {
        group(NonFinite::Propagate, ranks, |rank, communicator| {
            let memory = reduce_all(communicator, &sizes, |call, at| value(rank, call, at));
            for (call, sums) in memory.iter().enumerate() {
                for (at, found) in sums.iter().enumerate() {
                    let divisor = if is_average(call) { ranks as f64 } else { 1.0 };
                    let exact = sum_over(ranks, divisor, |rank| value(rank, call, at));
                    assert_eq!(found.to_bits(), exact.to_bits(), "{ranks} {call} {at}");
                }
            }
        });
    }
}

#[test]
fn short_floats_are_summed_as_wide_ones() {
    group(NonFinite::Propagate, 3, |rank, communicator| {
        for (size, average) in [(7, false), (9_001, true), (200_003, false)] {
            let own: Vec<f32> = (0..size).map(|at| value(rank, 0, at) % 1e4).collect();
            let mut half: Vec<f16> = own.iter().map(|value| f16::from_f32(*value)).collect();
            let mut brain: Vec<bf16> = own.iter().map(|value| bf16::from_f32(*value)).collect();
            let bits = lend(half::slice::HalfFloatSliceExt::reinterpret_cast_mut(&mut half[..]));
            let first = communicator.call(reduce(Values::Short(bits, ElementType::F16), average));
            let bits = lend(half::slice::HalfFloatSliceExt::reinterpret_cast_mut(&mut brain[..]));
            let second = communicator.call(reduce(Values::Short(bits, ElementType::Bf16), average));
            for call in [first, second] {
                assert_eq!(call.wait(TIMEOUT).expect("in time"), Ok(()));
            }
            let divisor = if average { 3.0 } else { 1.0 };
            for at in 0..size {
                let of = |rank| value(rank, 0, at) % 1e4;
                let exact = sum_over(3, divisor, |rank| f16::from_f32(of(rank)).to_f32());
                assert_eq!(half[at].to_bits(), f16::from_f32(exact).to_bits(), "{at}");
                let exact = sum_over(3, divisor, |rank| bf16::from_f32(of(rank)).to_f32());
                assert_eq!(brain[at].to_bits(), bf16::from_f32(exact).to_bits(), "{at}");
            }
        }
    });
}

#[test]
fn what_is_not_finite_is_added_as_floats_or_refused() {
    let bad = |rank: usize, elements: usize| {
        let mut values = vec![1.0; elements];
        values[elements / 2] = if rank == 1 { f32::INFINITY } else { 2.0 };
        values
    };
    for elements in [100, 100_000] {
        group(NonFinite::Propagate, 2, |rank, communicator| {
            let mut values = bad(rank, elements);
            let call = reduce(Values::Single(lend(&mut values)), false);
            assert_eq!(wait(communicator, call), Ok(()));
            assert_eq!(values.remove(elements / 2), f32::INFINITY);
            assert_eq!(values, vec![2.0; elements - 1]);
        });
        group(NonFinite::Raise, 3, |rank, communicator| {
            let mut values = bad(rank, elements);
            let call = reduce(Values::Single(lend(&mut values)), false);
            let error = wait(communicator, call).unwrap_err().to_string();
            let at = elements / 2;
            let start =
                format!("values are not finite in call 0, at rank 1: value {at} is not finite ");
            assert!(error.starts_with(&start), "{error}");
            // Nothing was written, and the group goes on.
            assert_eq!(values, bad(rank, elements));
            assert_eq!(wait(communicator, ones(elements)), Ok(()));
        });
    }
}

#[test]
fn ranks_that_call_different_things_all_learn_of_it() {
    let announce = |operation: &str| Call::Announce {
        operation: operation.into(),
        elements: 9,
        element: "int64".into(),
    };
    let cases: [&(dyn Fn(usize) -> Call + Sync); 4] = [
        &|rank| ones(100 + 50_000 * usize::from(rank == 2)),
        &|rank| if rank == 1 { announce("broadcast") } else { ones(100) },
        &|rank| announce(if rank == 1 { "broadcast" } else { "gather" }),
        &|rank| match rank {
            0 => ones(100_000),
            _ => reduce(Values::Short(vec![0; 100_000].into(), ElementType::F16), false),
        },
    ];
    for make in cases {
        let errors = group(NonFinite::Propagate, 3, |rank, communicator| {
            assert_eq!(wait(communicator, ones(70_000)), Ok(()));
            assert_eq!(wait(communicator, announce("barrier")), Ok(()));
            let error = wait(communicator, make(rank)).unwrap_err();
            assert_eq!(wait(communicator, ones(1)).unwrap_err(), error);
            assert_eq!(communicator.failure().result(), Some(Err(error.clone())));
            error
        });
        assert!(matches!(errors[0], Error::Mismatch { call: 2, .. }), "{}", errors[0]);
        assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
    }
}

#[test]
fn a_rank_that_gives_up_leaves_or_is_late_is_named() {
    let begin = Instant::now();
    let barrier = Barrier::new(3);
    let errors = group(NonFinite::Propagate, 3, |rank, communicator| {
        leave_after_a_sum((rank, 2), communicator, &barrier, |group| group.abort())
    });
    let gone = "rank 2 gave up: it was aborted";
    assert_eq!(errors, [Some(gone.into()), Some(gone.into()), None]);

    // Also where no call is under way.
    group(NonFinite::Propagate, 3, |rank, communicator| {
        barrier.wait();
        if rank == 1 {
            communicator.abort();
            return;
        }
        let failed = communicator.failure().wait(TIMEOUT).expect("in time").unwrap_err();
        assert_eq!(failed.to_string(), "rank 1 gave up: it was aborted");
    });

    let errors = group(NonFinite::Propagate, 3, |rank, communicator| {
        leave_after_a_sum((rank, 0), communicator, &barrier, |group| group.close())
    });
    let left = "rank 0 has left the group after 1 calls, and this rank made 2";
    assert_eq!(errors, [None, Some(left.into()), Some(left.into())]);

    let errors = group(NonFinite::Propagate, 3, |rank, communicator| {
        wait_for_a_late_rank(rank, communicator, &barrier)
    });
    check_late(&errors);

    group(NonFinite::Propagate, 2, |rank, communicator| {
        communicator.set_timeout(Duration::from_millis(300));
        if rank == 0 {
            let error = wait(communicator, ones(5)).unwrap_err().to_string();
            assert!(error.ends_with("rank 1 has not made call 0"), "{error}");
        }
        // The other rank has called nothing, and learns of it all the same.
        assert!(communicator.failure().wait(TIMEOUT).expect("in time").is_err());
    });
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[test]
fn a_rank_that_leaves_with_pending_calls_ends_them_at_all_ranks() {
    let errors = group(NonFinite::Propagate, 2, |rank, communicator| {
        if rank == 1 {
            thread::sleep(Duration::from_secs(7));
            return wait(communicator, ones(100)).unwrap_err().to_string();
        }
        let call = communicator.call(ones(100));
        communicator.close();
        call.wait(Duration::ZERO).expect("it is over").unwrap_err().to_string()
    });
    assert_eq!(errors[0], "this rank has left the group");
    assert_eq!(errors[1], "rank 0 gave up: it left while calls were pending");
}

/// A call returns although others have not made it: they may wait for what its caller does next.
#[test]
fn callers_do_not_wait_for_each_other() {
    for ranks in [2, 3, 5] {
        let turns: Vec<Barrier> = (0..ranks).map(|_| Barrier::new(ranks)).collect();
        group(NonFinite::Propagate, ranks, |rank, communicator| {
            for elements in [10, 200_003] {
                let mut values = vec![rank as f32; elements];
                let call = |values: &mut [f32]| reduce(Values::Single(lend(values)), false);
                let mut pending = None;
                for (turn, barrier) in turns.iter().enumerate() {
                    if turn == rank {
                        pending = Some(communicator.call(call(&mut values)));
                    }
                    barrier.wait();
                }
                // More calls, while the first one may not be over.
                let mut more = [vec![1.0; elements], vec![2.0; elements]];
                let later: Vec<_> =
                    more.iter_mut().map(|values| communicator.call(call(values))).collect();
                for pending in pending.into_iter().chain(later) {
                    assert_eq!(pending.wait(TIMEOUT), Some(Ok(())));
                }
                let exact = (0..ranks).sum::<usize>() as f32;
                assert!(values.iter().all(|sum| *sum == exact));
                for (values, of_each) in more.iter().zip([1.0, 2.0]) {
                    assert!(values.iter().all(|sum| *sum == of_each * ranks as f32));
                }
            }
        });
    }
}

/// Threads of a rank take turns: one leaves what it has begun to the others.
#[test]
fn several_threads_of_a_rank_may_call() {
    let begun = group(NonFinite::Propagate, 2, |_, communicator| {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        // All calls are the same, whatever their order.
                        let mut values = vec![1.5; 5000];
                        let call = reduce(Values::Single(lend(&mut values)), false);
                        assert_eq!(wait(communicator, call), Ok(()));
                        assert!(values.iter().all(|sum| *sum == 3.0));
                    }
                });
            }
        });
        communicator.counters().done
    });
    assert_eq!(begun, [800, 800]);
}

#[test]
fn callbacks_may_wait_for_later_calls() {
    group(NonFinite::Propagate, 2, |_, communicator| {
        let first = communicator.call(ones(5000));
        let second = communicator.call(ones(5000));
        let (sender, receiver) = std::sync::mpsc::channel();
        first.on_done(move |result| sender.send((result, second.wait(TIMEOUT))).unwrap());
        assert_eq!(receiver.recv_timeout(TIMEOUT), Ok((Ok(()), Some(Ok(())))));
    });
}

/// What a rank does at a time: a call of so many elements, or a pause of so many microseconds.
#[derive(Clone, Debug)]
enum Act {
    Sum(usize),
    Announce,
    Pause(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (0..3_usize, 0..70_000_usize).prop_map(|(few, size)| Act::Sum(size >> (4 * few))),
        1 => Just(Act::Announce),
    ];
    prop::collection::vec(act, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn calls_in_any_order_and_at_any_time_are_summed(
        acts in acts(),
        pauses in prop::collection::vec((0..40_usize, 0..400_u64), 0..20),
        ranks in 2..6_usize,
    ) {
        group(NonFinite::Propagate, ranks, |rank, communicator| {
            let mut own: Vec<Act> = acts.clone();
            for (at, time) in &pauses {
                if (at + rank) % 2 == 0 {
                    own.insert(at % (own.len() + 1), Act::Pause(*time));
                }
            }
            let (mut memory, mut calls) = (Vec::new(), Vec::new());
            for act in own {
                let call = match act {
                    Act::Pause(micros) => {
                        thread::sleep(Duration::from_micros(micros));
                        continue;
                    }
                    Act::Announce => {
                        let (operation, element) = ("barrier".into(), String::new());
                        Call::Announce { operation, elements: 0, element }
                    }
                    Act::Sum(size) => {
                        let mut values: Vec<f32> =
                            (0..size).map(|at| value(rank, memory.len(), at)).collect();
                        let lent = Values::Single(lend(&mut values));
                        memory.push(values);
                        reduce(lent, false)
                    }
                };
                calls.push(communicator.call(call));
            }
            for call in calls {
                assert_eq!(call.wait(TIMEOUT).expect("in time"), Ok(()));
            }
            for (call, sums) in memory.iter().enumerate() {
                let exact = |at: usize| sum(ranks, |rank| value(rank, call, at));
                assert!(sums.iter().enumerate().all(|(at, sum)| *sum == exact(at)), "{call}");
            }
        });
    }
}

/// Neither processes of other groups nor those that send nonsense disturb one.
#[test]
fn strangers_are_not_let_in() {
    use std::io::{Read as _, Write as _};
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixStream};

    let memory = Memory::open(2, settings::Group::default()).unwrap();
    let description = memory.description();
    let first = Communicator::first(memory, 2, TIMEOUT).unwrap();
    let address = SocketAddr::from_abstract_name(first.socket()).unwrap();
    for rank in [0_u16, 2, 9_999] {
        let mut stream = UnixStream::connect_addr(&address).unwrap();
        stream.write_all(&rank.to_le_bytes()).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the connection is closed");
    }
    let second = Communicator::join(&description, 1, 2, TIMEOUT).unwrap();
    thread::scope(|scope| {
        for rank in [&first, &second] {
            scope.spawn(|| assert_eq!(wait(rank, ones(100_000)), Ok(())));
        }
    });
    // No one else comes any more.
    assert!(Communicator::join(&description, 1, 2, TIMEOUT).is_err());
    first.close();
    second.close();
}
