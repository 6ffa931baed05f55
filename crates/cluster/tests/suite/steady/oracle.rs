//! The rates are max-min fair, according to linear programs that are independent of water-filling.
//!
//! The fairly shared quantities are the rates of jobs and, for each switch that a job may use, the
//! part of the rate that it aggregates. Link loads are linear in these, with one exception. If both
//! a leaf and the root aggregate a part of a job, the load of the root's link depends on which of
//! the two aggregates more. Every order of the two is a separate set of linear programs, and the
//! fairest solution of all counts.
//!
//! For each order the fairest solution is computed iteratively: maximise the minimum, fix the
//! quantities that cannot be larger, and continue with the rest.

use good_lp::{
    Expression, ProblemVariables, Solution, SolverModel, Variable, constraint, microlp, variable,
};
use tributary_cluster::{Cluster, RackIndex, State};

use crate::steady::fair::{Given, given};
use crate::steady::hierarchy::Link;
use crate::steady::random::{Random, Size, start};
use crate::steady::seeds;

/// Maximum number of orders of leaves and roots that are tried, as a power of two.
const MOST_ORDERS: usize = 4;

/// Tolerance for the solver's rounding.
const SLACK: f64 = 1e-7;

/// A fairly shared quantity: the rate of a job, or the part of it that a rack's switch aggregates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entity {
    job: usize,
    rack: Option<RackIndex>,
}

/// Which of a root and a leaf of a job aggregates more.
struct Order {
    job: usize,
    leaf: RackIndex,
    leaf_longer: bool,
}

struct Program<'a> {
    cluster: &'a Cluster,
    all: &'a [Given],
    entities: Vec<Entity>,
    orders: Vec<Order>,
}

impl<'a> Program<'a> {
    fn new(cluster: &'a Cluster, all: &'a [Given]) -> Self {
        let mut entities = Vec::new();
        let mut orders = Vec::new();
        for (job, one) in all.iter().enumerate() {
            entities.push(Entity { job, rack: None });
            let racks = one.hierarchy.aggregating.iter();
            entities.extend(racks.map(|&rack| Entity { job, rack: Some(rack) }));
            let aggregates = |rack: &RackIndex| one.hierarchy.aggregating.contains(rack);
            let several = one.hierarchy.leaves.iter().filter(|(_, workers)| **workers > 1);
            let leaves = several.map(|(leaf, _)| *leaf).filter(aggregates);
            let open = leaves.filter(|_| aggregates(&one.hierarchy.root));
            orders.extend(open.map(|leaf| Order { job, leaf, leaf_longer: false }));
        }
        Self { cluster, all, entities, orders }
    }

    /// The fairest solution over all orders.
    fn fairest(&mut self) -> Vec<f64> {
        let mut best: Option<(Vec<f64>, Vec<f64>)> = None;
        for choice in 0..1_u32 << self.orders.len() {
            for (bit, order) in self.orders.iter_mut().enumerate() {
                order.leaf_longer = choice >> bit & 1 == 1;
            }
            let found = self.fairest_in_order();
            let mut sorted = found.clone();
            sorted.sort_by(f64::total_cmp);
            if best.as_ref().is_none_or(|(_, least)| is_fairer(&sorted, least)) {
                best = Some((found, sorted));
            }
        }
        best.expect("there is an order").0
    }

    fn fairest_in_order(&self) -> Vec<f64> {
        let mut settled = vec![None; self.entities.len()];
        while settled.contains(&None) {
            let least = self.solve(&settled, None);
            let mut some = false;
            for entity in 0..self.entities.len() {
                if settled[entity].is_some() {
                    continue;
                }
                if self.solve(&settled, Some((entity, least))) < least + 1e-5 {
                    settled[entity] = Some(least);
                    some = true;
                }
            }
            assert!(some, "somebody cannot have more than the least");
        }
        settled.into_iter().map(|value| value.expect("all are settled")).collect()
    }

    /// The largest possible minimum of the quantities that are not fixed, or the largest possible
    /// value of one of them if all have at least a given value.
    fn solve(&self, settled: &[Option<f64>], wanted: Option<(usize, f64)>) -> f64 {
        let mut variables = ProblemVariables::new();
        let values: Vec<_> =
            self.entities.iter().map(|_| variables.add(variable().min(0))).collect();
        let least = variables.add(variable().min(0));
        let goal = wanted.map_or(least, |(entity, _)| values[entity]);
        let mut model = variables.maximise(goal).using(microlp);
        for (&value, settled) in values.iter().zip(settled) {
            match (settled, wanted) {
                (Some(settled), _) => model.add_constraint(constraint!(value >= *settled - SLACK)),
                (None, Some((_, at_least))) => {
                    model.add_constraint(constraint!(value >= at_least - SLACK))
                }
                (None, None) => model.add_constraint(constraint!(value >= least)),
            };
        }
        // The program must be bounded.
        model.add_constraint(constraint!(least <= 1e6));
        for limit in self.limits(&values) {
            model.add_constraint(limit);
        }
        let solution = model.solve().expect("nothing at all is a solution");
        solution.value(goal)
    }

