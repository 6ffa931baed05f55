//! A problem prepared for the schedulers: unusable ways are dropped, and resources have numbers.

use crate::limits;
use crate::{Circuits, Error, Job, Network, UnitId, Way};

/// Relative slack of all lower bounds: more than the tolerances of the checker on a bandwidth and on
/// data together, so that no schedule that the checker accepts lies below a bound.
pub(crate) const SLACK: f64 = 4.0 * crate::check::TOLERANCE;

/// The network and the jobs.
pub(crate) struct Instance<'a> {
    pub(crate) network: &'a Network,
    /// All pairs of units, the lower unit first.
    pub(crate) pairs: Vec<(usize, usize)>,
    pub(crate) jobs: Vec<Prepared>,
    /// The most slots of a schedule.
    pub(crate) slots: usize,
}

/// A job.
pub(crate) struct Prepared {
    pub(crate) arrival: usize,
    pub(crate) bits: f64,
    /// The usable ways, at least one.
    pub(crate) options: Vec<Choice>,
}

/// A usable way of a job. Factors are multiples of the job's rate.
pub(crate) struct Choice {
    /// Its index in [`Job::ways`].
    pub(crate) way: usize,
    /// The unit whose switch aggregates.
    pub(crate) inc: Option<usize>,
    pub(crate) update: f64,
    /// Factors of the load on switches, by unit.
    pub(crate) load: Vec<(usize, f64)>,
    /// Factors of the traffic between units, both directions together, by pair.
    pub(crate) pairs: Vec<(usize, f64)>,
    /// Factors of the traffic through the optical ports of units, by unit.
    pub(crate) ports: Vec<(usize, f64)>,
    /// The greatest rate in bits per second if there is no other job.
    pub(crate) fastest: f64,
    /// The least number of slots that the job sends in.
    pub(crate) least: usize,
}

impl<'a> Instance<'a> {
    pub(crate) fn new(network: &'a Network, jobs: &[Job]) -> Result<Self, Error> {
        let units = network.units.len();
        let slots = limits::slots(network, jobs);
        let pairs: Vec<_> = (0..units).flat_map(|a| (a + 1..units).map(move |b| (a, b))).collect();
        let prepared = jobs.iter().map(|job| {
            let ways = job.ways.iter().enumerate();
            let options: Vec<_> =
                ways.filter_map(|(index, way)| choice(network, &pairs, job, index, way)).collect();
            if options.is_empty() {
                let problem = "switches, ports or aggregation are missing for each of its ways; \
                               give the units more";
                return Err(Error::job(job.id, problem));
            }
            let least = options.iter().map(|choice| choice.least).min();
            limits::check(job, least.unwrap_or(0), slots)?;
            Ok(Prepared { arrival: job.arrival, bits: job.bits, options })
        });
        let jobs = prepared.collect::<Result<_, _>>()?;
        Ok(Self { network, pairs, jobs, slots })
    }

    /// No schedule ends later than this, in seconds.
    pub(crate) fn longest(&self) -> f64 {
        let options = self.jobs.iter().flat_map(|job| &job.options);
        let update = options.map(|choice| choice.update).fold(0.0, f64::max);
        self.slots as f64 * self.network.slot + update
    }

    /// Number of whole slots up to a time in seconds, from which an update is subtracted.
    pub(crate) fn deadline(&self, time: f64, update: f64) -> usize {
        // A negative number becomes 0.
        ((time - update) / self.network.slot + 1e-7).floor() as usize
    }

    /// Whether a job can be completed at a time in this way, were it alone.
    pub(crate) fn in_time(&self, job: usize, choice: &Choice, time: f64) -> bool {
        let end = self.jobs[job].arrival + choice.least;
        // A job without data can end in slot 0, but not before its update does.
        choice.update <= time + 1e-7 * self.network.slot
            && end <= self.deadline(time, choice.update)
    }

