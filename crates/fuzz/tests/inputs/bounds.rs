//! Limits of memory and processor time for each input.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use peak_alloc::PeakAlloc;

/// Counts what all threads have allocated. Memory that is reserved and never touched counts too.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

pub(crate) const MIB: usize = 1 << 20;

/// Targets of one process take turns, because memory and time are counted for all threads together.
static TURN: Mutex<()> = Mutex::new(());

/// The right to run inputs.
pub(crate) struct Turn(#[expect(dead_code, reason = "held, not read")] MutexGuard<'static, ()>);

impl Turn {
    pub(crate) fn wait() -> Self {
        Self(TURN.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs one input, which may allocate `memory` bytes beyond what is allocated already.
    #[track_caller]
    pub(crate) fn bounded<T>(&self, memory: usize, run: impl FnOnce() -> T) -> T {
        MEMORY.reset_peak_usage();
        let (held, begin) = (MEMORY.current_usage(), processor_time());
        let result = run();
        let (peak, time) = (MEMORY.peak_usage().saturating_sub(held), processor_time() - begin);
        assert!(peak <= memory, "an input took {} KiB, more than {} KiB", peak >> 10, memory >> 10);
        assert!(time <= TIME, "an input took {time:?}, more than {TIME:?}");
        result
    }
}

/// Most processor time for one input in a development build: thousands of times what an ordinary one takes.
const TIME: Duration = Duration::from_secs(5);

/// Processor time of this process.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the clock exists").into()
}

#[test]
#[should_panic(expected = "more than 1024 KiB")]
fn memory_of_other_threads_counts() {
    let turn = Turn::wait();
    turn.bounded(MIB, || {
        let thread = std::thread::spawn(|| drop(std::hint::black_box(vec![0_u8; 2 * MIB])));
        thread.join().unwrap();
    });
}
