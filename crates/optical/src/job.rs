//! What is scheduled: one iteration of each training job, and coflows of MapReduce.
//!
//! All flows of a job advance together: all workers send at the same rate (§IV, notation of *B*), and a
//! shuffle is over with its last flow. So a job's allocation in a slot is one number, the rate of a
//! flow of weight 1.

use crate::{Error, UnitId};

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
    /// the switch of all the job's workers.
    pub update: f64,
}

/// A request: an iteration of a training job, or a coflow.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Its number, for output.
    pub id: u32,
    /// The slot in which it arrives; it sends nothing before.
    pub arrival: usize,
    /// Bits of a flow of weight 1: the data of one worker in an iteration. Without data, the job sends in no slot,
    /// and only its update follows its arrival.
    pub bits: f64,
    /// The rate of a flow of weight 1, in bits per second, up to which it competes with other jobs. What they leave is for
    /// jobs whose workers may not keep up. Infinite in schedules that are made in advance.
    pub pace: f64,
    /// The ways to carry it out. The first one does not aggregate in a switch.
    pub ways: Vec<Way>,
}

/// Data from one unit to another, or within a unit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Demand {
    /// Where it starts.
    pub from: UnitId,
    /// Where it ends.
    pub to: UnitId,
    /// Bits.
    pub bits: f64,
}

impl Job {
    /// An iteration of a training job with `workers` by unit, a parameter server in unit `server`,
    /// `bits` of gradients per worker, and `update` seconds for the server's update.
    ///
    /// The first way leaves the sums to the server. Each further way aggregates in the switch of one
    /// unit with workers (eq. 2).
    ///
    /// # Errors
    /// If there are no workers, the server is in no unit, or a number is impossible.
    pub fn training(
        id: u32,
        arrival: usize,
        workers: &[u32],
        server: UnitId,
        bits: f64,
        update: f64,
    ) -> Result<Self, Error> {
        if workers.iter().all(|&count| count == 0) {
            return Err(Error::job(id, "it has no workers; give at least one unit a worker"));
        }
        if server.0 >= workers.len() {
            let units = workers.len();
            let problem = format!("its server is in unit {}; choose 0 to {}", server.0, units - 1);
            return Err(Error::job(id, problem));
        }
        not_negative(id, "data of a worker", bits)?;
        if !(update.is_finite() && update >= 0.0) {
            return Err(Error::job(id, format!("an update of {update} s; choose 0 s or more")));
        }
        let with_workers = (0..workers.len()).filter(|&unit| workers[unit] > 0).map(UnitId);
        let ways = std::iter::once(None).chain(with_workers.map(Some));
        let ways = ways.map(|inc| training_way(workers, server, update, inc)).collect();
        Ok(Self { id, arrival, bits, pace: f64::INFINITY, ways })
    }

    /// A coflow: the flows of a shuffle, which advance together and have no update.
    ///
    /// No switch aggregates a coflow, because the paper defines no such way: its sums are those of
    /// gradients. Demands with the same ends are added up. If no demand leaves its unit, there is nothing to
    /// decide for the network, and the coflow ends when it arrives.
    ///
    /// # Errors
    /// If there is no demand, or a demand is impossible.
    pub fn coflow(
        id: u32,
        arrival: usize,
        units: usize,
        demands: &[Demand],
    ) -> Result<Self, Error> {
        let mut matrix = std::collections::BTreeMap::new();
        for demand in demands {
            not_negative(id, "demand", demand.bits)?;
            if let Some(unit) = [demand.from, demand.to].iter().find(|unit| unit.0 >= units) {
                let problem = format!("unit {} does not exist; choose 0 to {}", unit.0, units - 1);
                return Err(Error::job(id, problem));
            }
            if demand.bits > 0.0 {
                *matrix.entry((demand.from, demand.to)).or_insert(0.0) += demand.bits;
            }
        }
        if demands.is_empty() {
            return Err(Error::job(id, "it has no demands; give it at least one"));
        }
        if matrix.keys().all(|(from, to)| from == to) {
            matrix.clear();
        }
        let bits = matrix.values().copied().fold(0.0, f64::max);
        let flow = |((from, to), demand)| Flow { from, to, weight: demand / bits };
        let flows: Vec<Flow> = matrix.into_iter().map(flow).collect();
        // Eq. 5 counts what servers send and what they receive.
        let mut load = vec![0.0; units];
        for flow in &flows {
            load[flow.from.0] += flow.weight;
            load[flow.to.0] += flow.weight;
        }
        let ways = vec![Way { inc: None, flows, load, update: 0.0 }];
        Ok(Self { id, arrival, bits, pace: f64::INFINITY, ways })
    }

