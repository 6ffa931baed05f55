//! Segments of switch memory: allocation of aggregators to jobs (P4INC-AOI §VI-B).
//!
//! A job's workers choose aggregators themselves, relative to one offset: the segment of a job that
//! is summed in several switches starts at the same aggregator in each switch. Segments of
//! different jobs never overlap in a switch, and the switch confines each worker to its job's
//! segment.
//!
//! Admission takes the first place that is free in all switches of the job. Release merges
//! neighbouring free pieces, so that space left by many small jobs can serve a large one. Running
//! jobs are never moved to make room: their workers have packets in flight that name aggregators.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tributary_wire::{AggregatorIndex, JobId, Segment, Service};

use crate::SwitchId;

/// A job's request for a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Demand {
    /// The job.
    pub job: JobId,
    /// The service that uses the segment. A job that moves from one segment to another holds both
    /// until the old one is swept.
    pub service: Service,
    /// The switches that add for the job; not empty.
    pub units: BTreeSet<SwitchId>,
    /// Aggregators in each switch; not zero.
    pub size: u32,
}

/// Why a job gets no segment.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// No free piece is large enough.
    #[error(
        "job {job} wants {wanted} aggregators in one piece, and the largest free piece has {largest}"
    )]
    Short {
        /// The job.
        job: JobId,
        /// Requested number of aggregators.
        wanted: u32,
        /// Aggregators in the largest piece that it could have had.
        largest: u32,
        /// The switch that is short of memory; or, if each has room but at different places, all of
        /// the job's switches.
        switches: BTreeSet<SwitchId>,
    },
    /// The job holds a segment already.
    #[error("job {0} holds a segment already")]
    Holds(JobId),
    /// The requested segment overlaps with another job's, or exceeds the pool.
    #[error("job {job} cannot have the aggregators {segment}: they are not free")]
    Taken {
        /// The job.
        job: JobId,
        /// The requested segment.
        segment: Segment,
    },
    /// The request names no switch or no aggregators.
    #[error("job {0} asks for no aggregators")]
    Nothing(JobId),
}

/// Allocates segments in a set of identical switches.
#[derive(Clone, Debug)]
pub struct Allocator {
    /// Free pieces, indexed by [`SwitchId`].
    free: Vec<FreeList>,
    held: BTreeMap<(JobId, Service), Holding>,
    /// The size of every segment, if jobs cannot choose it.
    part: Option<u32>,
}

/// The segment of a job and its switches.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Holding {
    units: BTreeSet<SwitchId>,
    segment: Segment,
}

impl Allocator {
    /// An allocator for switches with `pool` aggregators each, all free.
    #[must_use]
    pub fn new(switches: usize, pool: u32) -> Self {
        let free = vec![FreeList::all(pool); switches];
        Self { free, held: BTreeMap::new(), part: None }
    }

    /// As [`new`](Self::new), with the pool divided once into equal parts of an even size. A job
    /// gets one part regardless of its request: SwitchML's static pools. The remainder is unused.
    ///
    /// `None` if a part would be empty.
    #[must_use]
    pub fn partitioned(switches: usize, pool: u32, partitions: u32) -> Option<Self> {
        let part = pool.checked_div(partitions)? & !1;
        if part == 0 {
            return None;
        }
        Some(Self { part: Some(part), ..Self::new(switches, part * partitions) })
    }

    /// Gives a job the first segment that is free in all its switches.
    ///
    /// # Errors
    /// [`Refusal`]; nothing has changed then.
    ///
    /// # Panics
    /// If the demand names an unknown switch.
    pub fn admit(&mut self, demand: &Demand) -> Result<Segment, Refusal> {
        let &Demand { job, service, ref units, size: wanted } = demand;
        self.check((job, service), units, wanted)?;
        let size = self.part.unwrap_or(wanted);
        let common = self.common(units);
        let place = if wanted <= size { common.first_fit(size) } else { None };
        let Some(offset) = place else {
            // If one switch alone is too short, the error names it.
            let largest = |switch: &SwitchId| self.free[switch.0].largest();
            let shortest = units.iter().copied().min_by_key(largest);
            let alone = shortest.filter(|switch| largest(switch) < size);
            let largest = match alone {
                Some(switch) => largest(&switch),
                None => common.largest(),
            };
            let largest = self.part.map_or(largest, |part| largest.min(part));
            let switches = alone.map_or_else(|| units.clone(), |switch| BTreeSet::from([switch]));
            return Err(Refusal::Short { job, wanted, largest, switches });
        };
        let segment = Segment { offset: AggregatorIndex(offset), size };
        self.take((job, service), units, segment);
        Ok(segment)
    }

