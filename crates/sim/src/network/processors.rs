//! Processor time of endpoints and switches.
//!
//! Without processors, an endpoint or switch handles a frame in no time. With processors, each
//! frame that one receives or sends takes a core for a while, and all share the same cores, like
//! the threads and processes of a run on one machine. Each is one thread: it handles one frame at
//! a time, in the order of arrival.

use std::collections::VecDeque;
use std::time::Duration;

/// The processors of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Processing {
    /// Number of cores, at least one.
    pub cores: usize,
    /// Time for each frame that a host receives or sends.
    pub host: Duration,
    /// Time for each frame that a switch receives or sends.
    pub switch: Duration,
}

/// Cores, and the frames that wait for them.
#[derive(Debug)]
pub(super) struct Processors {
    /// When each core is free.
    cores: Vec<u64>,
    nodes: Vec<Thread>,
}

/// The thread of a host or switch.
#[derive(Debug)]
struct Thread {
    /// Nanoseconds per frame.
    cost: u64,
    /// When it is free.
    free: u64,
    /// Frames that it is to handle, each with its port.
    inbox: VecDeque<(u16, Vec<u8>)>,
}

impl Processors {
    /// For hosts, and switches after them.
    pub(super) fn new(processing: Processing, hosts: usize, switches: usize) -> Self {
        let Processing { cores, host, switch } = processing;
        let thread = |cost: Duration| Thread {
            cost: u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX),
            free: 0,
            inbox: VecDeque::new(),
        };
        let hosts = (0..hosts).map(|_| thread(host));
        let switches = (0..switches).map(|_| thread(switch));
        Self { cores: vec![0; cores.max(1)], nodes: hosts.chain(switches).collect() }
    }

    /// Reserves a core for a frame of a node. Returns when the frame has been handled.
    pub(super) fn book(&mut self, node: usize, now: u64) -> u64 {
        let core = self.cores.iter_mut().min().expect("at least one core");
        let thread = &mut self.nodes[node];
        let end = now.max(*core).max(thread.free).saturating_add(thread.cost);
        *core = end;
        thread.free = end;
        end
    }

    /// Lets a frame wait until it has been handled. Returns when.
    pub(super) fn receive(&mut self, node: usize, now: u64, port: u16, frame: &[u8]) -> u64 {
        self.nodes[node].inbox.push_back((port, frame.to_vec()));
        self.book(node, now)
    }

    /// The frame that a node has handled.
    pub(super) fn handled(&mut self, node: usize) -> Option<(u16, Vec<u8>)> {
        self.nodes[node].inbox.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_cores_and_each_handles_one_frame_at_a_time() {
        let (host, switch) = (Duration::from_nanos(10), Duration::from_nanos(4));
        let mut both = Processors::new(Processing { cores: 2, host, switch }, 2, 1);
        assert_eq!([both.book(0, 0), both.book(1, 0)], [10, 10]);
        assert_eq!(both.book(2, 3), 14, "both cores are busy until 10");
        assert_eq!(both.book(0, 5), 20, "its thread is busy, and one core too");
        assert_eq!(both.book(0, 100), 110);
        assert_eq!(both.book(0, 100), 120, "the other core is free, its thread is not");
    }
}