    /// The times in seconds at which the last job can be completed, in ascending order, from `from` to
    /// `to`: ends of slots plus updates (eq. 11).
    pub(crate) fn times(&self, from: f64, to: f64) -> Vec<f64> {
        let options = self.jobs.iter().flat_map(|job| &job.options);
        let mut updates: Vec<f64> = options.map(|choice| choice.update).collect();
        updates.sort_by(f64::total_cmp);
        updates.dedup();
        let slot = self.network.slot;
        let mut times = Vec::new();
        for update in updates {
            let first = ((from - update) / slot - 1e-7).ceil().max(0.0) as usize;
            let last = ((to - update) / slot + 1e-7).floor();
            if last >= 0.0 {
                times.extend((first..=last as usize).map(|end| end as f64 * slot + update));
            }
        }
        times.sort_by(f64::total_cmp);
        times.dedup_by(|a, b| (*a - *b).abs() <= 1e-7 * slot);
        times
    }

    /// The numbers of circuits as [`Circuits`].
    pub(crate) fn circuits(&self, counts: &[u32]) -> Circuits {
        let mut circuits = Circuits::none(self.network.units.len());
        for (&(a, b), &count) in self.pairs.iter().zip(counts) {
            circuits.set(UnitId(a), UnitId(b), count);
        }
        circuits
    }

    /// Numbers of circuits by pair.
    pub(crate) fn counts(&self, circuits: &Circuits) -> Vec<u32> {
        self.pairs.iter().map(|&(a, b)| circuits.between(UnitId(a), UnitId(b))).collect()
    }
}

/// Prepares a way, unless it is unusable.
fn choice(
    network: &Network,
    pairs: &[(usize, usize)],
    job: &Job,
    index: usize,
    way: &Way,
) -> Option<Choice> {
    if way.inc.is_some_and(|unit| network.unit(unit).inc == 0) {
        return None;
    }
    let units = network.units.len();
    let mut between = vec![0.0; pairs.len()];
    let mut through = vec![0.0; units];
    for flow in way.flows.iter().filter(|flow| flow.from != flow.to) {
        let (low, high) = (flow.from.0.min(flow.to.0), flow.from.0.max(flow.to.0));
        between[low * (2 * units - low - 1) / 2 + high - low - 1] += flow.weight;
        through[low] += flow.weight;
        through[high] += flow.weight;
    }
    let positive = |factors: &[f64]| -> Vec<(usize, f64)> {
        factors.iter().copied().enumerate().filter(|(_, factor)| *factor > 0.0).collect()
    };
    let mut choice = Choice {
        way: index,
        inc: way.inc.map(|unit| unit.0),
        update: way.update,
        load: positive(&way.load),
        pairs: positive(&between),
        ports: positive(&through),
        fastest: 0.0,
        least: 0,
    };
    choice.fastest = fastest(network, pairs, job.bits, &choice);
    if choice.fastest <= 0.0 {
        return None;
    }
    let slots = job.bits * (1.0 - SLACK) / (choice.fastest * network.slot);
    choice.least = slots.ceil() as usize;
    Some(choice)
}

/// The greatest rate that switches and ports allow a single job: a rate r takes ⌈w·r/B⌉ circuits
/// between two units, each of which takes a port of both.
fn fastest(network: &Network, pairs: &[(usize, usize)], bits: f64, choice: &Choice) -> f64 {
    let fits = |rate: f64| {
        let mut used = vec![0u64; network.units.len()];
        for &(pair, factor) in &choice.pairs {
            let circuits = (factor * rate / network.port_rate * (1.0 - SLACK)).ceil() as u64;
            let (a, b) = pairs[pair];
            used[a] += circuits;
            used[b] += circuits;
        }
        used.iter().zip(&network.units).all(|(used, unit)| *used <= u64::from(unit.ports))
    };
    let loads = choice.load.iter().map(|&(unit, factor)| network.units[unit].bandwidth / factor);
    let ports = choice
        .ports
        .iter()
        .map(|&(unit, factor)| f64::from(network.units[unit].ports) * network.port_rate / factor);
    // No job sends faster than all of its data in a slot, with or without the penalty of eq. 10.
    let alone = bits.max(1.0) / (network.slot - network.reconfiguration);
    let most = loads.chain(ports).fold(alone, f64::min);
    if fits(most) {
        return most;
    }
    // The rates that fit are those up to a threshold.
    let (mut low, mut high) = (0.0, most);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if fits(middle) { low = middle } else { high = middle }
    }
    low
}