    /// Gives a job the segment at `offset` with the demand's size.
    ///
    /// # Errors
    /// [`Refusal`]; nothing has changed then.
    ///
    /// # Panics
    /// If the demand names an unknown switch.
    pub fn claim(&mut self, demand: &Demand, offset: AggregatorIndex) -> Result<(), Refusal> {
        let &Demand { job, service, ref units, size } = demand;
        let segment = Segment { offset, size };
        self.check((job, service), units, size)?;
        let free = |switch: &SwitchId| self.free[switch.0].contains(segment);
        if !units.iter().all(free) {
            return Err(Refusal::Taken { job, segment });
        }
        self.take((job, service), units, segment);
        Ok(())
    }

    /// The size of the segment that a request for `wanted` aggregators gets, if it gets one.
    #[must_use]
    pub fn rounded(&self, wanted: u32) -> u32 {
        self.part.unwrap_or(wanted).max(wanted)
    }

    /// Frees a job's segment for a service. `None` if it has none.
    pub fn release(&mut self, job: JobId, service: Service) -> Option<Segment> {
        let Holding { units, segment } = self.held.remove(&(job, service))?;
        for switch in units {
            self.free[switch.0].give(range(segment));
        }
        Some(segment)
    }

    /// Frees all segments of a job.
    pub fn release_all(&mut self, job: JobId) {
        let services: Vec<Service> =
            self.held.keys().filter(|(holder, _)| *holder == job).map(|(_, own)| *own).collect();
        for service in services {
            self.release(job, service);
        }
    }

    /// Free aggregators of a switch.
    ///
    /// # Panics
    /// If there is no such switch.
    #[must_use]
    pub fn free(&self, switch: SwitchId) -> u32 {
        self.free[switch.0].0.iter().map(|(start, end)| end - start).sum()
    }

    /// The free pieces of a switch.
    ///
    /// # Panics
    /// If there is no such switch.
    #[must_use]
    pub fn gaps(&self, switch: SwitchId) -> Vec<Segment> {
        let pieces = self.free[switch.0].0.iter();
        let segment = |(&start, &end): (&u32, &u32)| Segment {
            offset: AggregatorIndex(start),
            size: end - start,
        };
        pieces.map(segment).collect()
    }

    /// Aggregators in the largest free piece of a switch.
    ///
    /// # Panics
    /// If there is no such switch.
    #[must_use]
    pub fn largest(&self, switch: SwitchId) -> u32 {
        let largest = self.free[switch.0].largest();
        self.part.map_or(largest, |part| largest.min(part))
    }

    fn check(
        &self,
        (job, service): (JobId, Service),
        units: &BTreeSet<SwitchId>,
        size: u32,
    ) -> Result<(), Refusal> {
        if self.held.contains_key(&(job, service)) {
            return Err(Refusal::Holds(job));
        }
        if units.is_empty() || size == 0 {
            return Err(Refusal::Nothing(job));
        }
        Ok(())
    }

    /// The pieces that are free in all of these switches.
    fn common(&self, units: &BTreeSet<SwitchId>) -> FreeList {
        let lists = units.iter().map(|switch| &self.free[switch.0]);
        lists.cloned().reduce(|common, list| common.intersection(&list)).unwrap_or_default()
    }

    fn take(&mut self, holder: (JobId, Service), units: &BTreeSet<SwitchId>, segment: Segment) {
        for switch in units {
            self.free[switch.0].take(range(segment));
        }
        self.held.insert(holder, Holding { units: units.clone(), segment });
    }
}

/// The range of a segment within the pool, so that its end is an index.
fn range(segment: Segment) -> Range<u32> {
    segment.offset.0..segment.offset.0 + segment.size
}

/// Free pieces of one switch, from start to end. No two pieces touch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct FreeList(BTreeMap<u32, u32>);

impl FreeList {
    fn all(pool: u32) -> Self {
        Self((pool > 0).then_some((0, pool)).into_iter().collect())
    }

    fn first_fit(&self, size: u32) -> Option<u32> {
        self.0.iter().find(|&(start, end)| end - start >= size).map(|(&start, _)| start)
    }

    fn largest(&self) -> u32 {
        self.0.iter().map(|(start, end)| end - start).max().unwrap_or(0)
    }

    /// The piece that contains a range.
    fn around(&self, range: &Range<u32>) -> Option<Range<u32>> {
        let (&start, &end) = self.0.range(..=range.start).next_back()?;
        (range.end <= end).then_some(start..end)
    }

