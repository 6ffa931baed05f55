//! The values of a task that is collected in `f32`.

use crate::JobConfig;
use tributary_wire::WorkerIndex;

/// One row of V values per worker.
#[derive(Clone, Debug)]
pub(crate) struct Floats {
    rows: Box<[f32]>,
    values: usize,
}

impl Floats {
    /// Stores the values of one worker.
    pub(crate) fn set(&mut self, worker: WorkerIndex, values: impl Iterator<Item = f32>) {
        let start = usize::from(worker.get()) * self.values;
        let row = &mut self.rows[start..start + self.values];
        for (place, value) in row.iter_mut().zip(values) {
            *place = value;
        }
    }

    /// The sums over all workers as bit patterns of `f32`. They are added in `f64` in the order of
    /// the workers, so that they do not depend on the order of arrival.
    pub(crate) fn sum(&self, sums: &mut [i32]) {
        for (column, sum) in sums.iter_mut().enumerate() {
            let column = self.rows.iter().skip(column).step_by(self.values);
            let total: f64 = column.map(|value| f64::from(*value)).sum();
            *sum = (total as f32).to_bits().cast_signed();
        }
    }
}

/// Reusable memory for such tasks, at most one per slot.
#[derive(Clone, Debug)]
pub(crate) struct FloatPool {
    free: Vec<Floats>,
    workers: usize,
    values: usize,
}

impl FloatPool {
    pub(crate) fn new(job: &JobConfig) -> Self {
        Self {
            free: Vec::new(),
            workers: job.workers().into(),
            values: job.values_per_packet.into(),
        }
    }

    /// Takes memory, which may hold values of an earlier task: every row is set before the sum.
    pub(crate) fn take(&mut self) -> Floats {
        self.free.pop().unwrap_or_else(|| Floats {
            rows: vec![0.0; self.workers * self.values].into(),
            values: self.values,
        })
    }

    pub(crate) fn give_back(&mut self, floats: Floats) {
        self.free.push(floats);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use tributary_wire::{Epoch, JobId};

    use super::*;

    #[test]
    fn sums_in_f64_in_the_order_of_the_workers() {
        let mut job = JobConfig::new(JobId::new(1).unwrap().run(Epoch::FIRST), 3, NonZeroU32::MIN);
        job.values_per_packet = 3;
        let mut floats = FloatPool::new(&job).take();
        // In f32 arithmetic the first column would sum to zero, and the second would overflow
        // midway.
        let rows = [[1e30, 3e38, -0.0], [1.0, 3e38, -0.0], [-1e30, -3e38, -0.0]];
        for (worker, row) in rows.iter().enumerate().rev() {
            floats.set(WorkerIndex::new(worker as u16).unwrap(), row.iter().copied());
        }
        let mut sums = [0; 3];
        floats.sum(&mut sums);
        let sums = sums.map(|bits| f32::from_bits(bits.cast_unsigned()));
        let first = ((1e30f32 as f64 + 1.0) - 1e30f32 as f64) as f32;
        assert_eq!(sums, [first, 3e38, 0.0]);
    }
}
