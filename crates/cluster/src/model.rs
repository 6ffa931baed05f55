//! Models that jobs train: computing time and gradient size per iteration.
//!
//! NetPack §6.1 measured its models on RTX 2080 Ti GPUs and did not publish the figures. Ours are
//! derived from public ones; `docs/evaluation/simulator.md` has sources and arithmetic.

use std::path::Path;

use tributary_base::document::{Document, Error, Item, Kind};

use crate::job::{Job, JobId};

/// The name of a profile file in messages.
const KIND: Kind = Kind { name: "profile file", page: "docs/evaluation/simulator.md" };

/// Number of images per GPU and iteration.
const BATCH: f64 = 32.0;

/// Training speed of an RTX 2080 Ti relative to an RTX 2080 in single precision: Lambda's mean over
/// seven networks (2019).
const TI: f64 = 1.37;

/// A model on one kind of GPU.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// The usual name in lower case: `vgg16`, `resnet50`.
    pub name: String,
    /// Number of trained parameters, which is the number of values of a gradient.
    pub parameters: u64,
    /// Computing time per iteration on each GPU, in seconds.
    pub compute_s: f64,
}

impl Profile {
    /// Bytes summed per iteration: four per parameter.
    #[must_use]
    pub fn gradient_bytes(&self) -> f64 {
        self.parameters as f64 * 4.0
    }

    /// A job that trains the model and takes `duration_s` seconds if communication takes no time.
    #[must_use]
    pub fn job(&self, id: JobId, submit_s: f64, gpus: u32, duration_s: f64) -> Job {
        Job {
            id,
            submit_s,
            gpus,
            iterations: duration_s / self.compute_s,
            compute_s: self.compute_s,
            gradient_bytes: self.gradient_bytes(),
            value: 1.0,
        }
    }
}

/// The models of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Profiles(Vec<Profile>);

/// Name, parameters and images per second of an RTX 2080 in batches of 32, single precision.
///
/// The numbers of parameters follow from the layers (the tests compute them). The speeds are one
/// public series with TensorFlow 1.11. That card could not hold ResNet-152, whose speed here is
/// ResNet-101's, scaled by the ratio of their numbers of multiplications.
const KNOWN: [(&str, u64, f64); 7] = [
    ("vgg11", 132_863_336, 240.60),
    ("vgg16", 138_357_544, 126.27),
    ("vgg19", 143_667_240, 108.83),
    ("alexnet", 61_100_840, 1546.52),
    ("resnet50", 25_557_032, 178.01),
    ("resnet101", 44_549_160, 108.99),
    ("resnet152", 60_192_808, 108.99 * 7.801 / 11.514),
];

impl Profiles {
    /// All built-in models, on an RTX 2080 Ti.
    #[must_use]
    pub fn known() -> Self {
        let profile = |(name, parameters, images_per_s): (&str, u64, f64)| Profile {
            name: name.to_owned(),
            parameters,
            compute_s: BATCH / (images_per_s * TI),
        };
        Self(KNOWN.map(profile).into())
    }

    /// The six models of NetPack §6.1, on an RTX 2080 Ti.
    #[must_use]
    pub fn netpack() -> Self {
        let mut profiles = Self::known();
        profiles.0.retain(|profile| profile.name != "resnet152");
        profiles
    }

    /// The profiles, in order.
    #[must_use]
    pub fn all(&self) -> &[Profile] {
        &self.0
    }

