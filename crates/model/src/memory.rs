//! The services and segments of all jobs of a network, where jobs have aggregators of their own.

use std::collections::BTreeMap;

use tributary_protocol::{Assignment, Mode};
use tributary_wire::{JobId, Segment, Service};

use crate::plan::Placement;
use crate::segments::{Allocator, Demand, Refusal};
use crate::{Error, Network, SwitchId, Topology, services};

/// The aggregators of all switches, and the service and segment of each job.
#[derive(Clone, Debug)]
pub struct Memory {
    segments: Allocator,
    /// The last service of each job ID, including released jobs: late packets of a released job
    /// must not match the next job with its ID.
    last: BTreeMap<JobId, Service>,
    /// Per switch.
    aggregators: u32,
}

impl Memory {
    /// The aggregators of `switches` switches with `pool` aggregators each, all free.
    pub fn new(switches: usize, pool: u32) -> Self {
        let segments = Allocator::new(switches, pool);
        Self { segments, last: BTreeMap::new(), aggregators: pool }
    }

    /// The same, divided into equal parts of which each job gets one: SwitchML's static pools.
    ///
    /// # Errors
    /// [`Error::Partitions`] if there are too few aggregators for that many parts.
    pub fn partitioned(switches: usize, pool: u32, partitions: u32) -> Result<Self, Error> {
        let segments = Allocator::partitioned(switches, pool, partitions)
            .ok_or(Error::Partitions { pool, partitions })?;
        let aggregators = (0..switches.min(1)).map(|switch| segments.free(SwitchId(switch))).sum();
        Ok(Self { segments, last: BTreeMap::new(), aggregators })
    }

    /// The aggregators of a network's switches; `None` if all jobs share them (ATP, ESA).
    ///
    /// # Errors
    /// [`Error::Partitions`] if the pool is too small.
    pub fn of(network: &Network) -> Result<Option<Self>, Error> {
        let (switches, pool) = (network.topology.switches.len(), network.switch.pool);
        if !network.protocol.has_segments() {
            return Ok(None);
        }
        if network.protocol.has_partitions() {
            return Self::partitioned(switches, pool, network.switch.partitions).map(Some);
        }
        Ok(Some(Self::new(switches, pool)))
    }

    /// Gives a job its next service and, if switches add for it, a segment of `size` aggregators.
    ///
    /// # Errors
    /// [`Error::Memory`] if the switches have no room.
    pub fn assign(
        &mut self,
        topology: &Topology,
        placement: &Placement,
        mode: Mode,
        size: u32,
    ) -> Result<Assignment, Error> {
        if mode == Mode::Forwarded {
            return Ok(Assignment::NONE);
        }
        let last = self.last.get(&placement.job).copied().unwrap_or_default();
        let service = services::next(last);
        let demand = demand(topology, placement, service, size);
        let segment = self.segments.admit(&demand);
        let segment = segment.map_err(|refusal| no_room(topology, &demand, refusal))?;
        self.last.insert(placement.job, service);
        Ok(Assignment { service, segment, mode })
    }

    /// Reserves the segment that a job's placement names.
    pub fn claim(&mut self, topology: &Topology, placement: &Placement) -> Result<(), Error> {
        let Assignment { service, segment, .. } = placement.assignment;
        if !service.is_aggregated() {
            return Ok(());
        }
        let demand = demand(topology, placement, service, segment.size);
        let claimed = self.segments.claim(&demand, segment.offset);
        claimed.map_err(|refusal| no_room(topology, &demand, refusal))?;
        self.last.insert(placement.job, service);
        Ok(())
    }

    /// The pieces of a switch's pool that no job holds.
    pub fn gaps(&self, switch: SwitchId) -> Vec<Segment> {
        self.segments.gaps(switch)
    }

    /// Frees what a job holds for an assignment.
    pub fn release(&mut self, job: JobId, assignment: Assignment) {
        self.segments.release(job, assignment.service);
    }

    /// Frees all that a job holds: two segments, if a move has failed half-way.
    pub fn release_all(&mut self, job: JobId) {
        self.segments.release_all(job);
    }

    /// Free memory of each of the topology's switches.
    #[must_use]
    pub fn room(&self, topology: &Topology) -> Vec<Room> {
        let room = |switch| Room {
            switch,
            aggregators: self.aggregators,
            free: self.segments.free(switch),
            largest: self.segments.largest(switch),
        };
        topology.switch_ids().map(room).collect()
    }

    /// The aggregators that a job gets in each switch if it asks for `size`.
    #[must_use]
    pub fn rounded(&self, size: u32) -> u32 {
        self.segments.rounded(size)
    }

    /// The service that a job ID was given last, which is not that of its assignment while switches
    /// only forward.
    #[must_use]
    pub fn last_service(&self, job: JobId) -> Service {
        self.last.get(&job).copied().unwrap_or_default()
    }

    /// Continues the services of a job of an earlier controller: late packets of its earlier
    /// assignments must not match the next one.
    pub fn continue_services(&mut self, job: JobId, last: Service) {
        self.last.insert(job, last);
    }

    /// Aggregators of each switch that can be given to jobs.
    #[must_use]
    pub fn aggregators(&self) -> u32 {
        self.aggregators
    }
}

fn demand(topology: &Topology, placement: &Placement, service: Service, size: u32) -> Demand {
    let units = services::adders(topology, placement);
    Demand { job: placement.job, service, units, size }
}

/// The error of switches that cannot meet a demand.
fn no_room(topology: &Topology, demand: &Demand, refusal: Refusal) -> Error {
    let switches = match &refusal {
        Refusal::Short { switches, .. } => switches,
        _ => &demand.units,
    };
    let names = switches.iter().map(|&switch| topology.switch(switch).name.as_str());
    Error::Memory { switches: names.collect::<Vec<_>>().join(", "), refusal }
}

/// Free aggregators of a switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Room {
    /// The switch.
    pub switch: SwitchId,
    /// Aggregators that can be given to jobs.
    pub aggregators: u32,
    /// Free aggregators.
    pub free: u32,
    /// Aggregators in the largest free piece.
    pub largest: u32,
}