    fn contains(&self, segment: Segment) -> bool {
        let around = |end: AggregatorIndex| self.around(&(segment.offset.0..end.0));
        segment.end().and_then(around).is_some()
    }

    /// Removes a range from the piece that contains it.
    fn take(&mut self, range: Range<u32>) {
        let piece = self.around(&range).expect("only what is free is taken");
        self.0.remove(&piece.start);
        for rest in [piece.start..range.start, range.end..piece.end] {
            if !rest.is_empty() {
                self.0.insert(rest.start, rest.end);
            }
        }
    }

    /// Adds a range and merges it with its neighbours.
    fn give(&mut self, mut range: Range<u32>) {
        if let Some((&start, &end)) = self.0.range(..range.start).next_back()
            && end == range.start
        {
            range.start = start;
        }
        if let Some(end) = self.0.remove(&range.end) {
            range.end = end;
        }
        self.0.insert(range.start, range.end);
    }

    fn intersection(&self, other: &Self) -> Self {
        let mut both = BTreeMap::new();
        let (mut own, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(&(&a, &a_end)), Some(&(&b, &b_end))) = (own.peek(), others.peek()) {
            let (start, end) = (a.max(b), a_end.min(b_end));
            if start < end {
                both.insert(start, end);
            }
            // The piece that ends first overlaps with no later piece.
            if a_end <= b_end {
                own.next()
            } else {
                others.next()
            };
        }
        Self(both)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONE: Service = Service::new(1);

    fn job(number: u16) -> JobId {
        JobId::new(number).unwrap()
    }

    fn demand(number: u16, units: &[usize], size: u32) -> Demand {
        let units = units.iter().map(|&unit| SwitchId(unit)).collect();
        Demand { job: job(number), service: ONE, units, size }
    }

    fn at(offset: u32, size: u32) -> Segment {
        Segment { offset: AggregatorIndex(offset), size }
    }

    #[test]
    fn first_fit_and_reuse_of_merged_neighbours() {
        let mut memory = Allocator::new(1, 100);
        for number in 1..=5 {
            let segment = memory.admit(&demand(number, &[0], 20)).unwrap();
            assert_eq!(segment, at(u32::from(number - 1) * 20, 20));
        }
        // In whatever order three neighbours are freed, they merge into one piece for a large job.
        for order in [[2, 3, 4], [2, 4, 3], [4, 3, 2], [3, 2, 4]] {
            for number in order {
                memory.release(job(number), ONE).unwrap();
            }
            assert_eq!(memory.admit(&demand(9, &[0], 60)), Ok(at(20, 60)), "{order:?}");
            memory.release(job(9), ONE).unwrap();
            for number in 2..=4 {
                memory.admit(&demand(number, &[0], 20)).unwrap();
            }
        }
    }

    #[test]
    fn one_place_for_all_switches_of_a_job() {
        let mut memory = Allocator::new(3, 64);
        assert_eq!(memory.admit(&demand(1, &[0], 16)), Ok(at(0, 16)));
        assert_eq!(memory.admit(&demand(2, &[1], 32)), Ok(at(0, 32)));
        // Both are free from 32 on.
        assert_eq!(memory.admit(&demand(3, &[0, 1], 32)), Ok(at(32, 32)));
        // The third switch is still free.
        assert_eq!(memory.admit(&demand(4, &[2], 64)), Ok(at(0, 64)));
        assert_eq!([0, 1, 2].map(|unit| memory.free(SwitchId(unit))), [16, 0, 0]);
    }

    #[test]
    fn a_refusal_names_job_demand_largest_piece_and_switch() {
        let mut memory = Allocator::new(2, 64);
        memory.admit(&demand(1, &[0], 40)).unwrap();
        memory.admit(&demand(2, &[1], 30)).unwrap();
        let refusal = memory.admit(&demand(3, &[0, 1], 32)).unwrap_err();
        let switches = BTreeSet::from([SwitchId(0)]);
        assert_eq!(refusal, Refusal::Short { job: job(3), wanted: 32, largest: 24, switches });
        assert_eq!(
            refusal.to_string(),
            "job 3 wants 32 aggregators in one piece, and the largest free piece has 24"
        );
        // Both have room, at different places.
        memory.admit(&demand(4, &[0], 8)).unwrap();
        memory.release(job(1), ONE).unwrap();
        let refusal = memory.admit(&demand(3, &[0, 1], 20)).unwrap_err();
        let switches = BTreeSet::from([SwitchId(0), SwitchId(1)]);
        assert_eq!(refusal, Refusal::Short { job: job(3), wanted: 20, largest: 16, switches });
    }

    #[test]
    fn a_job_holds_one_segment_and_empty_demands_are_refused() {
        let mut memory = Allocator::new(1, 8);
        memory.admit(&demand(1, &[0], 2)).unwrap();
        assert_eq!(memory.admit(&demand(1, &[0], 2)), Err(Refusal::Holds(job(1))));
        assert_eq!(memory.admit(&demand(2, &[0], 0)), Err(Refusal::Nothing(job(2))));
        assert_eq!(memory.admit(&demand(2, &[], 1)), Err(Refusal::Nothing(job(2))));
        assert_eq!(memory.release(job(2), ONE), None);
        assert_eq!(memory.release(job(1), ONE), Some(at(0, 2)));
        assert_eq!((memory.release(job(1), ONE), memory.free(SwitchId(0))), (None, 8));
    }

    #[test]
    fn a_job_that_is_moved_holds_two_segments() {
        let mut memory = Allocator::new(1, 8);
        let moved = |service, size| Demand { service, ..demand(1, &[0], size) };
        let (old, new) = (Service::new(255), ONE);
        assert_eq!(memory.admit(&moved(old, 3)), Ok(at(0, 3)));
        assert_eq!(memory.admit(&moved(new, 5)), Ok(at(3, 5)));
        assert_eq!((memory.free(SwitchId(0)), memory.largest(SwitchId(0))), (0, 0));
        assert_eq!(memory.release(job(1), old), Some(at(0, 3)));
        assert_eq!(memory.release(job(1), old), None);
        assert_eq!((memory.free(SwitchId(0)), memory.largest(SwitchId(0))), (3, 3));
    }

    #[test]
    fn a_chosen_place_must_be_free_and_in_the_switch() {
        let mut memory = Allocator::new(1, 100);
        let mut claim = |number, segment: Segment| {
            memory.claim(&demand(number, &[0], segment.size), segment.offset)
        };
        claim(1, at(40, 20)).unwrap();
        let beyond = at(u32::MAX, 2);
        for segment in [at(39, 2), at(59, 1), at(0, 41), at(90, 11), at(100, 1), beyond] {
            let refusal = claim(2, segment).unwrap_err();
            assert_eq!(refusal, Refusal::Taken { job: job(2), segment });
        }
        claim(2, at(60, 40)).unwrap();
        assert_eq!(memory.admit(&demand(3, &[0], 40)), Ok(at(0, 40)));
    }

    #[test]
    fn static_parts_are_equal_and_even() {
        assert!(Allocator::partitioned(1, 15, 8).is_none());
        assert!(Allocator::partitioned(1, 15, 0).is_none());
        // 100 / 8 is 12.5: parts of 12, and 4 aggregators unused.
        let mut memory = Allocator::partitioned(2, 100, 8).unwrap();
        for number in 1..=8 {
            let wanted = u32::from(number);
            let segment = memory.admit(&demand(number, &[0], wanted)).unwrap();
            assert_eq!(segment, at(u32::from(number - 1) * 12, 12));
        }
        let refusal = memory.admit(&demand(9, &[0], 1)).unwrap_err();
        let short = |wanted, largest, unit| {
            let switches = BTreeSet::from([SwitchId(unit)]);
            Refusal::Short { job: job(9), wanted, largest, switches }
        };
        assert_eq!(refusal, short(1, 0, 0));
        assert_eq!((memory.rounded(1), memory.rounded(12)), (12, 12));
        // A job can have only one part, however much is free.
        assert_eq!(memory.admit(&demand(9, &[1], 13)), Err(short(13, 12, 1)));
    }

    /// A naive allocator: an owner for every aggregator.
    struct Cells(Vec<Vec<Option<u16>>>);

    impl Cells {
        fn is_free(&self, units: &BTreeSet<SwitchId>, cells: Range<usize>) -> bool {
            units.iter().all(|unit| self.0[unit.0][cells.clone()].iter().all(Option::is_none))
        }

        fn places(&self, units: &BTreeSet<SwitchId>, size: usize) -> Option<usize> {
            let pool = self.0[0].len();
            (0..pool.saturating_sub(size - 1)).find(|&at| self.is_free(units, at..at + size))
        }

        fn largest(&self, units: &BTreeSet<SwitchId>) -> usize {
            let pool = self.0[0].len();
            (1..=pool).rev().find(|&size| self.places(units, size).is_some()).unwrap_or(0)
        }

        fn set(&mut self, units: &BTreeSet<SwitchId>, cells: Range<usize>, owner: Option<u16>) {
            for unit in units {
                for cell in &mut self.0[unit.0][cells.clone()] {
                    assert!(cell.is_some() != owner.is_some(), "overlap, or freed twice");
                    *cell = owner;
                }
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Act {
        Admit { job: u16, units: BTreeSet<SwitchId>, size: u32 },
        Release { job: u16 },
    }

    const SWITCHES: usize = 4;
    const POOL: u32 = 48;

    fn act() -> impl Strategy<Value = Act> {
        let unit = (0..SWITCHES).prop_map(SwitchId);
        let units = proptest::collection::btree_set(unit, 1..=SWITCHES);
        prop_oneof![
            3 => (1..16_u16, units, prop_oneof![1..8_u32, 1..=POOL + 2])
                .prop_map(|(job, units, size)| Act::Admit { job, units, size }),
            2 => (1..16_u16).prop_map(|job| Act::Release { job }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// Compares random histories with an owner per aggregator: segments never overlap, the
        /// first free place is taken, the fields of refusals are correct, and nothing leaks.
        #[test]
        fn histories_agree_with_one_owner_per_cell(acts in proptest::collection::vec(act(), 1..120)) {
            let mut memory = Allocator::new(SWITCHES, POOL);
            let mut cells = Cells(vec![vec![None; POOL as usize]; SWITCHES]);
            let mut held: BTreeMap<u16, (BTreeSet<SwitchId>, Range<usize>)> = BTreeMap::new();
            for act in acts {
                match act {
                    Act::Admit { job: number, units, size } => {
                        let demand = Demand { job: job(number), service: ONE, units: units.clone(), size };
                        let place = cells.places(&units, size as usize);
                        match memory.admit(&demand) {
                            Ok(segment) => {
                                prop_assert!(!held.contains_key(&number));
                                prop_assert_eq!(Some(segment.offset.0 as usize), place);
                                prop_assert_eq!(segment.size, size);
                                let range = place.unwrap()..place.unwrap() + size as usize;
                                cells.set(&units, range.clone(), Some(number));
                                held.insert(number, (units, range));
                            }
                            Err(Refusal::Holds(_)) => prop_assert!(held.contains_key(&number)),
                            Err(Refusal::Short { largest, switches, .. }) => {
                                prop_assert_eq!(place, None);
                                prop_assert_eq!(largest as usize, cells.largest(&switches));
                                prop_assert!(switches == units || switches.len() == 1);
                                prop_assert!(switches.is_subset(&units) && largest < size);
                            }
                            Err(other) => prop_assert!(false, "{other}"),
                        }
                    }
                    Act::Release { job: number } => {
                        let released = memory.release(job(number), ONE);
                        prop_assert_eq!(released.is_some(), held.contains_key(&number));
                        if let Some((units, range)) = held.remove(&number) {
                            cells.set(&units, range, None);
                        }
                    }
                }
                for unit in 0..SWITCHES {
                    let free = cells.0[unit].iter().filter(|cell| cell.is_none()).count();
                    prop_assert_eq!(memory.free(SwitchId(unit)) as usize, free);
                }
            }
            for number in held.into_keys() {
                memory.release(job(number), ONE);
            }
            // One piece again in every switch.
            let everywhere = (0..SWITCHES).map(SwitchId).collect();
            let all = Demand { job: job(99), service: ONE, units: everywhere, size: POOL };
            prop_assert_eq!(memory.admit(&all), Ok(at(0, POOL)));
        }

        /// Static parts: as many jobs as parts, never two jobs in one part.
        #[test]
        fn parts_are_given_once(acts in proptest::collection::vec((1..8_u16, any::<bool>()), 1..80)) {
            let mut memory = Allocator::partitioned(1, 50, 4).unwrap();
            let mut parts: BTreeMap<u16, u32> = BTreeMap::new();
            for (number, comes) in acts {
                if !comes {
                    let part = memory.release(job(number), ONE).map(|segment| segment.offset.0);
                    prop_assert_eq!(part, parts.remove(&number));
                    continue;
                }
                let known = parts.contains_key(&number);
                let admitted = memory.admit(&demand(number, &[0], 5));
                prop_assert_eq!(admitted.is_ok(), !known && parts.len() < 4);
                if let Ok(segment) = admitted {
                    prop_assert_eq!((segment.size, segment.offset.0 % 12), (12, 0));
                    prop_assert!(segment.offset.0 < 48);
                    prop_assert!(parts.values().all(|&other| other != segment.offset.0));
                    parts.insert(number, segment.offset.0);
                }
            }
        }
    }
}
