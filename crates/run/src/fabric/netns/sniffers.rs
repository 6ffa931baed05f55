//! Captures at all ends of links, in one thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::testbed::{self as testbed, Testbed};
use anyhow::{Context, Result};
use tributary_model::{End, Topology};
use tributary_netio::Watch;
use tributary_netio::capture::{Direction, Frame, Recorder};
use tributary_netio::packet::Sniffer;
use tributary_sim::Taps;

/// Interval of checks for the end.
const TICK: Duration = Duration::from_millis(50);

/// Bytes of frames that may wait in the kernel at all ends together.
const ROOM: usize = 256 << 20;

/// Most of them at one end, in each direction.
const MOST_ROOM: usize = 8 << 20;

/// A thread that captures.
pub(super) struct Sniffers {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Sniffers {
    /// Captures from now on.
    pub(super) fn start(
        taps: &Taps,
        topology: &Topology,
        testbed: &Testbed,
        built: &testbed::Topology,
    ) -> Result<Self> {
        let room = MOST_ROOM.min(ROOM / (2 * taps.ends.iter().count().max(1)));
        let mut all = Vec::new();
        for (end, number) in taps.ends.iter().zip(0..) {
            let port = match end {
                End::Host(host) => testbed::LinkEnd::new(&topology.host(host).name, 0),
                End::Switch(switch, port) => {
                    testbed::LinkEnd::new(&topology.switch(switch).name, port)
                }
            };
            let interface = built.interface(&port);
            let sniffer = testbed.run_in(&port.node, || Sniffer::open(&interface, None, room))?;
            all.push((number, sniffer.with_context(|| format!("--capture: {}", port.node))?));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (flag, recorder) = (Arc::clone(&stop), taps.recorder.clone());
        let thread = thread::Builder::new()
            .name("sniffers".into())
            .spawn(move || follow(all, &recorder, &flag))
            .context("cannot start a thread")?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Ends the capture, after what has passed. Returns how many frames the kernel has dropped.
    pub(super) fn end(mut self) -> u64 {
        self.join()
    }

    fn join(&mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take();
        thread.map_or(0, |thread| thread.join().expect("the capturing thread does not panic"))
    }
}

impl Drop for Sniffers {
    fn drop(&mut self) {
        self.join();
    }
}

/// Records frames until the flag is raised and no more wait.
fn follow(mut all: Vec<(u32, Sniffer)>, recorder: &Recorder, stop: &AtomicBool) -> u64 {
    let mut watch = Watch::new();
    loop {
        let ends = stop.load(Ordering::Relaxed);
        let mut more = false;
        for (interface, sniffer) in &mut all {
            let interface = *interface;
            let received = sniffer.receive(&mut |passing| {
                let direction =
                    if passing.outgoing { Direction::Outbound } else { Direction::Inbound };
                let (time, bytes) = (passing.time, passing.frame);
                recorder.frame(&Frame { time, interface, direction, bytes, comment: None });
            });
            match received {
                Ok(rest) => more |= rest,
                Err(error) => tracing::warn!("--capture: {error}"),
            }
        }
        if more {
            continue;
        }
        if ends {
            break;
        }
        all.iter().for_each(|(_, sniffer)| sniffer.watch(&mut watch));
        if let Err(error) = watch.sleep(Some(TICK)) {
            tracing::warn!("--capture: cannot wait for frames: {error}");
            thread::sleep(TICK);
        }
    }
    let lost = |sniffer: &mut Sniffer| {
        sniffer.statistics().map_or(0, |counters| counters.dropped + counters.unusable)
    };
    all.iter_mut().map(|(_, sniffer)| lost(sniffer)).sum()
}
