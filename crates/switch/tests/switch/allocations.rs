//! Packets cause no allocations, once the buffers have grown.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tributary_dataplane::EngineKind;
use tributary_switch::{Switch, SwitchConfig};

use crate::common::*;

/// Counts the allocations of each thread.
struct Counting;

thread_local!(static ALLOCATIONS: Cell<u64> = const { Cell::new(0) });

// SAFETY: everything is passed on to the system's allocator; counting only touches a thread-local
// integer, which needs no allocation itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is ending has no counter, and is not measured.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller upholds the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn unicast_multicast_resubmission_and_recirculation_allocate_nothing() {
    let mut switch = switch(TRAFFIC, SwitchConfig::default());
    write(&mut switch, insert(group(5, &[(2, 10), (3, 11), (4, 12)]))).unwrap();
    let frames = [
        probe(UNICAST, 0, 2, &[1; 300]),
        probe(MULTICAST, 0, 5, &[2; 300]),
        probe(RESUBMIT, 3, 2, &[3; 300]),
        probe(RECIRCULATE, 5, 2, &[4; 300]),
        probe(DROP, 0, 0, &[5; 300]),
    ];
    forwards_without_allocating(&mut switch, &frames, 6);
    assert!(allocations(|| drop(std::hint::black_box(vec![0u8; 10]))) > 0, "nothing is counted");
}

/// Sends the frames repeatedly, interpreted and in machine code: after a few rounds nothing is
/// allocated any more, and every round outputs `copies` frames.
pub(crate) fn forwards_without_allocating(switch: &mut Switch, frames: &[Vec<u8>], copies: usize) {
    for engine in [EngineKind::Interpreter, EngineKind::Compiled] {
        switch.forwarding_mut().unwrap().pipeline_mut().use_engine(engine);
        one_engine_does_not_allocate(switch, frames, copies);
    }
}

fn one_engine_does_not_allocate(switch: &mut Switch, frames: &[Vec<u8>], copies: usize) {
    let mut out = Vec::new();
    let mut sent = 0;
    let mut round = |rounds: usize| {
        for _ in 0..rounds {
            for frame in frames {
                switch.receive(0, 1, frame);
            }
            for _ in 0..8 {
                switch.run_pending(0, 4);
                for port in 1..=4 {
                    while switch.transmit(0, port, &mut out) {
                        sent += 1;
                    }
                }
            }
        }
    };
    // Long enough for the program to be compiled, which happens on another thread.
    round(600);
    assert_eq!(allocations(|| round(1000)), 0);
    assert_eq!(sent, 1600 * copies);
}
