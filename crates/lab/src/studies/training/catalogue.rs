//! Image classifiers as layer tables.
//!
//! Sizes follow from the published architectures: AlexNet (Krizhevsky 2014, one tower), VGG
//! (Simonyan and Zisserman 2014), ResNet (He et al. 2015, with the stride in the 3 × 3 convolution).
//! A layer is a convolution with its normalisation, or a fully connected layer. Computing times are
//! proportional to multiplications: a [`Machine`] says how many it makes per second, and a backward
//! pass takes twice as long as a forward pass.

use std::time::Duration;

use super::model::{Layer, Model};

/// What computes a model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Machine {
    /// Multiply-and-add operations per second that it sustains.
    pub operations_per_s: f64,
    /// Images per worker and iteration.
    pub batch: u32,
}

impl Default for Machine {
    /// A V100 at half of its peak of 15.7 TFLOP/s in single precision, with 32 images (ESA §7.1.2).
    fn default() -> Self {
        Self { operations_per_s: 0.5 * 15.7e12 / 2.0, batch: 32 }
    }
}

/// Largest tensor in bytes: as in ESA's models (§7.2.1).
const PARTITION: u64 = 4_000_000;

/// Names of the models.
pub const NAMES: [&str; 7] =
    ["AlexNet", "VGG-11", "VGG-16", "VGG-19", "ResNet-50", "ResNet-101", "ResNet-152"];

/// Layers while they are listed: parameters and operations per image.
struct Table {
    layers: Vec<(u64, u64)>,
    channels: u64,
    /// Width and height of the images between layers.
    side: u64,
}

impl Table {
    fn new() -> Self {
        Self { layers: Vec::new(), channels: 3, side: 224 }
    }

    /// A square convolution; `extra` are parameters per output channel beside the weights.
    fn convolve(&mut self, out: u64, size: u64, side: u64, extra: u64) {
        let weights = self.channels * out * size * size;
        self.layers.push((weights + extra * out, weights * side * side));
        self.channels = out;
        self.side = side;
    }

    /// A fully connected layer with biases.
    fn connect(&mut self, out: u64) {
        let input = self.channels * self.side * self.side;
        self.layers.push((input * out + out, input * out));
        self.channels = out;
        self.side = 1;
    }

    fn classify(&mut self) {
        for out in [4096, 4096, 1000] {
            self.connect(out);
        }
    }

    fn alexnet() -> Self {
        let mut table = Self::new();
        for (out, size, side) in
            [(64, 11, 55), (192, 5, 27), (384, 3, 13), (256, 3, 13), (256, 3, 13)]
        {
            table.convolve(out, size, side, 1);
        }
        table.side = 6;
        table.classify();
        table
    }

    /// Five stages with these numbers of convolutions, each followed by pooling.
    fn vgg(stages: [u32; 5]) -> Self {
        let mut table = Self::new();
        for (convolutions, channels) in stages.into_iter().zip([64, 128, 256, 512, 512]) {
            for _ in 0..convolutions {
                table.convolve(channels, 3, table.side, 1);
            }
            table.side /= 2;
        }
        table.classify();
        table
    }

    /// Four stages with these numbers of blocks of three convolutions.
    fn resnet(stages: [u32; 4]) -> Self {
        let mut table = Self::new();
        table.convolve(64, 7, 112, 2);
        table.side = 56;
        for (number, (blocks, width)) in stages.into_iter().zip([64, 128, 256, 512]).enumerate() {
            for block in 0..blocks {
                let (input, before) = (table.channels, table.side);
                let side = if block == 0 && number > 0 { before / 2 } else { before };
                table.convolve(width, 1, before, 2);
                table.convolve(width, 3, side, 2);
                table.convolve(4 * width, 1, side, 2);
                if block == 0 {
                    // The shortcut changes the number of channels, too.
                    table.channels = input;
                    table.convolve(4 * width, 1, side, 2);
                }
            }
        }
        table.side = 1;
        table.connect(1000);
        table
    }
}

impl Model {
    /// The model with this name, of [`NAMES`].
    #[must_use]
    pub fn named(name: &str, machine: Machine) -> Option<Self> {
        let table = match name {
            "AlexNet" => Table::alexnet(),
            "VGG-11" => Table::vgg([1, 1, 2, 2, 2]),
            "VGG-16" => Table::vgg([2, 2, 3, 3, 3]),
            "VGG-19" => Table::vgg([2, 2, 4, 4, 4]),
            "ResNet-50" => Table::resnet([3, 4, 6, 3]),
            "ResNet-101" => Table::resnet([3, 4, 23, 3]),
            "ResNet-152" => Table::resnet([3, 8, 36, 3]),
            _ => return None,
        };
        let layer = |&(parameters, operations): &(u64, u64)| {
            let all = operations as f64 * f64::from(machine.batch);
            let forward = Duration::from_secs_f64(all / machine.operations_per_s);
            Layer { bytes: 4 * parameters, forward, backward: 2 * forward }
        };
        let layers = table.layers.iter().map(layer).collect();
        Some(Self { name: name.to_owned(), layers, partition: PARTITION })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of parameters and of operations per image, in billions, that are published for these
    /// architectures.
    #[test]
    fn sizes_are_the_published_ones() {
        let published = [
            ("AlexNet", 61_100_840, 0.71),
            ("VGG-11", 132_863_336, 7.61),
            ("VGG-16", 138_357_544, 15.47),
            ("VGG-19", 143_667_240, 19.63),
            ("ResNet-50", 25_557_032, 4.09),
            ("ResNet-101", 44_549_160, 7.80),
            ("ResNet-152", 60_192_808, 11.51),
        ];
        let machine = Machine { operations_per_s: 1e9, batch: 1 };
        for (name, parameters, billions) in published {
            let model = Model::named(name, machine).unwrap();
            assert_eq!(model.bytes(), 4 * parameters, "{name}");
            let seconds = model.computation().as_secs_f64() / 3.0;
            assert!((seconds - billions).abs() < 0.01 * billions, "{name}: {seconds}");
        }
        assert_eq!(published.map(|(name, ..)| name), NAMES);
        assert_eq!(Model::named("GPT", machine), None);
    }
}
