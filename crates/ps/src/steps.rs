//! The servers of jobs whose rounds a client lets begin, and which it may move in between.
//!
//! Workers may learn of a move before the server does. Then they send packets of an assignment that
//! the server does not have yet, and it drops them. Workers send a fragment again until its result
//! arrives, so these fragments are summed as soon as the server has learned of the move, within one
//! timeout of a worker. The same holds for a server that learns late of the job's admission.

use tributary_endpoint::jobs_at;
use tributary_endpoint::serving::{Serving, Turns};
use tributary_model::Deployment;
use tributary_model::job::Turn;
use tributary_protocol::ConfigError;
use tributary_wire::{Epoch, JobId};

use crate::Servers;
use crate::report::Event;

/// The jobs of a host that have iterations.
pub(crate) struct Steps {
    turns: Turns,
    deployment: Deployment,
    jobs: Vec<Stepped>,
}

struct Stepped {
    /// Its index in the deployment.
    index: usize,
    id: JobId,
    name: String,
    /// What its server follows from.
    known: Option<(Epoch, Turn)>,
}

impl Steps {
    /// Those of a host; `None` without any.
    pub(crate) fn of(serving: &Serving, deployment: &Deployment) -> Option<Self> {
        let stepped = &serving.setup.stepped;
        let here = jobs_at(deployment, serving.id, |job| job.ps);
        let jobs = here.filter(|(index, _)| stepped.contains(index));
        let jobs = jobs.map(|(index, job)| Stepped {
            index,
            id: job.id,
            name: job.name.clone(),
            known: None,
        });
        let jobs: Vec<Stepped> = jobs.collect();
        let turns = serving.turns().filter(|_| !jobs.is_empty())?;
        Some(Self { turns, deployment: deployment.clone(), jobs })
    }

    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Makes the servers what the controller has told last.
    pub(crate) fn look(&mut self, servers: &mut Servers, tell: &dyn Fn(&Event)) {
        let Some(changes) = self.turns.changes() else { return };
        for job in &mut self.jobs {
            let Some(now) = changes.get(&job.name) else { continue };
            if let Some(event) = job.follow(*now, &mut self.deployment, servers) {
                tell(&event);
            }
        }
    }
}

impl Stepped {
    /// Returns what has changed.
    fn follow(
        &mut self,
        now: (Epoch, Turn),
        deployment: &mut Deployment,
        servers: &mut Servers,
    ) -> Option<Event> {
        let before = self.known.replace(now);
        let (epoch, turn) = now;
        let continued = match before.filter(|before| continues(before, &now)) {
            Some((_, before)) if before.assignment == turn.assignment => return None,
            Some(_) => servers.reassign(self.id, turn.assignment),
            None => Ok(false),
        };
        let changed = continued.and_then(|continued| match continued {
            true => Ok(()),
            false => self.begin(now, deployment, servers),
        });
        match changed {
            Ok(()) => {
                let (job, service) = (self.id.get(), turn.assignment.service.get());
                Some(Event::Serving { job, epoch: epoch.get(), service })
            }
            // The workers fail with the same error; the other jobs of this host do not.
            Err(error) => {
                tracing::error!(
                    "job {}: the controller's assignment does not suit the job: {error}; the job has no \
                     parameter server here",
                    self.name
                );
                servers.remove(self.id);
                None
            }
        }
    }

    /// Starts a server without state.
    fn begin(
        &self,
        (epoch, turn): (Epoch, Turn),
        deployment: &mut Deployment,
        servers: &mut Servers,
    ) -> Result<(), ConfigError> {
        deployment.set_epoch(self.index, epoch);
        deployment.set_assignment(self.index, turn.assignment);
        let config = deployment.server(self.index);
        servers.put(config.expect("these jobs have their server here"))
    }
}

/// Whether a server that followed from one turn knows all that another one needs. Between the
/// two, the controller may have told others that nobody read: if the job had an iteration without its
/// server then, the server would wait for fragments that were summed elsewhere.
fn continues(before: &(Epoch, Turn), now: &(Epoch, Turn)) -> bool {
    let next = before.1.number..=before.1.number + 1;
    before.0 == now.0 && next.contains(&now.1.number)
}

#[cfg(test)]
mod tests {
    use tributary_protocol::Assignment;

    use super::*;

    #[test]
    fn a_server_that_missed_an_iteration_starts_anew() {
        let turn = |epoch, number| {
            let (running, reported, rate) = (true, false, None);
            let turn = Turn { number, running, reported, assignment: Assignment::NONE, rate };
            (Epoch::new(epoch).unwrap(), turn)
        };
        let before = turn(7, 3);
        for (epoch, number, same) in
            [(7, 3, true), (7, 4, true), (7, 5, false), (7, 2, false), (8, 3, false)]
        {
            assert_eq!(continues(&before, &turn(epoch, number)), same);
        }
    }
}
