//! Dropped hubs and links leave neither threads nor sockets. This test has its own process, because
//! it counts those of the process.

use std::time::{Duration, Instant};

use crate::common::{Desk, event, hello, remind, short, worker};
use tributary_endpoint::driver::channel::{Limits, LinkEvent};
use tributary_wire::channel::{Role, ToWorker, Token};

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn dropped_hubs_and_links_leave_no_threads_and_sockets() {
    // Sets up what the runtime keeps for the whole process.
    drop(Desk::new(short()));
    let (threads_before, descriptors_before) = (threads(), descriptors());
    for _ in 0..3 {
        let mut desk = Desk::new(short());
        let mut links: Vec<_> = (0..3).map(|index| desk.link(index)).collect();
        for link in &mut links {
            assert_eq!(event(link), LinkEvent::Opened);
        }
        // In all states: refused, half-open, not reading, with an endpoint that does not poll.
        let forged = tributary_wire::channel::Hello {
            token: Token([0; 16]),
            ..hello(1, Role::Worker(worker(0)))
        };
        let refused = desk.link_with(forged, Limits::default());
        let silent = desk.stranger();
        let deaf = desk.guest(0);
        for _ in 0..1000 {
            desk.hub.send_worker(crate::common::job(1), worker(0), &ToWorker::Dismissed);
            links[1].send(&remind(1));
        }
        assert!(threads() > threads_before && descriptors() > descriptors_before);
        desk.next();
        let start = Instant::now();
        drop(desk);
        drop(links);
        drop(refused);
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        drop((silent, deaf));
    }
    assert_eq!((threads(), descriptors()), (threads_before, descriptors_before));
}
