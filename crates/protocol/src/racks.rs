//! How packets name the workers of a job.

use tributary_wire::{Bitmap, POSITIONS_MAX, Rack, WorkerIndex, WorkerSet};

/// The workers of a job as packets name them, in two levels of 32 bits each (ATP §3.2, ESA §5.1).
///
/// A job has up to 32 *positions*. A position is a worker, or a *rack*: up to 32 workers whose
/// contributions one switch adds up first. A packet names positions, or workers of one rack
/// ([`Rack`]). Workers are numbered position by position.
///
/// A job of up to 32 workers may be *flat*: every worker has a position of its own, whatever racks
/// the workers are in. Switches then name the workers of a rack by their positions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Racks {
    /// Workers of each position; 0 after the last position.
    widths: [u8; POSITIONS_MAX as usize],
    positions: u8,
}

impl Racks {
    /// A flat job.
    ///
    /// # Panics
    ///
    /// If there are more than 32 workers.
    pub const fn flat(workers: u8) -> Self {
        assert!(workers <= POSITIONS_MAX, "a flat job has at most 32 workers");
        let mut widths = [0; POSITIONS_MAX as usize];
        let mut at = 0;
        while at < workers as usize {
            widths[at] = 1;
            at += 1;
        }
        Self { widths, positions: workers }
    }

    /// Positions of so many workers each: one worker has a position to itself, 2 to 32 are a rack.
    /// `None` if there are more than 32 positions or a width is not in this range.
    pub fn new(widths: &[u8]) -> Option<Self> {
        let positions = u8::try_from(widths.len()).ok().filter(|&count| count <= POSITIONS_MAX)?;
        let mut racks = Self { widths: [0; POSITIONS_MAX as usize], positions };
        for (place, &width) in racks.widths.iter_mut().zip(widths) {
            *place = Some(width).filter(|width| (1..=POSITIONS_MAX).contains(width))?;
        }
        Some(racks)
    }

    /// Number of workers.
    pub fn workers(&self) -> u16 {
        self.widths.iter().map(|&width| u16::from(width)).sum()
    }

    /// The bitmap of all positions.
    pub const fn positions(&self) -> Bitmap {
        Bitmap::first(self.positions)
    }

    /// The racks, and the bitmap of the workers of each.
    pub fn racks(&self) -> impl Iterator<Item = (Rack, Bitmap)> {
        let widths = self.widths.into_iter().enumerate().filter(|(_, width)| *width > 1);
        widths.map(|(at, width)| (Rack::at(at as u8), Bitmap::first(width)))
    }

    /// The position of a worker.
    ///
    /// # Panics
    ///
    /// If the job has no worker with this index.
    pub fn position(&self, worker: WorkerIndex) -> u8 {
        self.place(worker).0
    }

    /// How a packet names one worker.
    ///
    /// # Panics
    ///
    /// If the job has no worker with this index.
    pub fn name(&self, worker: WorkerIndex) -> (Rack, Bitmap) {
        let (position, within) = self.place(worker);
        if self.widths[usize::from(position)] == 1 {
            (Rack::NONE, Bitmap::of(position))
        } else {
            (Rack::at(position), Bitmap::of(within))
        }
    }

    /// A worker's position, and its number there.
    fn place(&self, worker: WorkerIndex) -> (u8, u8) {
        let mut rest = worker.get();
        for (at, &width) in self.widths.iter().enumerate() {
            if rest < u16::from(width) {
                return (at as u8, rest as u8);
            }
            rest -= u16::from(width);
        }
        panic!("worker {worker} in a job of {}", self.workers());
    }

    /// The workers that a packet names. `None` if it names a rack, or contributors, that the job
    /// does not have.
    pub fn members(&self, rack: Rack, bitmap: Bitmap) -> Option<WorkerSet> {
        let Some(position) = rack.position() else {
            return bitmap.is_subset(self.positions()).then(|| self.below(bitmap));
        };
        let width = self.widths.get(usize::from(position)).copied().filter(|&width| width > 1)?;
        let start = self.start(position);
        let inside = bitmap.is_subset(Bitmap::first(width));
        let worker = |at: u8| WorkerIndex::new(start + u16::from(at));
        inside.then(|| bitmap.iter().filter_map(worker).collect())
    }

    /// All workers of these positions.
    fn below(&self, positions: Bitmap) -> WorkerSet {
        if self.workers() == u16::from(self.positions) {
            return WorkerSet::from_low_bits(positions.0);
        }
        let ranges = positions.iter().map(|position| {
            let start = self.start(position);
            WorkerSet::range(start, start + u16::from(self.widths[usize::from(position)]))
        });
        ranges.fold(WorkerSet::EMPTY, |all, range| all | range)
    }

    /// The first worker of a position.
    fn start(&self, position: u8) -> u16 {
        self.widths[..usize::from(position)].iter().map(|&width| u16::from(width)).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_flat_job_names_workers_by_their_bits() {
        let racks = Racks::flat(5);
        assert_eq!((racks.workers(), racks.positions()), (5, Bitmap(0b1_1111)));
        assert_eq!(racks.name(WorkerIndex::new(3).unwrap()), (Rack::NONE, Bitmap(0b1000)));
        assert_eq!(
            racks.members(Rack::NONE, Bitmap(0b1_0001)).unwrap().to_string(),
            "workers 0, 4"
        );
        assert_eq!(racks.members(Rack::NONE, Bitmap(0b10_0000)), None);
        assert_eq!(racks.members(Rack::at(0), Bitmap(1)), None, "a worker alone is no rack");
        assert_eq!(racks.racks().count(), 0);
        assert_eq!(Racks::flat(32).workers(), 32);
        assert_eq!(Racks::new(&[1; 5]), Some(racks));
    }

    #[test]
    fn widths_out_of_range_are_refused() {
        assert_eq!(Racks::new(&[0]), None);
        assert_eq!(Racks::new(&[33]), None);
        assert_eq!(Racks::new(&[1; 33]), None);
        assert_eq!(Racks::new(&[32; 32]).unwrap().workers(), 1024);
    }

    proptest! {
        #[test]
        fn every_worker_has_one_name(widths in proptest::collection::vec(1..=32_u8, 1..=32)) {
            let racks = Racks::new(&widths).unwrap();
            let total: u16 = widths.iter().map(|&width| u16::from(width)).sum();
            prop_assert_eq!(racks.workers(), total);
            let mut named = std::collections::HashSet::new();
            for worker in (0..total).map(|worker| WorkerIndex::new(worker).unwrap()) {
                let (rack, bitmap) = racks.name(worker);
                prop_assert_eq!(bitmap.len(), 1);
                prop_assert!(named.insert((rack, bitmap)));
                prop_assert_eq!(racks.members(rack, bitmap), Some(WorkerSet::of(worker)));
            }
            // All workers of a rack are its position's, and all positions' are everybody.
            let everyone = racks.members(Rack::NONE, racks.positions()).unwrap();
            prop_assert_eq!(everyone, WorkerSet::first(total));
            for (rack, bitmap) in racks.racks() {
                let position = Bitmap::of(rack.position().unwrap());
                prop_assert_eq!(racks.members(rack, bitmap), racks.members(Rack::NONE, position));
                let beyond = Bitmap(bitmap.0.wrapping_add(1));
                prop_assert!(beyond.is_empty() || racks.members(rack, beyond).is_none());
            }
        }
    }
}
