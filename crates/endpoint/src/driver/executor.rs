//! One thread for many endpoints: it runs them in turn, and sleeps only when all of them are idle.
//!
//! Endpoints in threads of their own wake each other for each batch of packets; where there are more of
//! them than cores, that takes more time than the packets do.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tributary_netio::{Waker, Watch};

/// Longest sleep: between two turns in which tasks see that they have been stopped.
const PATIENCE: Duration = Duration::from_millis(50);

/// What a task did in a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// It did something, and may have more to do.
    Busy,
    /// Nothing: it waits for events.
    Idle,
    /// It is finished.
    Over,
}

/// Something that works in turns, and neither sleeps nor blocks.
pub trait Task: Send {
    /// Does a part of what there is to do.
    fn turn(&mut self) -> Turn;

    /// After an idle turn: adds the events after which there is something to do again.
    fn watch(&mut self, watch: &mut Watch);
}

/// A thread that runs tasks. Dropping it waits until all of them are over.
#[derive(Debug)]
pub struct Executor {
    /// `None` only while this is dropped.
    inbox: Option<Sender<Box<dyn Task>>>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Executor {
    /// Starts a thread. It sleeps on `waker`, with which events of its tasks are cheapest.
    ///
    /// # Errors
    /// If the operating system cannot create a thread.
    pub fn start(name: String, waker: Waker) -> io::Result<Self> {
        Self::start_with(name, waker, PATIENCE)
    }

    fn start_with(name: String, waker: Waker, patience: Duration) -> io::Result<Self> {
        let (inbox, tasks) = mpsc::channel();
        let own = waker.clone();
        let thread =
            thread::Builder::new().name(name).spawn(move || run(&tasks, &own, patience))?;
        Ok(Self { inbox: Some(inbox), waker, thread: Some(thread) })
    }

    /// Wakes the thread.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Adds a task.
    pub fn add(&self, task: Box<dyn Task>) {
        let inbox = self.inbox.as_ref().expect("there until it is dropped");
        // It fails only if a task has panicked; then this one does not answer, either.
        drop(inbox.send(task));
        self.waker.wake();
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.inbox.take();
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            drop(thread.join());
        }
    }
}

fn run(inbox: &Receiver<Box<dyn Task>>, waker: &Waker, patience: Duration) {
    let mut tasks: Vec<Box<dyn Task>> = Vec::new();
    let mut watch = Watch::new();
    loop {
        loop {
            match inbox.try_recv() {
                Ok(task) => tasks.push(task),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) if tasks.is_empty() => return,
                Err(TryRecvError::Disconnected) => break,
            }
        }
        let mut idle = true;
        tasks.retain_mut(|task| {
            let turn = task.turn();
            idle &= turn == Turn::Idle;
            turn != Turn::Over
        });
        if !idle {
            continue;
        }
        for task in &mut tasks {
            task.watch(&mut watch);
        }
        watch.waker(waker);
        if let Err(error) = watch.sleep(Some(patience)) {
            tracing::warn!(%error, "waiting for events failed");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};
    use std::thread::ThreadId;
    use std::time::Instant;

    use tributary_netio::{FrameIo, memory};

    use super::*;

    /// So long that only events end a sleep in time.
    const FOREVER: Duration = Duration::from_secs(3600);

    /// Returns frames to where they come from, until it has had a number of them.
    struct Echo {
        io: memory::MemoryPort,
        left: usize,
        threads: Arc<Mutex<Vec<ThreadId>>>,
    }

    impl Task for Echo {
        fn turn(&mut self) -> Turn {
            self.threads.lock().unwrap().push(thread::current().id());
            let mut frames = Vec::new();
            self.io.receive(8, &mut |frame| frames.push(frame.to_vec())).unwrap();
            for frame in &frames {
                assert!(self.io.send(frame).unwrap());
            }
            self.io.flush().unwrap();
            self.left -= frames.len();
            match (self.left, frames.is_empty()) {
                (0, _) => Turn::Over,
                (_, true) => Turn::Idle,
                (_, false) => Turn::Busy,
            }
        }

        fn watch(&mut self, watch: &mut Watch) {
            self.io.watch(watch).unwrap();
        }
    }

    #[test]
    fn tasks_share_a_thread_and_wake_it() {
        let waker = Waker::new();
        let executor = Executor::start_with("echoes".into(), waker.clone(), FOREVER).unwrap();
        let threads = Arc::new(Mutex::new(Vec::new()));
        let mut ports = Vec::new();
        for left in [3, 40] {
            let (io, far) = memory::link(64, &waker, &Waker::new());
            executor.add(Box::new(Echo { io, left, threads: Arc::clone(&threads) }));
            ports.push(far);
        }
        // One at a time, and so rarely that the thread falls asleep in between.
        for (port, count) in ports.iter_mut().zip([3, 40]) {
            for _ in 0..count {
                thread::sleep(Duration::from_millis(1));
                port.send(&[0; 60]).unwrap();
                port.flush().unwrap();
                let deadline = Instant::now() + Duration::from_secs(20);
                while port.receive(1, &mut |frame| assert_eq!(frame.len(), 60)).unwrap() == 0 {
                    assert!(Instant::now() < deadline);
                    thread::sleep(Duration::from_micros(50));
                }
            }
        }
        drop(executor);
        assert!(ports.iter().all(|port| !port.is_connected()));
        let threads = threads.lock().unwrap();
        assert!(threads.iter().all(|thread| *thread == threads[0]));
    }

    /// Counts its turns until it is stopped.
    struct Sleeper {
        turns: Arc<AtomicUsize>,
        stop: Arc<AtomicUsize>,
    }

    impl Task for Sleeper {
        fn turn(&mut self) -> Turn {
            self.turns.fetch_add(1, Ordering::SeqCst);
            if self.stop.load(Ordering::SeqCst) > 0 { Turn::Over } else { Turn::Idle }
        }

        fn watch(&mut self, watch: &mut Watch) {
            watch.due_in(FOREVER);
        }
    }

    #[test]
    fn idle_tasks_cost_few_turns() {
        let (turns, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let executor = Executor::start("sleeper".into(), Waker::new()).unwrap();
        let sleeper = Sleeper { turns: Arc::clone(&turns), stop: Arc::clone(&stop) };
        executor.add(Box::new(sleeper));
        thread::sleep(6 * PATIENCE);
        let idle = turns.load(Ordering::SeqCst);
        assert!((1..=20).contains(&idle), "{idle}");
        stop.store(1, Ordering::SeqCst);
        drop(executor);
    }
}
