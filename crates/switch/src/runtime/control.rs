//! Access to a running switch from other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use tokio::sync::oneshot;
use tributary_netio::Waker;

use crate::config::SwitchConfig;
use crate::statistics::{PortStatistics, SwitchStatistics};
use crate::switch::Switch;

/// A command for a running switch: called with the switch and its time in microseconds, repeatedly
/// between batches of frames until it returns true.
pub(super) type Command = Box<dyn FnMut(&mut Switch, u64) -> bool + Send>;

/// The switch's thread has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the switch has stopped")]
pub struct Stopped;

/// Access to a running switch from any thread. Clones access the same switch.
///
/// Commands run on the switch's own thread, between two batches of frames, so no packet sees half
/// of a change. Long commands run in steps, with packets in between.
#[derive(Clone, Debug)]
pub struct Control {
    commands: mpsc::Sender<Command>,
    waker: Waker,
    stop: Arc<AtomicBool>,
    config: Arc<SwitchConfig>,
}

impl Control {
    pub(super) fn new(config: &SwitchConfig, waker: Waker) -> (Self, mpsc::Receiver<Command>) {
        let (commands, receiver) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        (Self { commands, waker, stop, config: Arc::new(config.clone()) }, receiver)
    }

    /// The switch's configuration.
    #[must_use]
    pub fn config(&self) -> &SwitchConfig {
        &self.config
    }

    /// Submits a command without waiting; commands run in order. The receiver fails if the switch
    /// stops first.
    pub fn submit<R: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Switch, u64) -> R + Send + 'static,
    ) -> oneshot::Receiver<R> {
        let mut what = Some(what);
        self.submit_steps(move |switch, now_us| what.take().map(|what| what(switch, now_us)))
    }

    /// Submits a command that runs in steps, each between two batches of frames, until one returns
    /// a result. Later commands wait for it.
    pub(crate) fn submit_steps<R: Send + 'static>(
        &self,
        mut step: impl FnMut(&mut Switch, u64) -> Option<R> + Send + 'static,
    ) -> oneshot::Receiver<R> {
        let (result, receiver) = oneshot::channel();
        let mut result = Some(result);
        let command = move |switch: &mut Switch, now_us: u64| {
            let Some(done) = step(switch, now_us) else { return false };
            // The caller may have gone away.
            drop(result.take().map(|result| result.send(done)));
            true
        };
        if self.commands.send(Box::new(command)).is_ok() {
            self.waker.wake();
        }
        receiver
    }

    /// Runs a command and waits for it, in synchronous code.
    ///
    /// # Errors
    /// If the switch has stopped.
    ///
    /// # Panics
    /// In asynchronous code.
    pub fn call<R: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Switch, u64) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        self.submit(what).blocking_recv().map_err(|_| Stopped)
    }

    /// Runs a command and waits for it.
    ///
    /// # Errors
    /// If the switch has stopped.
    pub async fn run<R: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Switch, u64) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        self.submit(what).await.map_err(|_| Stopped)
    }

    /// Counters of the switch and of each of its ports.
    ///
    /// # Errors
    /// If the switch has stopped.
    pub fn statistics(&self) -> Result<(SwitchStatistics, Vec<(u16, PortStatistics)>), Stopped> {
        self.call(|switch, _| statistics(switch))
    }

    /// Tells the switch's thread to end, without waiting.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// The counters of a switch, with ports in order and the CPU port last.
pub(super) fn statistics(switch: &Switch) -> (SwitchStatistics, Vec<(u16, PortStatistics)>) {
    let config = switch.config();
    let ports = config.ports.iter().copied().chain([switch.cpu_port()]);
    let ports = ports.filter_map(|port| Some((port, switch.port_statistics(port)?))).collect();
    (switch.statistics(), ports)
}
