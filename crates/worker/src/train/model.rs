//! The classifier: one hidden ReLU layer (or none) and softmax, with its gradients.
//!
//! Every sum is computed in one fixed order in `f32`. The compiler may neither reorder nor fuse
//! floating-point operations, so equal inputs give equal bits.

use crate::train::config::Error;
use crate::train::dataset::{CLASSES, PIXELS, Sample};
use crate::train::digest;
use crate::train::exp::exp;
use crate::train::random::Random;

/// Random number stream of the initial weights.
const INIT_STREAM: u64 = 1;

/// Name and shape of one tensor of weights and of its gradients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// `output.weights`, `output.biases`, `hidden.weights` or `hidden.biases`.
    pub name: &'static str,
    /// Lengths of the axes. Values are stored in row-major order.
    pub shape: Vec<usize>,
}

impl TensorSpec {
    /// Number of values.
    pub fn values(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Loss and accuracy over some images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metrics {
    /// Mean cross-entropy in nats; `NaN` over no images.
    pub loss: f64,
    /// Share of images whose most probable class is the right one, 0 to 1; `NaN` over no images.
    pub accuracy: f64,
}

/// The weights, as flat tensors in the order in which back-propagation produces their gradients:
/// output weights `[10, inputs]`, output biases `[10]` and, with a hidden layer, hidden weights
/// `[hidden, 64]`, hidden biases `[hidden]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    hidden: usize,
    tensors: Vec<Vec<f32>>,
}

/// Intermediate values of the forward pass over one image, for the backward pass.
struct Forward {
    /// Output of the hidden layer after ReLU; empty without one.
    hidden: Vec<f32>,
    probabilities: [f32; CLASSES],
    /// Largest logit. Softmax uses the differences from it, so that nothing overflows.
    max: f32,
    logits: [f32; CLASSES],
    /// Sum of the exponentials of the differences.
    total: f64,
}

impl Model {
    /// Initial weights: uniform with variance 2 / inputs before ReLU (He et al., 2015) and
    /// 2 / (inputs + outputs) before softmax (Glorot and Bengio, 2010); biases zero.
    pub fn new(hidden: usize, seed: u64) -> Self {
        let mut random = Random::new(seed, INIT_STREAM);
        let inputs = if hidden == 0 { PIXELS } else { hidden };
        let mut uniform = |values: usize, limit: f32| -> Vec<f32> {
            (0..values).map(|_| random.symmetric(limit)).collect()
        };
        let mut tensors = vec![
            uniform(CLASSES * inputs, (6.0 / (inputs + CLASSES) as f32).sqrt()),
            vec![0.0; CLASSES],
        ];
        if hidden > 0 {
            tensors.push(uniform(hidden * PIXELS, (6.0 / PIXELS as f32).sqrt()));
            tensors.push(vec![0.0; hidden]);
        }
        Self { hidden, tensors }
    }

    /// The weights. Names and shapes: [`Model::specs`].
    pub fn tensors(&self) -> &[Vec<f32>] {
        &self.tensors
    }

    /// Name and shape of each tensor, in order.
    pub fn specs(&self) -> Vec<TensorSpec> {
        specs(self.hidden)
    }

    /// 64-bit FNV-1a digest of all weights' bits. Equal for bit-identical weights.
    pub fn digest(&self) -> u64 {
        digest::of_tensors(&self.tensors)
    }

    /// Probability of each class.
    pub fn probabilities(&self, pixels: &[f32; PIXELS]) -> [f32; CLASSES] {
        self.forward(pixels).probabilities
    }

    /// Loss and accuracy over `samples`.
    pub fn metrics<'a>(&self, samples: impl IntoIterator<Item = &'a Sample>) -> Metrics {
        let (mut loss, mut right, mut count) = (0.0, 0u32, 0u32);
        for sample in samples {
            let forward = self.forward(&sample.pixels);
            loss += forward.total.ln()
                - (f64::from(forward.logits[sample.class]) - f64::from(forward.max));
            right += u32::from(most_probable(&forward.logits) == sample.class);
            count += 1;
        }
        Metrics { loss: loss / f64::from(count), accuracy: f64::from(right) / f64::from(count) }
    }

