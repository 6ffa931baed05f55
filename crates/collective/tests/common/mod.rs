//! What every group does, whatever is between its ranks.

use std::sync::Barrier;
use std::time::Duration;

use tributary_collective::{Call, Error, Group, Values};

/// Time for a result, also on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

fn ones() -> Call {
    Call::Reduce { values: Values::Single(vec![1.0; 100].into()), average: false, layer: None }
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
    let call = group.call(ones());
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
