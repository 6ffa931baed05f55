//! Tensors from files: one round with all tensors of a file.

use std::ops::Range;
use std::path::Path;

use crate::tensors::{Data, TensorFile, check_agreement};
use anyhow::{Context, Result};
use tributary_model::TensorFiles;
use tributary_protocol::Tensor;

use super::Workload;

/// The worker that writes the sums, which are the same at all workers.
const WRITER: usize = 0;

pub(super) struct Files {
    description: TensorFiles,
    worker: usize,
    own: TensorFile,
    begun: bool,
}

impl Files {
    /// Reads and checks this worker's file, and compares it with the other workers' files that this
    /// host can read, one at a time. The worker that writes the sums also checks the output
    /// directory.
    pub(super) fn open(description: &TensorFiles, worker: usize) -> Result<Self> {
        if worker == WRITER {
            let directory = &description.output_dir;
            tributary_base::output_directory(directory).with_context(|| {
                format!("cannot write to the output directory {}", directory.display())
            })?;
        }
        let own = TensorFile::read(&description.inputs[worker])?;
        own.check_values(description.inputs.len())?;
        let mut files = vec![own];
        for (other, path) in description.inputs.iter().enumerate() {
            if other != worker && path.exists() {
                let file = TensorFile::read(path)?;
                file.check_values(description.inputs.len())?;
                files.push(file);
                check_agreement(&files)?;
                files.pop();
            }
        }
        let own = files.swap_remove(0);
        Ok(Self { description: description.clone(), worker, own, begun: false })
    }
}

/// Moves the values out of a file.
fn tensors(file: &mut TensorFile) -> Vec<Tensor> {
    let take = |data: &mut Data| match data {
        Data::F32(values) => std::mem::take(values).into(),
        Data::I32(values) => std::mem::take(values).into(),
    };
    file.tensors.iter_mut().map(|named| take(&mut named.data)).collect()
}

impl Workload for Files {
    fn rounds(&self) -> u64 {
        1
    }

    fn next(&mut self) -> Result<Option<Vec<Tensor>>> {
        if self.begun {
            return Ok(None);
        }
        self.begun = true;
        Ok(Some(tensors(&mut self.own)))
    }

    fn everyone(&mut self, _: Option<&Range<usize>>) -> Result<Option<Vec<Vec<Tensor>>>> {
        let mut all = Vec::new();
        for path in &self.description.inputs {
            if !path.exists() {
                return Ok(None);
            }
            all.push(tensors(&mut TensorFile::read(path)?));
        }
        Ok(Some(all))
    }

    fn finish(&mut self, sums: Vec<Tensor>) -> Result<()> {
        if self.worker != WRITER {
            return Ok(());
        }
        for (named, sum) in self.own.tensors.iter_mut().zip(sums) {
            named.data = match sum {
                Tensor::F32(values) => Data::F32(values.into()),
                Tensor::I32(values) => Data::I32(values.into()),
            };
        }
        let directory = &self.description.output_dir;
        let extension = self.own.path.extension().unwrap_or_default();
        let sum = Path::new("sum").with_extension(extension);
        Ok(self.own.write(&directory.join(sum))?)
    }
}