    /// The job without the ways that aggregate only some of its workers' gradients in a switch.
    ///
    /// §IV allows these ways. §VI.A, and with it the evaluation, allows aggregation only in the unit
    /// that has all workers.
    #[must_use]
    pub fn local_inc_only(mut self) -> Self {
        self.ways.retain(|way| way.inc.is_none() || way.crossing() == 0.0);
        self
    }

    /// Bits that need no circuit any more if the job takes this way instead of the first one.
    #[must_use]
    pub fn saved(&self, way: usize) -> f64 {
        self.bits * (self.ways[0].crossing() - self.ways[way].crossing())
    }
}

impl Way {
    /// Total weight of the flows between different units.
    #[must_use]
    pub fn crossing(&self) -> f64 {
        self.flows.iter().filter(|flow| flow.from != flow.to).map(|flow| flow.weight).sum()
    }
}

/// A way of a training job (eqs. 4, 5, 8 and 11).
///
/// Three terms of the paper are read other than printed:
///
/// - *Workers beside their server.* The second lines of eqs. 4 and 8 multiply by `E`, "all workers
///   are here". A job with workers both here and elsewhere would then have no data here, although
///   its workers must reach the server. We read `L`, "some workers are here"; `W` has the number.
/// - *A job summed wholly in its unit.* The same lines multiply by `PS`, "the server is here". Such
///   a job with its server elsewhere would have no data at all, and would end at once. Its switch
///   stands in for the server (§III), so we leave out `PS`.
/// - *Update time.* §IV.A says that it is 0 with aggregation in a switch. Eq. 11 charges `a` unless
///   the switch has all workers. We follow eq. 11: otherwise the server still adds up partial sums.
///
/// The load is the bracket of eq. 5 as printed: what the unit's workers send, what arrives from
/// other units, and what the workers beside a server send down to it without aggregation. A partial
/// sum from a switch to a server in its own unit is not in the bracket. We keep it as a flow of
/// weight 1, which a wholly local term would miss, and which loads no circuit.
fn training_way(workers: &[u32], server: UnitId, update: f64, inc: Option<UnitId>) -> Way {
    let elsewhere = |unit: UnitId| (0..workers.len()).any(|at| at != unit.0 && workers[at] > 0);
    let whole = inc.is_some_and(|unit| !elsewhere(unit));
    let flow = |unit: usize| {
        let from = UnitId(unit);
        let aggregated = inc == Some(from);
        let to = if whole { from } else { server };
        let weight = if aggregated && !whole { 1.0 } else { f64::from(workers[unit]) };
        Flow { from, to, weight }
    };
    let units = (0..workers.len()).filter(|&unit| workers[unit] > 0);
    let flows: Vec<Flow> = units.map(flow).collect();
    let mut load: Vec<f64> = workers.iter().map(|&count| f64::from(count)).collect();
    if !whole {
        let arriving = flows.iter().filter(|flow| flow.from != server);
        load[server.0] += arriving.map(|flow| flow.weight).sum::<f64>();
        if inc != Some(server) {
            load[server.0] += f64::from(workers[server.0]);
        }
    }
    Way { inc, flows, load, update: if whole { 0.0 } else { update } }
}