    /// Tensors of this model's shapes, full of zeros.
    pub(crate) fn zeros(&self) -> Vec<Vec<f32>> {
        self.tensors.iter().map(|t| vec![0.0; t.len()]).collect()
    }

    /// Whether `tensors` have this model's number and lengths.
    pub(crate) fn check_lengths(&self, tensors: &[Vec<f32>]) -> Result<(), Error> {
        if tensors.len() != self.tensors.len() {
            return Err(Error::WrongCount { expected: self.tensors.len(), got: tensors.len() });
        }
        for (tensor, (own, given)) in self.tensors.iter().zip(tensors).enumerate() {
            if own.len() != given.len() {
                return Err(Error::WrongLength { tensor, expected: own.len(), got: given.len() });
            }
        }
        Ok(())
    }

    /// Moves every weight by `rate` against `direction`, which has this model's shapes.
    pub(crate) fn descend(&mut self, direction: &[Vec<f32>], rate: f32) {
        for (weight, slope) in (self.tensors.iter_mut().flatten()).zip(direction.iter().flatten()) {
            *weight -= rate * slope;
        }
    }

    /// Writes into `gradients` the derivatives of the cross-entropy summed over `samples`, divided
    /// by `batch`, the number of images over all workers. So the sum over the workers is the
    /// gradient of the batch's mean loss.
    pub(crate) fn gradients<'a>(
        &self,
        samples: impl IntoIterator<Item = &'a Sample>,
        batch: usize,
        gradients: &mut [Vec<f32>],
    ) {
        for tensor in gradients.iter_mut() {
            tensor.fill(0.0);
        }
        for sample in samples {
            self.add_gradients(sample, gradients);
        }
        let batch = batch as f32;
        for value in gradients.iter_mut().flatten() {
            *value /= batch;
        }
    }

    fn add_gradients(&self, sample: &Sample, gradients: &mut [Vec<f32>]) {
        let forward = self.forward(&sample.pixels);
        // The derivative of cross-entropy after softmax: the probability, minus one for the right
        // class.
        let mut at_logits = forward.probabilities;
        at_logits[sample.class] -= 1.0;

        let (output, hidden) = gradients.split_at_mut(2);
        if self.hidden == 0 {
            return add_layer(output, &at_logits, &sample.pixels);
        }
        add_layer(output, &at_logits, &forward.hidden);
        let at_hidden: Vec<f32> = (forward.hidden.iter().enumerate())
            .map(|(unit, activation)| {
                if *activation <= 0.0 {
                    return 0.0; // ReLU is off; at 0 itself we take the derivative from the left.
                }
                let mut sum = 0.0;
                for (class, slope) in at_logits.iter().enumerate() {
                    sum += slope * self.tensors[0][class * self.hidden + unit];
                }
                sum
            })
            .collect();
        add_layer(hidden, &at_hidden, &sample.pixels);
    }

    fn forward(&self, pixels: &[f32; PIXELS]) -> Forward {
        let mut logits = [0.0; CLASSES];
        let mut hidden = vec![0.0; self.hidden];
        if self.hidden == 0 {
            layer(&self.tensors[..2], pixels, &mut logits);
        } else {
            layer(&self.tensors[2..], pixels, &mut hidden);
            for activation in &mut hidden {
                // Not `max`, because a NaN must be preserved and reported.
                if *activation < 0.0 {
                    *activation = 0.0;
                }
            }
            layer(&self.tensors[..2], &hidden, &mut logits);
        }
        let max = logits[most_probable(&logits)];
        let exponentials = logits.map(|logit| exp(f64::from(logit) - f64::from(max)));
        let mut total = 0.0;
        for exponential in exponentials {
            total += exponential;
        }
        Forward {
            hidden,
            probabilities: exponentials.map(|e| (e / total) as f32),
            max,
            logits,
            total,
        }
    }
}

