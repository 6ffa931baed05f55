//! Work on all cores of this machine.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Calls `work` with all numbers below `total`, on all cores. The results are in the order of the
/// numbers. `progress` gets the number of finished calls and of all calls.
///
/// # Errors
/// The error of the first number whose call failed.
pub fn on_all_cores<T: Send, E: Send>(
    total: usize,
    progress: &(dyn Fn(u64, u64) + Sync),
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results = Mutex::new(BTreeMap::new());
    let turn = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= total {
                break;
            }
            let result = work(at);
            results.lock().expect("no work panics with this lock").insert(at, result);
            progress(done.fetch_add(1, Ordering::Relaxed) as u64 + 1, total as u64);
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(total);
        for _ in 1..threads {
            // Without more threads, this one does all.
            drop(thread::Builder::new().spawn_scoped(scope, turn));
        }
        turn();
    });
    results.into_inner().expect("all threads have ended").into_values().collect()
}