    /// Constraints for memory, links, and the order.
    fn limits(&self, values: &[Variable]) -> Vec<good_lp::Constraint> {
        let of = |job, rack| {
            let at = self.entities.iter().position(|entity| *entity == Entity { job, rack });
            at.map_or(Expression::from(0.0), |at| Expression::from(values[at]))
        };
        let mut limits = Vec::new();
        let mut loads = std::collections::BTreeMap::<Link, Expression>::new();
        let mut memory = std::collections::BTreeMap::<RackIndex, Expression>::new();
        for (job, Given { hierarchy, .. }) in self.all.iter().enumerate() {
            let rate = of(job, None);
            for &rack in &hierarchy.aggregating {
                limits.push(constraint!(of(job, Some(rack)) <= rate.clone()));
                *memory.entry(rack).or_default() += of(job, Some(rack));
            }
            for worker in &hierarchy.workers {
                *loads.entry(Link::Server(worker.0)).or_default() += rate.clone();
            }
            let at_root = of(job, Some(hierarchy.root));
            let beside = f64::from(hierarchy.beside);
            let mut to_ps = at_root.clone() + beside * (rate.clone() - at_root.clone());
            for (&leaf, &workers) in &hierarchy.leaves {
                let at_leaf = of(job, Some(leaf));
                let workers = f64::from(workers);
                let up = workers * rate.clone() - (workers - 1.0) * at_leaf.clone();
                for link in hierarchy.path(self.cluster, leaf) {
                    *loads.entry(link).or_default() += up.clone();
                }
                let order = self.orders.iter().find(|order| (order.job, order.leaf) == (job, leaf));
                to_ps += match order {
                    // The traffic that the root does not aggregate, as it leaves the leaf.
                    Some(Order { leaf_longer: true, .. }) => {
                        limits.push(constraint!(at_leaf >= at_root.clone()));
                        up - at_root.clone()
                    }
                    Some(_) => {
                        limits.push(constraint!(at_leaf <= at_root.clone()));
                        workers * (rate.clone() - at_root.clone())
                    }
                    // One of the two aggregates nothing, or the leaf has only one worker.
                    None => up - workers * at_root.clone(),
                };
            }
            *loads.entry(Link::Server(hierarchy.ps.0)).or_default() += to_ps;
        }
        limits.extend(
            loads.into_iter().map(|(link, load)| constraint!(load <= link.gbps(self.cluster))),
        );
        limits.extend(memory.into_iter().map(|(rack, sum)| {
            let pat_gbps = self.cluster.rack(rack).pat_gbps;
            constraint!(sum <= pat_gbps)
        }));
        limits
    }
}

/// Whether `here` is larger at the first difference. Both are sorted.
fn is_fairer(here: &[f64], there: &[f64]) -> bool {
    let mut both = here.iter().zip(there);
    both.find(|(a, b)| (**a - **b).abs() > 1e-4).is_some_and(|(a, b)| a > b)
}

/// Numbers of checked cases.
#[derive(Default, Debug)]
struct Tally {
    cases: u32,
    /// Cases with several jobs that use the network.
    shared: u32,
    /// Cases in which a leaf and the root of a job may both aggregate a part.
    ordered: u32,
}

fn check(seed: u64, cluster: &Cluster, state: &mut State<'_>, tally: &mut Tally) {
    let (view, network) = state.with_network();
    let all = given(view, network);
    let mut program = Program::new(cluster, &all);
    if all.is_empty() || program.orders.len() > MOST_ORDERS {
        return;
    }
    tally.cases += 1;
    tally.shared += u32::from(all.len() > 1);
    tally.ordered += u32::from(!program.orders.is_empty());
    let fairest = program.fairest();
    for (entity, fair) in program.entities.iter().zip(fairest) {
        let one = &all[entity.job];
        let filled = entity.rack.map_or(one.rate_gbps, |rack| one.shares_gbps[&rack]);
        let what = format!("{:?} {:?}", one.job, entity.rack);
        let same = (filled - fair).abs() <= 1e-3 + 1e-4 * fair;
        assert!(same, "seed {seed}: {what}: {filled}, by linear programs {fair}");
    }
}

#[test]
fn nothing_is_fairer() {
    let mut tally = Tally::default();
    let seeds = seeds(400);
    let all = seeds.end > 1 && seeds.start == 0;
    for seed in seeds {
        let mut random = Random::new(seed, Size { racks: 3, servers_per_rack: 3 });
        let cluster = random.cluster();
        let mut state = State::new(&cluster);
        start(&mut random, &mut state, 4, 6);
        check(seed, &cluster, &mut state, &mut tally);
    }
    assert!(!all || tally.shared > tally.cases / 4, "{tally:?}");
    assert!(!all || tally.ordered > tally.cases / 20, "{tally:?}");
}
