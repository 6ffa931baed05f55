//! The parameter servers of the jobs on this server: one process, for as long as the agent runs.

use std::process::Command;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tributary_base::restarts::Restarts;

use super::processes::{Ended, Kind, Process};

/// Pause before a process is started again that has reported an error, or that keeps dying.
const PAUSE: Duration = Duration::from_secs(2);

/// A process that is started again whenever it ends: workers have what the next one needs.
#[derive(Debug)]
pub(super) struct Server {
    process: Option<Process>,
    /// When it was started, or is started next.
    at: Instant,
    restarts: Restarts,
    ended: mpsc::UnboundedSender<Ended>,
    exits: mpsc::UnboundedReceiver<Ended>,
    /// What has been logged already.
    said: Option<String>,
}

impl Default for Server {
    fn default() -> Self {
        let (ended, exits) = mpsc::unbounded_channel();
        let (restarts, at) = (Restarts::default(), Instant::now());
        Self { process: None, at, restarts, ended, exits, said: None }
    }
}

impl Server {
    /// Starts the process if it is due.
    pub(super) fn tend(&mut self, command: impl FnOnce() -> Command) {
        let now = Instant::now();
        if let Ok(Ended { exit, died }) = self.exits.try_recv() {
            let pause = died.then(|| self.restarts.died(now - self.at)).flatten().unwrap_or(PAUSE);
            let said =
                Some(exit.detail).filter(|detail| died || self.said.as_ref() != Some(detail));
            if let Some(detail) = said {
                tracing::warn!("the parameter server: {detail}; it is started again in {pause:?}");
                self.said = Some(detail);
            }
            (self.process, self.at) = (None, now + pause);
        }
        if self.process.is_none() && self.at <= now {
            let ended = self.ended.clone();
            let tell = move |how| {
                // The agent may have ended.
                let _ = ended.send(how);
            };
            self.at = now;
            let name = "the parameter server".to_owned();
            self.process = Some(Process::start(name, command(), Kind::Endpoint, tell));
        }
    }

    /// Asks the process to end.
    pub(super) fn ask_to_end(&self) {
        self.process.iter().for_each(Process::ask_to_end);
    }

    /// Kills the process.
    pub(super) fn kill(&self) {
        self.process.iter().for_each(Process::kill);
    }

    /// Whether the process has ended, or was not started.
    pub(super) fn has_ended(&mut self) -> bool {
        if self.exits.try_recv().is_ok() {
            self.process = None;
        }
        self.process.is_none()
    }
}
