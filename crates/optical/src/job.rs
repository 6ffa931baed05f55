//! What is scheduled: one iteration of each training job, and coflows of MapReduce.
//!
//! All flows of a job advance together: all workers send at the same rate (§IV, notation of *B*), and a
//! shuffle is over with its last flow. So a job's allocation in a slot is one number, the rate of a
//! flow of weight 1.

use crate::UnitId;

/// Traffic from one unit to another, or within a unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Flow {
    /// Where it starts.
    pub from: UnitId,
    /// Where it ends; the same unit for traffic that no circuit carries.
    pub to: UnitId,
    /// Multiple of the job's rate and of its data: the number of workers whose gradients it carries.
    pub weight: f64,
}

/// One way to carry out a job: with or without aggregation in a switch.
#[derive(Clone, PartialEq, Debug)]
pub struct Way {
    /// The unit whose switch aggregates.
    pub inc: Option<UnitId>,
    /// The job's flows; none has weight zero, and no two have the same ends.
    pub flows: Vec<Flow>,
    /// Load on each unit's switch, as a multiple of the job's rate (the bracket in eq. 5), by unit.
    pub load: Vec<f64>,
    /// Seconds from the last transfer to the end of the iteration: *a*, or 0 with aggregation in
    /// the switch.
    pub update: f64,
}

/// A request: an iteration of a training job, or a coflow.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Its number, for output.
    pub id: u32,
    /// The slot in which it arrives; it sends nothing before.
    pub arrival: usize,
    /// Bits of a flow of weight 1: the data of one worker in an iteration.
    pub bits: f64,
    /// The ways to carry it out. The first one does not aggregate in a switch.
    pub ways: Vec<Way>,
}
