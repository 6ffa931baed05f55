//! Event-driven water-filling: rates rise from one saturated link or exhausted switch to the next.
//!
//! Between two events each resource fills at a constant pace. The rate at which it will be full is
//! therefore known in advance, and a queue returns the lowest. An event touches only the resources
//! of the jobs that it freezes, or whose number of flows it increases. If jobs use `u` resources,
//! each counted once per job, the total cost is O(u log u). Algorithm 1 looks at all links and all
//! flows for each event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Flowing;
use super::members::Members;
use super::resources::{Resource, Resources};
use crate::topology::RackIndex;

/// The fill level of a resource.
#[derive(Clone, Copy, Debug, Default)]
struct Gauge {
    /// Gb/s left when the rates were at `since_gbps`.
    left_gbps: f64,
    since_gbps: f64,
    /// Gb/s that it loses per Gb/s by which the rates rise.
    users: u32,
    full: bool,
    /// Whether it is full at `since_gbps`, whichever jobs use it.
    held: bool,
}

impl Gauge {
    /// The rate at which it is full if its users stay the same.
    fn full_at_gbps(&self) -> f64 {
        self.since_gbps + self.left_gbps.max(0.0) / f64::from(self.users)
    }

    /// Accounts for the use until now.
    fn advance(&mut self, water_gbps: f64) {
        if self.held {
            return;
        }
        self.left_gbps -= (water_gbps - self.since_gbps) * f64::from(self.users);
        self.since_gbps = water_gbps;
    }
}

/// The input of the filling.
pub(super) struct Filling<'a> {
    pub(super) resources: &'a Resources,
    pub(super) members: &'a Members,
    pub(super) flowing: &'a mut [Flowing],
    /// By rack: the rate at which its switch ran out of memory.
    pub(super) level_gbps: &'a mut [f64],
    /// The jobs whose rates to compute.
    pub(super) jobs: &'a [u32],
    /// All resources of these jobs, with the capacity that is left for them.
    pub(super) left_gbps: &'a [(Resource, f64)],
    /// Their other resources: memory that runs out at a level which these jobs do not move.
    pub(super) held_gbps: &'a [(Resource, f64)],
}

impl Filling<'_> {
    /// Sets the levels of the held memory.
    fn set_held(&mut self, level: impl Fn(f64) -> f64) {
        for &(memory, level_gbps) in self.held_gbps {
            let rack = self.resources.as_memory(memory).expect("only memory is held");
            self.level_gbps[rack.at()] = level(level_gbps);
        }
    }
}

/// Computes the filling. It is reused to keep its memory.
#[derive(Clone, Debug)]
pub(super) struct Filler {
    gauges: Vec<Gauge>,
    /// By a job's place: whether its rate still rises.
    rising: Vec<bool>,
    /// Number of jobs whose rates still rise.
    left: usize,
    /// Resources by the rate at which they are full, then by number. Rates are not negative, so
    /// their bits have the same order.
    queue: BinaryHeap<Reverse<(u64, Resource)>>,
}

impl Filler {
    pub(super) fn new(resources: &Resources) -> Self {
        Self {
            gauges: vec![Gauge::default(); resources.count()],
            rising: Vec::new(),
            left: 0,
            queue: BinaryHeap::new(),
        }
    }

    /// Computes the rates of the jobs.
    pub(super) fn fill(&mut self, filling: &mut Filling<'_>) {
        self.begin(filling);
        while self.left > 0 {
            let Reverse((bits, resource)) = self.queue.pop().expect("all jobs cross a link");
            let gauge = &mut self.gauges[resource.at()];
            if gauge.full || gauge.users == 0 {
                continue;
            }
            let water_gbps = gauge.full_at_gbps();
            if water_gbps.to_bits() > bits {
                // It has lost users since it was queued.
                self.queue.push(Reverse((water_gbps.to_bits(), resource)));
                continue;
            }
            gauge.full = true;
            self.overflow(filling, resource, water_gbps);
        }
        filling.set_held(|level_gbps| level_gbps);
    }

    fn begin(&mut self, filling: &mut Filling<'_>) {
        for &(resource, left_gbps) in filling.left_gbps {
            self.gauges[resource.at()] = Gauge { left_gbps, ..Gauge::default() };
            if let Some(rack) = filling.resources.as_memory(resource) {
                filling.level_gbps[rack.at()] = f64::INFINITY;
            }
        }
        for &(memory, level_gbps) in filling.held_gbps {
            self.gauges[memory.at()] =
                Gauge { since_gbps: level_gbps, held: true, ..Gauge::default() };
        }
        filling.set_held(|_| f64::INFINITY);
        self.rising.resize(filling.flowing.len(), false);
        for &job in filling.jobs {
            self.rising[job as usize] = true;
            let count = |resource: Resource, times| self.gauges[resource.at()].users += times;
            filling.flowing[job as usize].tree.uses(|_| true, count);
        }
        self.left = filling.jobs.len();
        let mut entries = std::mem::take(&mut self.queue).into_vec();
        entries.clear();
        let resources = filling.left_gbps.iter().chain(filling.held_gbps);
        entries.extend(resources.filter_map(|&(resource, _)| {
            let gauge = &self.gauges[resource.at()];
            (gauge.users > 0).then(|| Reverse((gauge.full_at_gbps().to_bits(), resource)))
        }));
        self.queue = entries.into();
    }

    /// A full link freezes the jobs that cross it. A switch without memory forwards all arriving
    /// flows.
    fn overflow(&mut self, filling: &mut Filling<'_>, resource: Resource, water_gbps: f64) {
        let rack = filling.resources.as_memory(resource);
        if let Some(rack) = rack {
            filling.level_gbps[rack.at()] = water_gbps;
        }
        let level_gbps = &*filling.level_gbps;
        for member in filling.members.of(resource) {
            let at = member.at as usize;
            if !self.rising[at] {
                continue;
            }
            let Flowing { tree, rate_gbps, .. } = &mut filling.flowing[at];
            let sums = |rack: RackIndex| level_gbps[rack.at()].is_infinite();
            if let Some(rack) = rack {
                tree.growth(rack, sums, |link, more| {
                    let gauge = &mut self.gauges[link.at()];
                    gauge.advance(water_gbps);
                    gauge.users += more;
                    if more > 0 {
                        self.queue.push(Reverse((gauge.full_at_gbps().to_bits(), link)));
                    }
                });
            } else {
                self.rising[at] = false;
                self.left -= 1;
                *rate_gbps = water_gbps;
                tree.uses(sums, |resource, times| {
                    let gauge = &mut self.gauges[resource.at()];
                    gauge.advance(water_gbps);
                    gauge.users -= times;
                });
            }
        }
    }
}
