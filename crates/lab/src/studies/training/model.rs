//! Models as an iteration of training sees them: bytes of gradients and computing times by layer.

use std::time::Duration;

/// A layer of a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layer {
    /// Bytes of its gradients, with four bytes per parameter.
    pub bytes: u64,
    /// Computing time of its forward pass.
    pub forward: Duration,
    /// Computing time of its backward pass.
    pub backward: Duration,
}

/// A model, and how its gradients are cut into tensors.
///
/// An iteration begins with the backward pass, which computes gradients from the last layer to the
/// first. Gradients are sent while it goes on. The forward pass of the next iteration follows: a
/// layer starts when its sums have arrived and the layer before it is done. The iteration ends with
/// the last layer's forward pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Model {
    /// Name for reports.
    pub name: String,
    /// The layers, front first.
    pub layers: Vec<Layer>,
    /// Largest size in bytes of a tensor; larger layers are sent in several.
    pub partition: u64,
}

/// A part of a layer's gradients, which is summed as one tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Index of its layer, from 0 at the front.
    pub layer: usize,
    /// Bytes of its gradients.
    pub bytes: u64,
    /// Time from the start of the iteration until the backward pass has computed it.
    pub ready: Duration,
}

impl Model {
    /// Two layers of equal size, each in two tensors (ESA §7.2.1). The gradients of the second layer
    /// are ready a moment before those of the first.
    fn two_layers(name: &str, partition: u64, forward: Duration) -> Self {
        let layer = |backward| Layer { bytes: 2 * partition, forward, backward };
        let layers = vec![layer(Duration::from_nanos(1)), layer(Duration::ZERO)];
        Self { name: name.to_owned(), layers, partition }
    }

    /// ESA's model A, which communicates for twice the time that it computes (§7.2.1).
    #[must_use]
    pub fn a() -> Self {
        Self::two_layers("A", 4_000_000, Duration::from_micros(320))
    }

    /// ESA's model B, which computes for twice the time that it communicates (§7.2.1).
    #[must_use]
    pub fn b() -> Self {
        Self::two_layers("B", 2_000_000, Duration::from_micros(640))
    }

    /// The same model with all sizes and times divided by a number, for quick runs.
    #[must_use]
    pub fn scaled_down(&self, by: u32) -> Self {
        let layer = |layer: &Layer| Layer {
            bytes: layer.bytes / u64::from(by),
            forward: layer.forward / by,
            backward: layer.backward / by,
        };
        Self {
            name: self.name.clone(),
            layers: self.layers.iter().map(layer).collect(),
            partition: (self.partition / u64::from(by)).max(1),
        }
    }

    /// Bytes of all gradients.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.layers.iter().map(|layer| layer.bytes).sum()
    }

    /// Computing time of an iteration: both passes of all layers.
    #[must_use]
    pub fn computation(&self) -> Duration {
        self.layers.iter().map(|layer| layer.forward + layer.backward).sum()
    }

    /// The parts in the order in which every worker sends them: of those that are ready when the
    /// link becomes free, one of the frontmost layer. It follows from the link's rate alone, in
    /// bits per second, because all workers must agree on it.
    ///
    /// For the models of ESA this is the order of §7.2.1: a part of the second layer, the first
    /// layer, the other part of the second.
    #[must_use]
    pub fn parts(&self, bits_per_s: f64) -> Vec<Part> {
        let mut ready = Duration::ZERO;
        let mut waiting = Vec::new();
        for (index, layer) in self.layers.iter().enumerate().rev() {
            ready += layer.backward;
            let mut left = layer.bytes;
            while left > 0 {
                let bytes = left.min(self.partition);
                waiting.push(Part { layer: index, bytes, ready });
                left -= bytes;
            }
        }
        let mut order = Vec::with_capacity(waiting.len());
        let mut free = Duration::ZERO;
        while !waiting.is_empty() {
            let earliest = waiting.iter().map(|part| part.ready).min().unwrap_or_default();
            free = free.max(earliest);
            let due = waiting.iter().enumerate().filter(|(_, part)| part.ready <= free);
            let next = due.min_by_key(|(_, part)| part.layer).map(|(at, _)| at);
            let part = waiting.remove(next.expect("the earliest is due"));
            free += Duration::from_secs_f64(part.bytes as f64 * 8.0 / bits_per_s);
            order.push(part);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_of_esa_communicate_and_compute_as_the_paper_says() {
        for (model, ratio) in [(Model::a(), 2.0), (Model::b(), 0.5)] {
            let communication = model.bytes() as f64 * 8.0 / 100e9;
            let computation: Duration = model.layers.iter().map(|layer| layer.forward).sum();
            let measured = communication / computation.as_secs_f64();
            assert!((measured - ratio).abs() < 1e-9, "{}: {measured}", model.name);
        }
    }

    #[test]
    fn the_second_layer_is_sent_around_the_first() {
        let order: Vec<usize> = Model::a().parts(100e9).iter().map(|part| part.layer).collect();
        assert_eq!(order, [1, 0, 0, 1]);
    }

    #[test]
    fn front_layers_overtake_what_waits() {
        let ms = Duration::from_millis;
        let layer = |bytes, backward| Layer { bytes, forward: ms(1), backward };
        // 1 ms per megabyte at 8 Gb/s; layers are ready after 1, 2 and 10 ms.
        let layers = vec![layer(1_000_000, ms(8)), layer(500_000, ms(1)), layer(4_000_000, ms(1))];
        let model = Model { name: String::new(), layers, partition: 2_000_000 };
        let order: Vec<_> = model.parts(8e9).iter().map(|p| (p.layer, p.bytes)).collect();
        assert_eq!(order, [(2, 2_000_000), (1, 500_000), (2, 2_000_000), (0, 1_000_000)]);
    }
}
