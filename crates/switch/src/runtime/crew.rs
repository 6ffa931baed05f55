//! What the threads of a switch's cores have between them.
//!
//! Each thread has a core of the switch for itself. Packets that arrive at the wrong core are handed over.
//! For a command, the first thread recalls the other cores, so that the command sees one switch that
//! processes no packet meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::JoinHandle;

use tributary_netio::Waker;

use crate::switch::{Core, Handover, Switch};

/// Packets that may wait for a core; more are dropped and counted.
const INBOX: usize = 4096;

/// What a core receives from others.
pub(super) struct Post {
    core: u16,
    /// Packets, each with the core that it is from.
    inbox: Receiver<(Handover, u16)>,
    /// The buffers of frames that were handed over, in return.
    buffers: Receiver<Vec<u8>>,
    /// By core.
    ways: Arc<[Way]>,
}

/// The way to a core.
struct Way {
    packets: SyncSender<(Handover, u16)>,
    buffers: SyncSender<Vec<u8>>,
    waker: Waker,
}

impl Post {
    /// One for each core, with the waker of each core's thread.
    pub(super) fn of_cores(wakers: impl Iterator<Item = Waker>) -> Vec<Self> {
        let way = |waker| {
            let (packets, inbox) = mpsc::sync_channel(INBOX);
            let (buffers, returned) = mpsc::sync_channel(INBOX);
            ((inbox, returned), Way { packets, buffers, waker })
        };
        let (ends, ways): (Vec<_>, Vec<_>) = wakers.map(way).unzip();
        let ways: Arc<[Way]> = ways.into();
        let post =
            |(core, (inbox, buffers))| Self { core, inbox, buffers, ways: Arc::clone(&ways) };
        (0..).zip(ends).map(post).collect()
    }

    /// Takes the next packet, and the core that it is from.
    pub(super) fn take(&self) -> Option<(Handover, u16)> {
        self.inbox.try_recv().ok()
    }

    /// Sends a core's packets for others.
    pub(super) fn deliver(&self, core: &mut Core) {
        // Bit n stands for the cores n, n + 64, …
        let mut reached = 0_u64;
        while let Some(handover) = core.poll_handover() {
            let to = usize::from(handover.to);
            // A core whose inbox is full is woken, too, in case it sleeps.
            reached |= 1 << (to % 64);
            if self.ways[to].packets.try_send((handover, self.core)).is_err() {
                core.lose_handover();
            }
        }
        while reached != 0 {
            let bit = reached.trailing_zeros() as usize;
            self.ways.iter().skip(bit).step_by(64).for_each(|way| way.waker.wake());
            reached &= reached - 1;
        }
    }

    /// Takes a buffer that another core has returned.
    pub(super) fn take_buffer(&self) -> Option<Vec<u8>> {
        self.buffers.try_recv().ok()
    }

    /// Returns a buffer to a core, which need not be woken for that.
    pub(super) fn give_back(&self, to: u16, buffer: Vec<u8>) {
        drop(self.ways[usize::from(to)].buffers.try_send(buffer));
    }
}

/// The first core's way to the others.
#[derive(Default)]
pub(super) struct Leader {
    others: Vec<Other>,
}

struct Other {
    signals: Arc<Signals>,
    waker: Waker,
    lent: Receiver<Core>,
    back: Sender<Core>,
    thread: JoinHandle<Option<Core>>,
}

#[derive(Default)]
struct Signals {
    recall: AtomicBool,
    stop: AtomicBool,
}

/// Another core's way to the first.
pub(super) struct Follower {
    signals: Arc<Signals>,
    lend: Sender<Core>,
    back: Receiver<Core>,
}

impl Leader {
    /// Adds a core, whose thread `start` starts.
    pub(super) fn add<E>(
        &mut self,
        waker: Waker,
        start: impl FnOnce(Follower) -> Result<JoinHandle<Option<Core>>, E>,
    ) -> Result<(), E> {
        let signals = Arc::<Signals>::default();
        let (lend, lent) = mpsc::channel();
        let (back, returned) = mpsc::channel();
        let thread = start(Follower { signals: Arc::clone(&signals), lend, back: returned })?;
        self.others.push(Other { signals, waker, lent, back, thread });
        Ok(())
    }

    /// Takes all other cores, whose threads then wait.
    ///
    /// # Panics
    /// If a thread has panicked.
    pub(super) fn recall(&self, switch: &mut Switch) {
        self.signal(|signals| &signals.recall);
        let lent = self.others.iter().map(|other| other.lent.recv().expect("a core's thread runs"));
        switch.others_mut().extend(lent);
    }

    /// Returns them.
    pub(super) fn release(&self, switch: &mut Switch) {
        for (other, core) in self.others.iter().zip(switch.others_mut().drain(..)) {
            // Its thread waits; if it panicked, the next recall finds out.
            drop(other.back.send(core));
        }
    }

    /// Ends the threads of all other cores. Returns the cores.
    pub(super) fn end(&mut self) -> Vec<Core> {
        self.signal(|signals| &signals.stop);
        let join = |other: Other| {
            other.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        self.others.drain(..).filter_map(join).collect()
    }

    fn signal(&self, which: impl Fn(&Signals) -> &AtomicBool) {
        for other in &self.others {
            which(&other.signals).store(true, Ordering::Release);
            other.waker.wake();
        }
    }
}

impl Drop for Leader {
    /// Threads do not outlive the first one, even if it panics.
    fn drop(&mut self) {
        self.signal(|signals| &signals.stop);
    }
}

impl Follower {
    pub(super) fn is_stopping(&self) -> bool {
        self.signals.stop.load(Ordering::Acquire)
    }

    pub(super) fn is_recalled(&self) -> bool {
        self.signals.recall.swap(false, Ordering::AcqRel)
    }

    /// Lends the core to the first thread, and waits until it is back; `None` if that thread has ended.
    pub(super) fn lend(&self, core: Core) -> Option<Core> {
        self.lend.send(core).ok()?;
        self.back.recv().ok()
    }
}