fn not_negative(id: u32, what: &str, bits: f64) -> Result<(), Error> {
    if bits.is_finite() && bits >= 0.0 {
        return Ok(());
    }
    Err(Error::job(id, format!("a {what} of {bits} bits; choose 0 or more")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flows(way: &Way) -> Vec<(usize, usize, f64)> {
        way.flows.iter().map(|flow| (flow.from.0, flow.to.0, flow.weight)).collect()
    }

    fn training(workers: &[u32], server: usize) -> Job {
        Job::training(7, 0, workers, UnitId(server), 8.0, 0.5).unwrap()
    }

    #[test]
    fn workers_beside_their_server_have_data_even_if_others_are_elsewhere() {
        // With E in eqs. 4 and 8, unit 0 has no flow.
        let job = training(&[2, 3, 0], 0);
        assert_eq!(flows(&job.ways[0]), [(0, 0, 2.0), (1, 0, 3.0)]);
        assert_eq!(job.ways[0].load, [2.0 + 3.0 + 2.0, 3.0, 0.0]);
    }

    #[test]
    fn a_job_summed_in_its_unit_has_data_wherever_its_server_is() {
        // With PS in eqs. 4 and 8, the job has no flow, and ends at once.
        let job = training(&[0, 4, 0], 2);
        assert_eq!(job.ways.len(), 2);
        assert_eq!(job.ways[1].inc, Some(UnitId(1)));
        assert_eq!(flows(&job.ways[1]), [(1, 1, 4.0)]);
        assert_eq!(job.ways[1].load, [0.0, 4.0, 0.0]);
        assert_eq!(job.saved(1), 32.0);
    }

    #[test]
    fn partial_sums_keep_the_update_of_the_server() {
        // With §IV.A's sentence instead of eq. 11, the second and third way have no update.
        let job = training(&[2, 3, 0], 2);
        assert_eq!(job.ways.iter().map(|way| way.update).collect::<Vec<_>>(), [0.5; 3]);
        assert_eq!(training(&[0, 4, 0], 2).ways[1].update, 0.0);
    }

    #[test]
    fn one_switch_sends_a_partial_sum_and_the_other_units_send_gradients() {
        let job = training(&[2, 3, 0], 2);
        assert_eq!(flows(&job.ways[1]), [(0, 2, 1.0), (1, 2, 3.0)]);
        assert_eq!(job.ways[1].load, [2.0, 3.0, 4.0]);
        assert_eq!(flows(&job.ways[2]), [(0, 2, 2.0), (1, 2, 1.0)]);
    }

    #[test]
    fn the_load_of_a_server_beside_the_aggregating_switch_is_eq_5_as_printed() {
        // (1 - k) W PS is 0: the partial sum of weight 1 is a flow, but no load.
        let job = training(&[2, 3], 0);
        assert_eq!(flows(&job.ways[1]), [(0, 0, 1.0), (1, 0, 3.0)]);
        assert_eq!(job.ways[1].load, [2.0 + 3.0, 3.0]);
    }

    #[test]
    fn local_aggregation_only_keeps_whole_jobs() {
        assert_eq!(training(&[2, 3, 0], 2).local_inc_only().ways.len(), 1);
        assert_eq!(training(&[2, 0, 0], 2).local_inc_only().ways.len(), 2);
        // Nothing leaves unit 0 but partial sums from unit 1: not a local job.
        assert_eq!(training(&[2, 3, 0], 0).local_inc_only().ways.len(), 1);
    }

    #[test]
    fn a_coflow_sums_demands_with_the_same_ends() {
        let demand = |from, to, bits| Demand { from: UnitId(from), to: UnitId(to), bits };
        let demands = [demand(0, 1, 2.0), demand(1, 1, 1.0), demand(0, 1, 2.0)];
        let job = Job::coflow(3, 1, 3, &demands).unwrap();
        assert_eq!(job.bits, 4.0);
        assert_eq!(flows(&job.ways[0]), [(0, 1, 1.0), (1, 1, 0.25)]);
        assert_eq!(job.ways[0].load, [1.0, 1.5, 0.0]);
        assert_eq!(job.ways.len(), 1);
    }

    #[test]
    fn a_coflow_that_stays_in_its_units_or_has_no_data_has_nothing_to_send() {
        let demand = |from, to, bits| Demand { from: UnitId(from), to: UnitId(to), bits };
        for demands in [[demand(0, 0, 9.0), demand(1, 1, 1.0)], [demand(0, 1, 0.0); 2]] {
            let job = Job::coflow(3, 1, 3, &demands).unwrap();
            assert_eq!((job.bits, flows(&job.ways[0])), (0.0, vec![]));
        }
        let crosses = Job::coflow(3, 1, 3, &[demand(0, 0, 8.0), demand(0, 1, 2.0)]).unwrap();
        assert_eq!(flows(&crosses.ways[0]), [(0, 0, 1.0), (0, 1, 0.25)]);
    }

    #[test]
    fn impossible_jobs_are_one_clear_line() {
        let none = Job::training(7, 0, &[0, 0], UnitId(0), 8.0, 0.5).unwrap_err();
        assert_eq!(none.to_string(), "job 7: it has no workers; give at least one unit a worker");
        let server = Job::training(7, 0, &[1, 0], UnitId(2), 8.0, 0.5).unwrap_err();
        assert_eq!(server.to_string(), "job 7: its server is in unit 2; choose 0 to 1");
        for bits in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(Job::training(7, 0, &[1], UnitId(0), bits, 0.5).is_err(), "{bits}");
        }
        assert!(Job::training(7, 0, &[1], UnitId(0), 8.0, f64::NAN).is_err());
        let empty = Job::coflow(9, 0, 2, &[]).unwrap_err();
        assert_eq!(empty.to_string(), "job 9: it has no demands; give it at least one");
    }
}