/// Name and shape of each tensor of a model with `hidden` units, in order.
pub(crate) fn specs(hidden: usize) -> Vec<TensorSpec> {
    let spec = |name, shape: &[usize]| TensorSpec { name, shape: shape.to_vec() };
    let inputs = if hidden == 0 { PIXELS } else { hidden };
    let mut specs =
        vec![spec("output.weights", &[CLASSES, inputs]), spec("output.biases", &[CLASSES])];
    if hidden > 0 {
        specs.push(spec("hidden.weights", &[hidden, PIXELS]));
        specs.push(spec("hidden.biases", &[hidden]));
    }
    specs
}

/// The class of the first largest logit.
fn most_probable(logits: &[f32; CLASSES]) -> usize {
    let mut best = 0;
    for class in 1..CLASSES {
        // A NaN is kept once found: divergence must show in loss and gradients.
        if logits[class] > logits[best] || logits[class].is_nan() {
            best = class;
        }
    }
    best
}

/// Computes `outputs = weights · inputs + biases` from `[weights, biases]`.
fn layer(tensors: &[Vec<f32>], inputs: &[f32], outputs: &mut [f32]) {
    let rows = tensors[0].chunks_exact(inputs.len());
    for ((output, row), bias) in outputs.iter_mut().zip(rows).zip(&tensors[1]) {
        let mut sum = *bias;
        for (weight, input) in row.iter().zip(inputs) {
            sum += weight * input;
        }
        *output = sum;
    }
}

