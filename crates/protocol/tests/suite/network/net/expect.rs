//! Random tensors and their expected sums, computed in wide integers independently of the crate's
//! conversion.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use tributary_protocol::worker::Tensor;

/// The inputs of one tensor: one row per worker.
#[derive(Clone, Debug)]
pub(crate) enum Inputs {
    F32(Vec<Vec<f32>>),
    I32(Vec<Vec<i32>>),
}

impl Inputs {
    pub(crate) fn random(
        rng: &mut ChaCha8Rng,
        workers: u8,
        max_len: usize,
        scale: f64,
        overflows: f64,
    ) -> Self {
        let len = rng.random_range(0..=max_len);
        let limit = i32::MAX / i32::from(workers);
        if rng.random_bool(0.3) {
            let row =
                |rng: &mut ChaCha8Rng| (0..len).map(|_| rng.random_range(-limit..=limit)).collect();
            return Self::I32((0..workers).map(|_| row(rng)).collect());
        }
        // The largest value that is certainly within the limit after scaling and rounding.
        let safe = (f64::from(limit) / scale * 0.999) as f32;
        let row = |rng: &mut ChaCha8Rng| {
            let value = |rng: &mut ChaCha8Rng| match rng.random_range(0..4) {
                _ if rng.random_bool(overflows) => rng.random_range(2.0..1e6) * safe,
                0 => rng.random_range(-safe..=safe),
                1 => (f64::from(rng.random_range(-1000..1000)) / scale / 2.0) as f32,
                2 => 0.0,
                _ => rng.random_range(-1.0..=1.0),
            };
            (0..len).map(|_| value(rng)).collect()
        };
        Self::F32((0..workers).map(|_| row(rng)).collect())
    }

    pub(crate) fn of(&self, worker: usize) -> Tensor {
        match self {
            Self::F32(rows) => Tensor::F32(rows[worker].clone().into()),
            Self::I32(rows) => Tensor::I32(rows[worker].clone().into()),
        }
    }

    /// The sums as bit patterns.
    pub(crate) fn sums(&self, scale: f64, values: usize) -> Vec<u32> {
        match self {
            Self::I32(rows) => columns(rows)
                .map(|column| {
                    let sum: i128 = column.map(i128::from).sum();
                    i32::try_from(sum).unwrap().cast_unsigned()
                })
                .collect(),
            Self::F32(rows) => float_sums(rows, scale, values),
        }
    }

    /// Number of fragments that cannot be summed in integers.
    pub(crate) fn overflow_fragments(&self, scale: f64, values: usize) -> usize {
        let Self::F32(rows) = self else {
            return 0;
        };
        let len = rows[0].len();
        let starts = (0..len).step_by(values);
        starts.filter(|start| overflows(rows, scale, *start, values)).count()
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::F32(rows) => rows[0].len(),
            Self::I32(rows) => rows[0].len(),
        }
    }
}

fn columns<T: Copy>(rows: &[Vec<T>]) -> impl Iterator<Item = impl Iterator<Item = T>> {
    (0..rows[0].len()).map(move |i| rows.iter().map(move |row| row[i]))
}

fn fixed(value: f32, scale: f64) -> i128 {
    (f64::from(value) * scale).round_ties_even() as i128
}

fn overflows(rows: &[Vec<f32>], scale: f64, start: usize, values: usize) -> bool {
    let limit = i128::from(i32::MAX / rows.len() as i32);
    let end = rows[0].len().min(start + values);
    let mut all = rows.iter().flat_map(|row| &row[start..end]);
    all.any(|value| fixed(*value, scale).abs() > limit)
}

fn float_sums(rows: &[Vec<f32>], scale: f64, values: usize) -> Vec<u32> {
    let sum = |i: usize| -> f32 {
        if overflows(rows, scale, i / values * values, values) {
            let mut sum = 0.0f64;
            for row in rows {
                sum += f64::from(row[i]);
            }
            return sum as f32;
        }
        let sum: i128 = rows.iter().map(|row| fixed(row[i], scale)).sum();
        assert!(i32::try_from(sum).is_ok());
        (sum as f64 / scale) as f32
    };
    (0..rows[0].len()).map(|i| sum(i).to_bits()).collect()
}

/// The bit patterns of a tensor.
pub(crate) fn bits(tensor: &Tensor) -> Vec<u32> {
    match tensor {
        Tensor::F32(values) => values.iter().map(|v| v.to_bits()).collect(),
        Tensor::I32(values) => values.iter().map(|v| v.cast_unsigned()).collect(),
    }
}