    /// A model's profile.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Profile> {
        self.0.iter().find(|profile| profile.name == name)
    }

    /// Changes and adds models from a TOML file: `[[model]]` tables with `name` and, where they
    /// differ from the built-in values, `parameters` and `compute_s`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or its content is invalid.
    pub fn load(self, path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        self.parse(&KIND.read(path)?, &path.display().to_string())
    }

    /// [`load`](Self::load) for text. Messages call the file `file`.
    ///
    /// # Errors
    ///
    /// If the content is invalid.
    pub fn parse(mut self, text: &str, file: &str) -> Result<Self, Error> {
        let document = Document::parse(KIND, text, file)?;
        let table = document.table(&["model"])?;
        for item in table.items("model")? {
            self.apply(&item)?;
        }
        Ok(self)
    }

    fn apply(&mut self, item: &Item<'_>) -> Result<(), Error> {
        let table = item.table("[[model]]", &["name", "parameters", "compute_s"])?;
        let name = table.require("name", "\"vgg16\"")?.word("vgg16")?;
        let at = self.0.iter().position(|profile| profile.name == name);
        let parameters = match (table.get("parameters"), at) {
            (None, Some(at)) => self.0[at].parameters,
            (_, _) => table.require("parameters", "138357544")?.integer(1..=1 << 40)?,
        };
        let compute_s = match (table.get("compute_s"), at) {
            (None, Some(at)) => self.0[at].compute_s,
            (_, _) => table.require("compute_s", "0.185")?.number(1e-6..=1e6)?,
        };
        let profile = Profile { name: name.to_owned(), parameters, compute_s };
        match at {
            Some(at) => self.0[at] = profile,
            None => self.0.push(profile),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts parameters and multiplications of a network, layer by layer.
    #[derive(Default)]
    struct Counter {
        parameters: u64,
        multiplications: u64,
        channels: u64,
        side: u64,
    }

    impl Counter {
        /// For RGB images of 224 × 224.
        fn image() -> Self {
            Self { channels: 3, side: 224, ..Self::default() }
        }

        fn convolve(&mut self, channels: u64, kernel: u64, stride: u64, pad: u64, bias: bool) {
            self.side = (self.side + 2 * pad - kernel) / stride + 1;
            let weights = channels * self.channels * kernel * kernel;
            // A layer without a bias is followed by a normalisation with two values per channel.
            self.parameters += weights + channels * if bias { 1 } else { 2 };
            self.multiplications += weights * self.side * self.side;
            self.channels = channels;
        }

        fn pool(&mut self, kernel: u64, stride: u64, pad: u64) {
            self.side = (self.side + 2 * pad - kernel) / stride + 1;
        }

        fn dense(&mut self, from: u64, to: u64) {
            self.parameters += from * to + to;
            self.multiplications += from * to;
        }
    }

    fn vgg(stages: [u64; 5]) -> Counter {
        let mut net = Counter::image();
        for (layers, channels) in stages.into_iter().zip([64, 128, 256, 512, 512]) {
            for _ in 0..layers {
                net.convolve(channels, 3, 1, 1, true);
            }
            net.pool(2, 2, 0);
        }
        net.dense(512 * 7 * 7, 4096);
        net.dense(4096, 4096);
        net.dense(4096, 1000);
        net
    }

    fn resnet(stages: [u64; 4]) -> Counter {
        let mut net = Counter::image();
        net.convolve(64, 7, 2, 3, false);
        net.pool(3, 2, 1);
        for (stage, (blocks, width)) in stages.into_iter().zip([64, 128, 256, 512]).enumerate() {
            for block in 0..blocks {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                if block == 0 {
                    let (channels, side) = (net.channels, net.side);
                    net.convolve(4 * width, 1, stride, 0, false);
                    (net.channels, net.side) = (channels, side);
                }
                net.convolve(width, 1, 1, 0, false);
                net.convolve(width, 3, stride, 1, false);
                net.convolve(4 * width, 1, 1, 0, false);
            }
        }
        net.dense(2048, 1000);
        net
    }

    fn alexnet() -> Counter {
        let mut net = Counter::image();
        net.convolve(64, 11, 4, 2, true);
        net.pool(3, 2, 0);
        net.convolve(192, 5, 1, 2, true);
        net.pool(3, 2, 0);
        net.convolve(384, 3, 1, 1, true);
        net.convolve(256, 3, 1, 1, true);
        net.convolve(256, 3, 1, 1, true);
        net.pool(3, 2, 0);
        net.dense(256 * 6 * 6, 4096);
        net.dense(4096, 4096);
        net.dense(4096, 1000);
        net
    }

    #[test]
    fn parameters_follow_from_the_layers() {
        let nets = [
            ("vgg11", vgg([1, 1, 2, 2, 2])),
            ("vgg16", vgg([2, 2, 3, 3, 3])),
            ("vgg19", vgg([2, 2, 4, 4, 4])),
            ("alexnet", alexnet()),
            ("resnet50", resnet([3, 4, 6, 3])),
            ("resnet101", resnet([3, 4, 23, 3])),
            ("resnet152", resnet([3, 8, 36, 3])),
        ];
        let profiles = Profiles::known();
        for (name, net) in &nets {
            assert_eq!(profiles.get(name).unwrap().parameters, net.parameters, "{name}");
        }
        // The two counts from which ResNet-152's speed is derived.
        let (of_101, of_152) = (nets[5].1.multiplications, nets[6].1.multiplications);
        assert_eq!(
            ((of_101 as f64 / 1e6).round(), (of_152 as f64 / 1e6).round()),
            (7801.0, 11514.0)
        );
    }

    #[test]
    fn a_trace_of_netpack_draws_from_six_models() {
        assert_eq!(Profiles::netpack().all().len(), 6);
        let vgg16 = Profiles::netpack().get("vgg16").cloned().unwrap();
        assert_eq!(vgg16.gradient_bytes(), 553_430_176.0);
        let job = vgg16.job(JobId(3), 10.0, 8, 600.0);
        assert!((job.ideal_s() - 600.0).abs() < 1e-9);
        assert_eq!((job.gpus, job.submit_s, job.value), (8, 10.0, 1.0));
    }

    #[test]
    fn a_file_changes_and_adds_models() {
        let text = "[[model]]\nname = \"vgg16\"\ncompute_s = 0.5\n\n\
                    [[model]]\nname = \"mine\"\nparameters = 1000\ncompute_s = 1\n";
        let profiles = Profiles::known().parse(text, "p.toml").unwrap();
        assert_eq!(profiles.get("vgg16").unwrap().compute_s, 0.5);
        assert_eq!(profiles.get("vgg16").unwrap().parameters, 138_357_544);
        assert_eq!(profiles.get("mine").unwrap().gradient_bytes(), 4000.0);
        assert_eq!(profiles.all().len(), 8);
    }

    #[test]
    fn errors_of_a_file_have_their_position() {
        let fault = |text: &str| Profiles::known().parse(text, "p.toml").unwrap_err().to_string();
        let new = fault("[[model]]\nname = \"mine\"\nparameters = 1000\n");
        assert_eq!(new, "p.toml:1:1: [[model]] has no `compute_s`; add `compute_s = 0.185`");
        let zero = fault("[[model]]\nname = \"vgg16\"\ncompute_s = 0\n");
        assert!(zero.starts_with("p.toml:3:13: `compute_s` is 0, out of range"), "{zero}");
        let unknown = fault("[[model]]\nname = \"vgg16\"\ncompute = 1\n");
        assert!(unknown.contains("did you mean `compute_s`?"), "{unknown}");
    }
}
