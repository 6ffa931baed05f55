//! Jobs with aggregators of their own: allocation, and moves between parameter server and network.
//!
//! A job is moved while it is idle. First, no packet under the old assignment is admitted any more.
//! Then the old segment is swept. Only then do the switches learn the new assignment, with another
//! service ID. So late packets, at any time, name a service that does not exist and are never
//! added. Workers learn the new assignment after all switches are prepared for it.

use std::sync::Mutex;

use tributary_model::memory::{Memory, Room};
use tributary_model::plan::{self, Placement};
use tributary_model::{Aggregation, Error as Unservable, SummedAt, services};
use tributary_protocol::{Assignment, Mode};
use tributary_wire::{JobId, Service};

use crate::error::Error;
use crate::jobs::{Admitted, Controller, State, lock};

impl Controller {
    /// Divides the aggregators of every switch into equal parts, of which each job gets one:
    /// SwitchML's static pools. Has no effect if jobs have no aggregators of their own.
    ///
    /// # Errors
    /// [`Unservable::Partitions`] if there are too few aggregators for that many parts; [`Unservable::Memory`] if a
    /// job of an earlier controller has no such part.
    pub fn partitioned(self, partitions: u32) -> Result<Self, Error> {
        if let Some(memory) = &self.memory {
            let mut memory = lock(memory);
            let (switches, pool) = (self.topology.switches.len(), memory.aggregators());
            *memory = Memory::partitioned(switches, pool, partitions)?;
            // Those of an earlier controller keep their parts.
            for admitted in self.jobs().values() {
                memory.claim(&self.topology, &admitted.placement)?;
            }
        }
        Ok(self)
    }

    /// Admits a job with a service ID and, for aggregation in the network, a segment of its own. If
    /// jobs share all aggregators (ATP), it gets neither, and `size` is ignored.
    ///
    /// # Errors
    /// As [`admit`](Self::admit); and [`Unservable::NotLocal`], [`Error::Unassigned`].
    ///
    /// # Panics
    /// As [`admit`](Self::admit).
    pub async fn admit_sized(
        &self,
        placement: Placement,
        aggregation: Aggregation,
        size: u32,
    ) -> Result<Assignment, Error> {
        if self.memory.is_none() {
            let placement = Placement { aggregation, ..placement };
            return self.admit(&placement).await.map(|_| Assignment::NONE);
        }
        let mode = self.mode(&placement, aggregation)?;
        let assign = || self.assign(&placement, mode, size);
        let admitted = self.admit_assigned(placement.clone(), assign).await;
        admitted.map(|(_, assignment)| assignment)
    }

    /// Moves a job, which must be idle: none of its workers has anything in flight. While a job
    /// moves from one segment to another, it holds both.
    ///
    /// # Errors
    /// [`Error::UnknownJob`]; [`Error::JobTaken`] if the job is being changed or a change failed
    /// half-way; [`Unservable::Memory`], [`Unservable::NoServer`], [`Unservable::NotLocal`]: the job is unchanged
    /// then. Otherwise the error of a switch: no switch serves the job then, and it can only be
    /// [`remove`](Self::remove)d.
    pub async fn relocate(
        &self,
        job: JobId,
        place: impl Into<SummedAt>,
        size: u32,
    ) -> Result<Assignment, Error> {
        self.relocate_recorded(job, place.into(), size, |_| Ok(())).await
    }

    /// [`relocate`](Self::relocate) for a caller that remembers placements over its own restart.
    /// `record` is called when all switches serve the job at its new place.
    ///
    /// Until the new place is recorded, a restart brings the job back to its old one. So the job holds
    /// both segments until then, and after a failure until it is removed: no other job is recorded
    /// with a part of them.
    ///
    /// # Errors
    /// As of `relocate`, or the error of `record`. After the latter the job can only be removed.
    pub(crate) async fn relocate_recorded<E: From<Error>>(
        &self,
        job: JobId,
        place: SummedAt,
        size: u32,
        record: impl FnOnce(&Placement) -> Result<(), E>,
    ) -> Result<Assignment, E> {
        let routes = self.routes.read().await;
        let before = self.begin_change(job)?;
        let placement = match self.next_placement(&before, place, size) {
            Ok(Some(placement)) => placement,
            unchanged => {
                let state =
                    if before.check_whole().is_ok() { State::Running } else { State::Leaving };
                self.set_state(job, state);
                return Ok(unchanged.map(|_| before.placement.assignment)?);
            }
        };
        let moved = match self.clear(&before).await {
            Ok(_) => self.serve(&routes, &placement, before.slot, &before.parts).await,
            Err(error) => Err(error),
        };
        let recorded = moved.map_err(E::from).and_then(|()| record(&placement));
        if recorded.is_ok() {
            self.free(job, before.placement.assignment);
        }
        self.set_state(job, if recorded.is_ok() { State::Running } else { State::Leaving });
        recorded.map(|()| placement.assignment)
    }

