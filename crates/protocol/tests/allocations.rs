//! In the steady state, endpoints do not allocate per packet.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::time::Duration;

use tributary_protocol::fixed::Scale;
use tributary_protocol::worker::{Event, Tensor, Worker, WorkerConfig};
use tributary_protocol::{Endpoint, JobConfig, ParameterServer, PsConfig, Recovery, Time, Timing};
use tributary_wire::{Epoch, Host, JobId, Mac, Protocol, WorkerIndex};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // Memory may be allocated while the thread exits and its locals are gone.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is forwarded unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the contract.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn host(last: u8) -> Host {
    Host { mac: Mac([2, 0, 0, 0, 0, last]), ip: Ipv4Addr::new(10, 0, 0, last) }
}

/// Sums one tensor. Every seventh frame of a worker is lost, and some fragments are floats, so that
/// resends, Queries, Replies and float tasks occur, too.
fn round(
    now: &mut Time,
    workers: &mut [Worker],
    server: &mut ParameterServer,
    tensors: &mut Vec<Tensor>,
    frame: &mut Vec<u8>,
) {
    for worker in &mut *workers {
        worker.submit(tensors.pop().unwrap()).unwrap();
    }
    let mut sent = 0u64;
    while tensors.len() < workers.len() {
        *now += Duration::from_micros(50);
        for worker in &mut *workers {
            worker.handle_timeout(*now);
            while worker.poll_transmit(*now, frame) {
                sent += 1;
                if !sent.is_multiple_of(7) {
                    server.handle_frame(*now, frame);
                }
            }
        }
        server.handle_timeout(*now);
        while server.poll_transmit(*now, frame) {
            for worker in &mut *workers {
                worker.handle_frame(*now, frame);
            }
        }
        for worker in &mut *workers {
            while let Some(event) = worker.poll_event() {
                if let Event::TensorDone { tensor, .. } = event {
                    tensors.push(tensor);
                }
            }
        }
    }
}

#[test]
fn none_in_the_steady_state() {
    for protocol in [Protocol::Atp, Protocol::P4inc] {
        for recovery in Recovery::ALL {
            none(protocol, recovery);
        }
    }
}

fn none(protocol: Protocol, recovery: Recovery) {
    let job = JobConfig {
        protocol,
        slots: 32,
        ..JobConfig::new(JobId::new(1).unwrap().run(Epoch::FIRST), 2, NonZeroU32::new(64).unwrap())
    };
    let timing = Timing { recovery, ..Timing::default() };
    let worker = |index| {
        Worker::new(WorkerConfig {
            job,
            index: WorkerIndex::new(u16::from(index)).unwrap(),
            scale: Scale::new(1000.0).unwrap(),
            host: host(index),
            server: host(9),
            initial_window: None,
            rate: None,
            timing,
        })
        .unwrap()
    };
    let mut workers = vec![worker(0), worker(1)];
    let mut server = ParameterServer::new(PsConfig {
        job,
        host: host(9),
        workers: vec![host(0), host(1)],
        follows_runs: true,
        timing,
    })
    .unwrap();
    let tensor = || {
        let mut values = vec![1.0; 64 * 500];
        values.iter_mut().step_by(64 * 50).for_each(|value| *value = 1e30);
        Tensor::F32(values.into())
    };
    let mut tensors = vec![tensor(), tensor()];
    let mut frame = Vec::with_capacity(2048);
    let mut now = Time::ZERO;
    round(&mut now, &mut workers, &mut server, &mut tensors, &mut frame);
    let (before, sent) = (ALLOCATIONS.get(), workers[0].stats().sent);
    for _ in 0..3 {
        round(&mut now, &mut workers, &mut server, &mut tensors, &mut frame);
    }
    assert!(workers[0].stats().sent - sent > 1500);
    let stats = server.stats();
    // With the papers' rules a PS queries the values that a duplicate shows to be missing.
    let answers = stats.replies + stats.queries > 30;
    assert!(stats.overflow_tasks > 30 && (answers || recovery == Recovery::Rack), "{stats:?}");
    assert_eq!(ALLOCATIONS.get() - before, 0);
}
