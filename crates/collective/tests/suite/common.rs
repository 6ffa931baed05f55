//! What every group does, whatever is between its ranks.

use std::ptr::NonNull;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use tributary_collective::{Call, Error, Group, Values};
use tributary_protocol::buffer::Buffer;

/// Time for a result, also on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Memory that is lent for a call.
pub(crate) fn lend<T: Copy + Send + Sync + 'static>(values: &mut [T]) -> Buffer<T> {
    let start = NonNull::new(values.as_mut_ptr()).unwrap();
    // SAFETY: the tests use the values only after the call.
    unsafe { Buffer::lent(start, values.len(), Arc::new(())) }
}

pub(crate) fn reduce(values: Values, average: bool) -> Call {
    Call::Reduce { values, average, layer: None }
}

pub(crate) fn ones(elements: usize) -> Call {
    reduce(Values::Single(vec![1.0; elements].into()), false)
}

/// The result of a call, which must come.
pub(crate) fn wait(group: &dyn Group, call: Call) -> Result<(), Error> {
    group.call(call).wait(TIMEOUT).expect("in time")
}

/// Makes calls of these sizes that overlap, every other one an average, and returns the results. `value` is the one of a
/// call at a place. The calls must be the first ones of the group.
pub(crate) fn reduce_all(
    group: &dyn Group,
    sizes: &[usize],
    value: impl Fn(usize, usize) -> f32,
) -> Vec<Vec<f32>> {
    let values = |(call, &size): (usize, &usize)| (0..size).map(|at| value(call, at)).collect();
    let mut memory: Vec<Vec<f32>> = sizes.iter().enumerate().map(values).collect();
    let begin = |(call, values): (usize, &mut Vec<f32>)| {
        group.call(reduce(Values::Single(lend(values)), is_average(call)))
    };
    let calls: Vec<_> = memory.iter_mut().enumerate().map(begin).collect();
    for call in calls {
        assert_eq!(call.wait(TIMEOUT).expect("in time"), Ok(()));
    }
    let (counters, made) = (group.counters(), sizes.len() as u64);
    assert_eq!((counters.begun, counters.done), (made, made));
    assert_eq!(counters.values, sizes.iter().sum::<usize>() as u64);
    memory
}

/// Whether a call of [`reduce_all`] is an average.
pub(crate) fn is_average(call: usize) -> bool {
    call % 2 == 1
}

/// After a first sum, which `barrier` ends, a rank leaves the group by `leave`. Returns the error of the second sum at the
/// others.
pub(crate) fn leave_after_a_sum(
    (rank, leaver): (usize, usize),
    group: &dyn Group,
    barrier: &Barrier,
    leave: fn(&dyn Group),
) -> Option<String> {
    assert_eq!(wait(group, ones(100)), Ok(()));
    // Otherwise the news of the end may come before the sum.
    barrier.wait();
    if rank == leaver {
        leave(group);
        return None;
    }
    Some(wait(group, ones(100)).unwrap_err().to_string())
}

/// Of three ranks, rank 0 makes no call, and rank 1 loses patience, which ends the call at rank 2, too. Returns the
/// error of a rank.
pub(crate) fn wait_for_a_late_rank(
    rank: usize,
    group: &dyn Group,
    barrier: &Barrier,
) -> Option<Error> {
    if rank == 0 {
        barrier.wait();
        return None;
    }
    let call = group.call(ones(100));
    let error = if rank == 1 {
        assert_eq!(call.wait(Duration::from_secs(1)), None);
        call.time_out()
    } else {
        call.wait(TIMEOUT).expect("in time").unwrap_err()
    };
    barrier.wait();
    Some(error)
}

/// Checks what [`wait_for_a_late_rank`] returned at the three ranks.
pub(crate) fn check_late(errors: &[Option<Error>]) {
    let texts: Vec<_> = errors.iter().flatten().map(ToString::to_string).collect();
    let [first, second] = &texts[..] else { panic!("two ranks fail: {errors:?}") };
    assert!(first.ends_with("rank 0 has not made call 0"), "{first}");
    assert!(second.starts_with("rank 1 gave up: no result within 1"), "{second}");
}