    /// The placement that a job is moved to; `None` if it does not change.
    fn next_placement(
        &self,
        before: &Admitted,
        place: SummedAt,
        size: u32,
    ) -> Result<Option<Placement>, Error> {
        before.check_whole()?;
        let old = &before.placement;
        let mode = self.mode(old, place.aggregation())?;
        let adding = place.adding().filter(|_| mode == Mode::Partial);
        let size_now = old.assignment.segment.size;
        let rounded = |memory: &Mutex<Memory>| lock(memory).rounded(size);
        let kept = mode == Mode::Forwarded || self.memory.as_ref().map(rounded) == Some(size_now);
        if mode == old.assignment.mode && adding == old.adding && kept {
            return Ok(None);
        }
        let placement = Placement { adding, ..old.clone() };
        let assignment = self.assign(&placement, mode, size)?;
        Ok(Some(placement.assigned(assignment)))
    }

    /// Whether switches serve a job, and it is not being changed.
    #[must_use]
    pub fn serves(&self, job: JobId) -> bool {
        self.jobs().get(&job).is_some_and(|admitted| admitted.state == State::Running)
    }

    /// Free memory per switch; empty if jobs have no aggregators of their own.
    #[must_use]
    pub fn room(&self) -> Vec<Room> {
        let Some(memory) = &self.memory else { return Vec::new() };
        lock(memory).room(&self.topology)
    }

    fn mode(&self, placement: &Placement, aggregation: Aggregation) -> Result<Mode, Error> {
        Ok(services::mode(&self.topology, placement, self.catalogue.protocol(), aggregation)?)
    }

    /// Checks that a placement can be served as it is.
    pub(crate) fn check(&self, placement: &Placement) -> Result<(), Error> {
        let Placement { job, ps, assignment, .. } = *placement;
        let refused = |reason| Err(Error::Assignment { job, reason });
        let protocol = self.catalogue.protocol();
        let one_switch = services::units(&self.topology, placement).len() == 1;
        if ps.is_none() && assignment.mode != Mode::Local {
            return Err(Unservable::NoServer(job).into());
        }
        if !protocol.has_segments() {
            if assignment != Assignment::NONE {
                return refused("its protocol gives jobs no aggregators of their own; assign none");
            }
            if protocol.has_reminder_agent() {
                plan::targets(&self.topology, placement)?;
            }
            return Ok(());
        }
        if !protocol.spans_switches() && assignment.mode != Mode::Local {
            return Err(Unservable::NotLocal(job).into());
        }
        if assignment.mode == Mode::Local && !one_switch {
            return refused("its workers are attached to several switches: it is not a local job");
        }
        if assignment.service.is_aggregated() != (assignment.mode != Mode::Forwarded) {
            return refused("service ID 0 is that of jobs that are only forwarded");
        }
        Ok(())
    }

    /// Reserves the segment of a job's assignment.
    pub(crate) fn claim(&self, placement: &Placement) -> Result<(), Error> {
        match &self.memory {
            Some(memory) => Ok(lock(memory).claim(&self.topology, placement)?),
            None => Ok(()),
        }
    }

    /// Allocates a segment for a job.
    fn assign(&self, placement: &Placement, mode: Mode, size: u32) -> Result<Assignment, Error> {
        let memory = self.memory.as_ref().ok_or(Error::Unassigned)?;
        Ok(lock(memory).assign(&self.topology, placement, mode, size)?)
    }

    /// Frees a job's segment.
    pub(crate) fn free(&self, job: JobId, assignment: Assignment) {
        if let Some(memory) = &self.memory {
            lock(memory).release(job, assignment);
        }
    }

    /// Frees all segments of a job.
    pub(crate) fn free_all(&self, job: JobId) {
        if let Some(memory) = &self.memory {
            lock(memory).release_all(job);
        }
    }

    /// The service that a job ID was given last, which is not that of its assignment while switches
    /// only forward.
    pub(crate) fn last_service(&self, job: JobId) -> Service {
        self.memory.as_ref().map_or_else(Service::default, |memory| lock(memory).last_service(job))
    }

    /// Continues the services of a job of an earlier controller: late packets of its earlier
    /// assignments must not match the next one.
    pub(crate) fn continue_services(&self, job: JobId, last: Service) {
        if let Some(memory) = &self.memory {
            lock(memory).continue_services(job, last);
        }
    }
}
