//! The parameter servers of a host, for jobs that the job scheduler admits, moves and releases.
//!
//! Every job that has its parameter server on the host is followed. It has a server from its
//! admission to its release.
//!
//! Workers may learn of a move before the server does. Then they send packets of an assignment that
//! the server does not have yet, and it drops them. Workers send a fragment again until its result
//! arrives, so these fragments are summed as soon as the server has learned of the move, within one
//! timeout of a worker. The same holds for a server that learns late of the job's admission.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use tributary_driver::Driver;
use tributary_endpoint::jobs_at;
use tributary_endpoint::schedule::{Follower, Scheduler, Standing};
use tributary_metrics::Board;
use tributary_model::{Deployment, HostId};
use tributary_netio::{FrameIo, Waker};
use tributary_protocol::{ConfigError, Endpoint as _};
use tributary_wire::JobId;

use crate::numbers::{Numbers, Publisher};
use crate::report::Event;
use crate::{PATIENCE, Servers};

/// A job that has its parameter server on this host.
struct Followed {
    /// Its index in the job file.
    index: usize,
    id: JobId,
    follower: Follower,
    /// The last standing that its server follows from.
    known: Option<Standing>,
}

/// Serves until `stop` is raised.
///
/// # Errors
/// Those of the port.
pub(crate) fn serve(
    mut deployment: Deployment,
    host: HostId,
    io: Box<dyn FrameIo>,
    scheduler: &Scheduler,
    stop: &AtomicBool,
    board: &Board<Numbers>,
    tell: &dyn Fn(&Event),
) -> Result<()> {
    let waker = Waker::new();
    let follow = |(index, job): (usize, &tributary_model::JobSpec)| {
        let follower = scheduler.follow(job, None, waker.clone());
        Followed { index, id: job.id, follower, known: None }
    };
    let mut jobs: Vec<_> = jobs_at(&deployment, host, |job| job.ps).map(follow).collect();
    let mut driver = Driver::new(Servers::new([])?, io).with_waker(waker);
    let mut publisher = Publisher::new(board);
    tell(&Event::Ready);
    while !stop.load(Ordering::Relaxed) {
        for job in &mut jobs {
            if let Some(event) = job.follow(&mut deployment, driver.endpoint_mut()) {
                tell(&event);
            }
        }
        driver.turn_with(PATIENCE, |now, servers| {
            publisher.look(now, || servers.numbers(now));
            false
        })?;
        while let Some((job, event)) = driver.endpoint_mut().poll_event() {
            tell(&Event::of(job, &event));
        }
    }
    tell(&Event::done(driver.endpoint()));
    Ok(())
}

impl Followed {
    /// Makes the job's server what the scheduler has told. Returns what has changed.
    fn follow(&mut self, deployment: &mut Deployment, servers: &mut Servers) -> Option<Event> {
        let news = self.follower.news().standing;
        let before = std::mem::replace(&mut self.known, news);
        if news == before {
            return None;
        }
        let job = self.id.get();
        let Some(now) = news else {
            let report = Box::new(servers.remove(self.id)?);
            return Some(Event::Released { job, report });
        };
        let continued = match before.filter(|before| continues(before, &now)) {
            Some(before) if before.assignment == now.assignment => return None,
            Some(_) => servers.reassign(self.id, now.assignment),
            None => Ok(false),
        };
        let changed = continued.and_then(|continued| match continued {
            true => Ok(()),
            false => self.begin(now, deployment, servers),
        });
        match changed {
            Ok(()) => {
                let (epoch, service) = (now.epoch.get(), now.assignment.service.get());
                Some(Event::Serving { job, epoch, service })
            }
            // The workers fail with the same error; the other jobs of this host do not.
            Err(error) => {
                tracing::error!(
                    "job {}: the scheduler's assignment does not suit the job file: {error}; the \
                     job has no parameter server here",
                    self.id
                );
                let report = Box::new(servers.remove(self.id)?);
                Some(Event::Released { job, report })
            }
        }
    }

    /// Starts a server without state.
    fn begin(
        &self,
        now: Standing,
        deployment: &mut Deployment,
        servers: &mut Servers,
    ) -> Result<(), ConfigError> {
        deployment.set_epoch(self.index, now.epoch);
        deployment.set_assignment(self.index, now.assignment);
        let config = deployment.server(self.index);
        servers.put(config.expect("followed jobs have their server here"))
    }
}

/// Whether a server that followed from one standing knows all that another one needs. Between the
/// two, the scheduler may have told others that nobody read: if the job had an iteration without its
/// server then, the server would wait for fragments that were summed elsewhere.
fn continues(before: &Standing, now: &Standing) -> bool {
    let next = before.iteration..=before.iteration + 1;
    before.epoch == now.epoch && next.contains(&now.iteration)
}

#[cfg(test)]
mod tests {
    use tributary_protocol::Assignment;
    use tributary_wire::Epoch;

    use super::*;

    #[test]
    fn a_server_that_missed_an_iteration_starts_anew() {
        let standing = |epoch, iteration| Standing {
            epoch: Epoch::new(epoch).unwrap(),
            iteration,
            running: true,
            assignment: Assignment::NONE,
            rate: None,
        };
        let before = standing(7, 3);
        for (epoch, iteration, same) in
            [(7, 3, true), (7, 4, true), (7, 5, false), (7, 2, false), (8, 3, false)]
        {
            assert_eq!(continues(&before, &standing(epoch, iteration)), same);
        }
    }
}