/// Adds one image's derivatives to a layer's `[weights, biases]`.
fn add_layer(gradients: &mut [Vec<f32>], at_outputs: &[f32], inputs: &[f32]) {
    let [weights, biases] = gradients else {
        unreachable!("a layer has weights and biases");
    };
    let rows = weights.chunks_exact_mut(inputs.len());
    for ((row, bias), slope) in rows.zip(biases).zip(at_outputs) {
        for (weight, input) in row.iter_mut().zip(inputs) {
            *weight += slope * input;
        }
        *bias += slope;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::dataset::Dataset;
    use proptest::prelude::*;

    /// Mean loss, computed independently of the model: in f64, without subtracting the largest
    /// logit.
    fn loss_in_f64(hidden: usize, tensors: &[Vec<f64>], samples: &[Sample]) -> f64 {
        let dense = |w: &[f64], b: &[f64], x: &[f64]| -> Vec<f64> {
            (0..b.len())
                .map(|o| b[o] + (0..x.len()).map(|i| w[o * x.len() + i] * x[i]).sum::<f64>())
                .collect()
        };
        let losses = samples.iter().map(|sample| {
            let mut x: Vec<f64> = sample.pixels.iter().map(|p| f64::from(*p)).collect();
            if hidden > 0 {
                x = dense(&tensors[2], &tensors[3], &x);
                x.iter_mut().for_each(|v| *v = v.max(0.0));
            }
            let z = dense(&tensors[0], &tensors[1], &x);
            z.iter().map(|v| v.exp()).sum::<f64>().ln() - z[sample.class]
        });
        losses.sum::<f64>() / samples.len() as f64
    }

    /// Compares the gradients with central differences of that loss in every weight.
    fn check_gradients(hidden: usize, seed: u64, samples: &[Sample]) {
        let mut model = Model::new(hidden, seed);
        // Non-zero biases, so that their contribution is tested, too.
        let mut random = Random::new(seed, 99);
        for bias in [1, 3] {
            for value in model.tensors.get_mut(bias).into_iter().flatten() {
                *value = random.symmetric(0.2);
            }
        }
        let mut gradients = model.zeros();
        model.gradients(samples, samples.len(), &mut gradients);

        let mut weights: Vec<Vec<f64>> =
            (model.tensors.iter()).map(|t| t.iter().map(|v| f64::from(*v)).collect()).collect();
        let step = 1e-6;
        for tensor in 0..weights.len() {
            for index in 0..weights[tensor].len() {
                let middle = weights[tensor][index];
                weights[tensor][index] = middle + step;
                let above = loss_in_f64(hidden, &weights, samples);
                weights[tensor][index] = middle - step;
                let below = loss_in_f64(hidden, &weights, samples);
                weights[tensor][index] = middle;
                let expected = (above - below) / (2.0 * step);
                let got = f64::from(gradients[tensor][index]);
                assert!(
                    (expected - got).abs() < 2e-6,
                    "hidden {hidden}, tensor {tensor}, index {index}: {got} not {expected}"
                );
            }
        }
    }

    #[test]
    fn gradients_are_finite_differences_of_the_loss() {
        let samples = &Dataset::digits().samples()[..12];
        check_gradients(0, 5, samples);
        check_gradients(7, 5, samples);
        check_gradients(1, 6, samples);
    }

    #[test]
    fn loss_is_that_computed_in_f64() {
        let samples = &Dataset::digits().samples()[100..200];
        for hidden in [0, 16] {
            let model = Model::new(hidden, 3);
            let weights: Vec<Vec<f64>> =
                (model.tensors.iter()).map(|t| t.iter().map(|v| f64::from(*v)).collect()).collect();
            let difference = model.metrics(samples).loss - loss_in_f64(hidden, &weights, samples);
            assert!(difference.abs() < 1e-6, "{difference}");
        }
    }

    #[test]
    fn specs_describe_the_tensors() {
        for hidden in [0, 1, 32] {
            let model = Model::new(hidden, 1);
            let lengths: Vec<usize> = model.specs().iter().map(TensorSpec::values).collect();
            assert!(
                lengths.iter().eq(model.tensors().iter().map(Vec::len).collect::<Vec<_>>().iter())
            );
        }
        assert_eq!(Model::new(0, 1).specs().len(), 2);
        assert_eq!(Model::new(32, 1).specs()[0].shape, [10, 32]);
        assert_eq!(Model::new(32, 1).specs()[2].shape, [32, 64]);
    }

    #[test]
    fn seeds_give_different_weights() {
        assert_eq!(Model::new(8, 1).digest(), Model::new(8, 1).digest());
        assert_ne!(Model::new(8, 1).digest(), Model::new(8, 2).digest());
    }

    /// Logits of thousands overflow a softmax that does not subtract the largest logit.
    #[test]
    fn large_logits_stay_finite() {
        let mut model = Model::new(0, 1);
        for value in &mut model.tensors[0] {
            *value *= 1e4;
        }
        let digits = Dataset::digits().train();
        assert!(model.metrics(digits).loss.is_finite());
        let mut gradients = model.zeros();
        model.gradients(digits, digits.len(), &mut gradients);
        assert!(gradients.iter().flatten().all(|g| g.is_finite()));
    }

    #[test]
    fn nan_weights_show_in_loss_and_gradients() {
        for (hidden, tensor) in [(0, 1), (4, 3)] {
            let mut model = Model::new(hidden, 1);
            model.tensors[tensor].fill(f32::NAN);
            let samples = &Dataset::digits().samples()[..1];
            assert!(model.metrics(samples).loss.is_nan());
            let mut gradients = model.zeros();
            model.gradients(samples, 1, &mut gradients);
            assert!(gradients.iter().flatten().any(|g| g.is_nan()));
        }
    }

    proptest! {
        #[test]
        fn probabilities_sum_to_one(seed: u64, hidden in 0usize..20, image in 0usize..1797) {
            let model = Model::new(hidden, seed);
            let sum: f32 = model.probabilities(&Dataset::digits().samples()[image].pixels).iter().sum();
            prop_assert!((sum - 1.0).abs() < 1e-6);
        }

        /// The gradients of parts of a batch add up to those of the batch, up to rounding.
        #[test]
        fn gradients_of_shares_sum_to_those_of_the_whole(seed: u64, cut in 0usize..=20) {
            let samples = &Dataset::digits().samples()[..20];
            let model = Model::new(6, seed);
            let gradients = |part: &[Sample]| {
                let mut tensors = model.zeros();
                model.gradients(part, 20, &mut tensors);
                tensors.concat()
            };
            let (first, second) = (gradients(&samples[..cut]), gradients(&samples[cut..]));
            for ((a, b), whole) in first.iter().zip(second).zip(gradients(samples)) {
                prop_assert!((a + b - whole).abs() < 1e-6);
            }
        }
    }
}
