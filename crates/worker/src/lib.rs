//! Worker runtime: tensors in, summed tensors out
