//! Random tensors and their expected sums, computed in wide integers from the definition of the
//! ladder, independently of the crate's conversion.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use tributary_protocol::worker::Tensor;

/// Powers of two by which the rungs divide the scale, as specified in the design.
const LADDER: [i32; 8] = [0, 4, 8, 16, 32, 64, 96, 128];

/// The inputs of one tensor: one row per worker.
#[derive(Clone, Debug)]
pub(crate) enum Inputs {
    F32(Vec<Vec<f32>>),
    I32(Vec<Vec<i32>>),
}

impl Inputs {
    /// `great` is the probability that a value needs a coarser rung.
    pub(crate) fn random(
        rng: &mut ChaCha8Rng,
        workers: u8,
        max_len: usize,
        scale: f64,
        great: f64,
    ) -> Self {
        let len = rng.random_range(0..=max_len);
        let limit = i32::MAX / i32::from(workers);
        if rng.random_bool(0.3) {
            let mut row = || (0..len).map(|_| rng.random_range(-limit..=limit)).collect();
            return Self::I32((0..workers).map(|_| row()).collect());
        }
        // The largest value that is certainly within the limit after scaling and rounding.
        let safe = (f64::from(limit) / scale * 0.999).min(1e38) as f32;
        let mut value = || match rng.random_range(0..4) {
            // Too large for all rungs below a random one.
            _ if rng.random_bool(great) => {
                let rung = rng.random_range(1..8);
                let exponent =
                    rng.random_range(f64::from(LADDER[rung - 1])..f64::from(LADDER[rung]));
                let most = (f64::from(limit) / scale * 2f64.powi(128) * 0.999).min(3.4e38);
                let value = (f64::from(limit) / scale * exponent.exp2()).min(most) as f32;
                value * [1.0, -1.0][rng.random_range(0..2)]
            }
            0 => rng.random_range(-safe..=safe),
            1 => (f64::from(rng.random_range(-1000..1000)) / scale / 2.0) as f32,
            2 => 0.0,
            _ => rng.random_range(-1.0..=1.0),
        };
        Self::F32((0..workers).map(|_| (0..len).map(|_| value()).collect()).collect())
    }

    pub(crate) fn of(&self, worker: usize) -> Tensor {
        match self {
            Self::F32(rows) => Tensor::F32(rows[worker].clone().into()),
            Self::I32(rows) => Tensor::I32(rows[worker].clone().into()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::F32(rows) => rows[0].len(),
            Self::I32(rows) => rows[0].len(),
        }
    }

    /// The rung at which each fragment of `values` values can be summed.
    pub(crate) fn rungs(&self, scale: f64, values: usize) -> Vec<u8> {
        let starts = (0..self.len()).step_by(values);
        match self {
            Self::I32(_) => starts.map(|_| 0).collect(),
            Self::F32(rows) => starts.map(|start| rung(rows, scale, start, values)).collect(),
        }
    }

    /// The sums as bit patterns.
    pub(crate) fn sums(&self, scale: f64, values: usize) -> Vec<u32> {
        let len = self.len();
        match self {
            Self::I32(rows) => (0..len)
                .map(|i| {
                    let sum: i128 = rows.iter().map(|row| i128::from(row[i])).sum();
                    i32::try_from(sum).unwrap().cast_unsigned()
                })
                .collect(),
            Self::F32(rows) => {
                let rungs = self.rungs(scale, values);
                (0..len)
                    .map(|i| {
                        let scale = at(scale, rungs[i / values]);
                        let sum: i128 = rows.iter().map(|row| fixed(row[i], scale)).sum();
                        assert!(i32::try_from(sum).is_ok());
                        ((sum as f64 / scale) as f32).to_bits()
                    })
                    .collect()
            }
        }
    }
}

fn at(scale: f64, rung: u8) -> f64 {
    scale / 2f64.powi(LADDER[usize::from(rung)])
}

fn fixed(value: f32, scale: f64) -> i128 {
    (f64::from(value) * scale).round_ties_even() as i128
}

fn rung(rows: &[Vec<f32>], scale: f64, start: usize, values: usize) -> u8 {
    let limit = (i32::MAX / rows.len() as i32).unsigned_abs();
    let end = rows[0].len().min(start + values);
    let fits = |rung: &u8| {
        let scale = at(scale, *rung);
        rows.iter()
            .flat_map(|row| &row[start..end])
            .all(|v| fixed(*v, scale).unsigned_abs() <= limit.into())
    };
    (0..8).find(fits).expect("values fit the last rung")
}

/// The bit patterns of a tensor.
pub(crate) fn bits(tensor: &Tensor) -> Vec<u32> {
    match tensor {
        Tensor::F32(values) => values.iter().map(|v| v.to_bits()).collect(),
        Tensor::I32(values) => values.iter().map(|v| v.cast_unsigned()).collect(),
    }
}
