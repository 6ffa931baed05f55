//! What the jobs sum.

use std::path::PathBuf;

use tributary_base::document::{Error, Item, Table};

use super::{Context, VALUE_BYTES};
use crate::{Digits, Distribution, RandomTensors, TensorFiles, Verify, Workload};

/// Number of training images in the handwritten-digits data set.
const MAX_BATCH: u32 = 1437;

impl Context<'_, '_> {
    pub(super) fn workload(
        &self,
        table: &Table<'_>,
        workers: usize,
        seed: u64,
    ) -> Result<Workload, Error> {
        let Some(item) = table.get("workload") else {
            return Ok(Workload::Random(RandomTensors {
                tensors: 4,
                repeat: 1,
                warm_up: 0,
                elements: DEFAULT_ELEMENTS,
                seed,
                distribution: Distribution::Uniform,
                magnitude: 1.0,
                verify: Verify::All,
            }));
        };
        #[derive(Clone, Copy, PartialEq)]
        enum Kind {
            Random,
            Files,
            Digits,
        }
        let (kind, table) = item.table_by_kind(
            "the workload",
            None,
            &[
                (
                    "random",
                    Kind::Random,
                    &[
                        "tensors",
                        "repeat",
                        "warm_up",
                        "elements",
                        "bytes",
                        "seed",
                        "distribution",
                        "magnitude",
                        "verify",
                    ],
                ),
                ("files", Kind::Files, &["inputs", "output_dir"]),
                (
                    "digits",
                    Kind::Digits,
                    &["epochs", "batch", "learning_rate", "momentum", "hidden", "target", "seed"],
                ),
            ],
        )?;
        match kind {
            Kind::Random => random(&table, seed).map(Workload::Random),
            Kind::Files => self.files(&table, workers).map(Workload::Files),
            Kind::Digits => digits(&table, workers, seed).map(Workload::Digits),
        }
    }

    fn files(&self, table: &Table<'_>, workers: usize) -> Result<TensorFiles, Error> {
        let example = "[\"worker0.npy\", \"worker1.npy\"]";
        let item = table.require("inputs", example)?;
        let inputs = item
            .array("`inputs`")?
            .iter()
            .map(|item| self.input_file(item))
            .collect::<Result<Vec<_>, _>>()?;
        if inputs.len() != workers {
            return Err(item.fault(
                format!("there are {} input files for {workers} workers", inputs.len()),
                "name one file for each worker",
            ));
        }
        let item = table.require("output_dir", "\"sums\"")?;
        let output = item.string("sums")?;
        if output.is_empty() {
            return Err(
                item.fault("`output_dir` is empty", "write \".\" for the job file's directory")
            );
        }
        Ok(TensorFiles { inputs, output_dir: self.path(output) })
    }

    fn input_file(&self, item: &Item<'_>) -> Result<PathBuf, Error> {
        let text = item.string("worker0.npy")?;
        let path = self.path(text);
        let ending = path.extension().and_then(|ending| ending.to_str());
        if !matches!(ending, Some("npy" | "safetensors")) {
            return Err(item.fault(
                format!("`{text}` is not a tensor file by its ending"),
                "name a file that ends in .npy or .safetensors",
            ));
        }
        if self.directory.is_some() && !path.is_file() {
            return Err(item.fault(
                format!("there is no file `{text}`"),
                "correct the name; relative names start at the job file's directory",
            ));
        }
        Ok(path)
    }

    fn path(&self, text: &str) -> PathBuf {
        self.directory.map_or_else(|| text.into(), |directory| directory.join(text))
    }
}

/// Default number of elements of a random tensor: 1 MB.
const DEFAULT_ELEMENTS: u64 = 1_000_000 / VALUE_BYTES;

fn random(table: &Table<'_>, seed: u64) -> Result<RandomTensors, Error> {
    let count = |item: &Item<'_>| item.integer32(1..=1_000_000);
    let tensors = table.or("tensors", 4, count)?;
    let repeat = table.or("repeat", 1, count)?;
    let warm_up = table.or("warm_up", 0, |w| w.integer32(0..=u32::MAX))?;
    if u64::from(warm_up) >= u64::from(tensors) * u64::from(repeat) {
        return Err(table.place_of("warm_up").fault(
            format!("{warm_up} sums are for warming up, and there are {tensors} × {repeat}"),
            "sum more often, so that some are left to measure",
        ));
    }
    let elements = match (table.get("elements"), table.get("bytes")) {
        (Some(_), Some(bytes)) => {
            return Err(bytes.fault(
                "`elements` and `bytes` both say how large a tensor is",
                "keep one of them",
            ));
        }
        (Some(elements), None) => elements.integer(1..=1 << 32)?,
        (None, Some(item)) => {
            let bytes = item.size()?;
            if bytes == 0 || bytes % VALUE_BYTES != 0 || bytes > VALUE_BYTES << 32 {
                return Err(item.fault(
                    format!("a tensor cannot have {bytes} bytes"),
                    "choose a multiple of 4 bytes, from 4B to 16GiB",
                ));
            }
            bytes / VALUE_BYTES
        }
        (None, None) => DEFAULT_ELEMENTS,
    };
    let distributions = [("uniform", Distribution::Uniform), ("normal", Distribution::Normal)];
    Ok(RandomTensors {
        tensors,
        repeat,
        warm_up,
        elements,
        seed: table.or("seed", seed, |s| s.integer(0..=u64::MAX))?,
        distribution: table
            .or("distribution", Distribution::Uniform, |d| d.choice(&distributions))?,
        magnitude: table.or("magnitude", 1.0, |m| m.number(0.0..=1e30))?,
        verify: table.or("verify", Verify::All, |v| {
            v.choice(&[("all", Verify::All), ("share", Verify::Share)])
        })?,
    })
}

fn digits(table: &Table<'_>, workers: usize, seed: u64) -> Result<Digits, Error> {
    let least = u32::try_from(workers).unwrap_or(u32::MAX);
    Ok(Digits {
        epochs: table.or("epochs", 10, |e| e.integer32(1..=100_000))?,
        batch: table.or("batch", 64, |b| b.integer32(least..=MAX_BATCH))?,
        learning_rate: table.or("learning_rate", 0.1, |l| l.number(1e-9..=1e3))?,
        momentum: table.or("momentum", 0.9, |m| m.number(0.0..=0.999_999))?,
        hidden: table.or("hidden", 32, |h| h.integer32(0..=4096))?,
        target: table.or("target", 0.0, Item::probability)?,
        seed: table.or("seed", seed, |s| s.integer(0..=u64::MAX))?,
    })
}
