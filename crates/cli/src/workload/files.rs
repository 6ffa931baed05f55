//! Tensors from files: one round with all tensors of a file.

use std::path::Path;

use anyhow::{Context, Result};
use tributary_jobfile::TensorFiles;
use tributary_protocol::Tensor;
use tributary_worker::tensors::{Data, TensorFile, check_agreement};

use super::Workload;

pub(crate) struct Files {
    description: TensorFiles,
    worker: usize,
    own: TensorFile,
    begun: bool,
}

impl Files {
    /// Reads this worker's file and checks it, with those of the others that can be read here.
    pub(crate) fn open(description: &TensorFiles, worker: usize) -> Result<Self> {
        let own = TensorFile::read(&description.inputs[worker])?;
        own.check_values(description.inputs.len())?;
        let mut files = vec![own];
        for (other, path) in description.inputs.iter().enumerate() {
            if other != worker && path.exists() {
                let file = TensorFile::read(path)?;
                file.check_values(description.inputs.len())?;
                files.push(file);
            }
        }
        check_agreement(&files)?;
        let own = files.swap_remove(0);
        Ok(Self { description: description.clone(), worker, own, begun: false })
    }
}

fn tensors(file: &TensorFile) -> Vec<Tensor> {
    let tensor = |data: &Data| match data {
        Data::F32(values) => Tensor::F32(values.clone()),
        Data::I32(values) => Tensor::I32(values.clone()),
    };
    file.tensors.iter().map(|named| tensor(&named.data)).collect()
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
        Ok(Some(tensors(&self.own)))
    }

    fn everyone(&mut self) -> Result<Option<Vec<Vec<Tensor>>>> {
        let mut all = Vec::new();
        for path in &self.description.inputs {
            if !path.exists() {
                return Ok(None);
            }
            all.push(tensors(&TensorFile::read(path)?));
        }
        Ok(Some(all))
    }

    /// Every worker has the same sums; the first writes them.
    fn finish(&mut self, sums: Vec<Tensor>) -> Result<()> {
        if self.worker != 0 {
            return Ok(());
        }
        for (named, sum) in self.own.tensors.iter_mut().zip(sums) {
            named.data = match sum {
                Tensor::F32(values) => Data::F32(values),
                Tensor::I32(values) => Data::I32(values),
            };
        }
        let directory = &self.description.output_dir;
        std::fs::create_dir_all(directory).with_context(|| {
            format!("cannot create the output directory {}", directory.display())
        })?;
        let extension = self.own.path.extension().unwrap_or_default();
        let sum = Path::new("sum").with_extension(extension);
        Ok(self.own.write(&directory.join(sum))?)
    }
}
