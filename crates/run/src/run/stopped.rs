//! Processes that are stopped (SIGSTOP), so that others wait for them in vain.

use std::time::{Duration, Instant};

use anyhow::anyhow;

use crate::fabric::{Fabric, Stopped};

/// Interval of checks for stopped parts.
const LOOK: Duration = Duration::from_millis(250);

/// Watches for stopped processes.
#[derive(Default)]
pub(super) struct Watch {
    /// Time of the last check.
    looked: Option<Instant>,
    /// The stopped part that was found first.
    found: Option<Found>,
}

/// A stopped part.
pub(super) struct Found {
    part: Stopped,
    pub(super) since: Instant,
}

impl Found {
    pub(super) fn error(&self) -> anyhow::Error {
        let Stopped { what, process } = &self.part;
        let waited = self.since.elapsed().as_secs_f64();
        anyhow!(
            "{what} was not heard from for {waited:.1} s: its process {process} is stopped; continue \
             it with `kill -CONT {process}`"
        )
    }
}

impl Watch {
    /// Checks again if the interval is over.
    pub(super) fn look(&mut self, fabric: &impl Fabric) -> Option<&Found> {
        let now = Instant::now();
        if self.looked.is_none_or(|looked| now - looked >= LOOK) {
            self.looked = Some(now);
            let stopped = fabric.stopped();
            self.found.take_if(|found| !stopped.contains(&found.part));
            if self.found.is_none() {
                self.found = stopped.into_iter().next().map(|part| Found { part, since: now });
            }
        }
        self.found.as_ref()
    }
}
