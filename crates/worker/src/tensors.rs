//! Tensor files: `.npy` and `.safetensors`, in and out.
//!
//! Only `f32` and `i32` can be summed in the network, so only these are read. Files are read as a
//! whole. In memory, values are in C order (the last axis varies fastest), whatever the file's
//! order and byte order. Files are untrusted: anything malformed is an error that names the file.
//!
//! Before a job starts, [`check_agreement`] compares the files of its workers, and
//! [`TensorFile::check_values`] finds values that cannot be summed.

mod npy;
mod safetensors;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use tributary_base::FileLimit;

/// Name of the only tensor of a `.npy` file, which stores no name.
pub const NPY_TENSOR: &str = "array";

/// As large as the largest tensor of a job file. Pipes are refused: the size must be known before
/// reading, to check that it fits into memory.
const FILE: FileLimit = FileLimit::regular("tensor file", 16 << 30);

/// Most axes of a tensor: NumPy's own limit.
const MAX_RANK: usize = 64;

/// Format of a tensor file, determined by its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// NumPy's format, one array per file.
    Npy,
    /// Named tensors with a JSON header.
    SafeTensors,
}

impl Format {
    /// The format for the extension of `path`.
    ///
    /// # Errors
    /// [`TensorError::UnknownFormat`].
    pub fn of(path: &Path) -> Result<Self, TensorError> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("npy") => Ok(Self::Npy),
            Some("safetensors") => Ok(Self::SafeTensors),
            _ => Err(TensorError::UnknownFormat { path: path.into() }),
        }
    }
}

/// Type of a tensor's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// IEEE 754 single precision: summed in fixed point.
    F32,
    /// Two's complement: summed as it is.
    I32,
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::I32 => "i32",
        })
    }
}

/// A tensor's values, flat, in C order.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Values of dtype [`Dtype::F32`].
    F32(Vec<f32>),
    /// Values of dtype [`Dtype::I32`].
    I32(Vec<i32>),
}

impl Data {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::I32(values) => values.len(),
        }
    }

    /// Whether there are no values because some axis has length 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Type of the values.
    pub fn dtype(&self) -> Dtype {
        match self {
            Self::F32(_) => Dtype::F32,
            Self::I32(_) => Dtype::I32,
        }
    }

    /// Decodes four bytes per value, as both formats store them.
    fn from_bytes(dtype: Dtype, big_endian: bool, bytes: &[u8]) -> Self {
        let words = bytes.as_chunks::<4>().0.iter().map(|word| match big_endian {
            true => u32::from_be_bytes(*word),
            false => u32::from_le_bytes(*word),
        });
        match dtype {
            Dtype::F32 => Self::F32(words.map(f32::from_bits).collect()),
            Dtype::I32 => Self::I32(words.map(u32::cast_signed).collect()),
        }
    }

    /// Appends the values, little-endian.
    fn append_to(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::F32(values) => bytes.extend(values.iter().flat_map(|v| v.to_le_bytes())),
            Self::I32(values) => bytes.extend(values.iter().flat_map(|v| v.to_le_bytes())),
        }
    }
}

/// A tensor with its name and shape. The product of `shape` is the number of values.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTensor {
    /// Its name in the file; [`NPY_TENSOR`] in a `.npy` file.
    pub name: String,
    /// Lengths of the axes, slowest first; empty for a single number.
    pub shape: Vec<usize>,
    /// The values.
    pub data: Data,
}

/// The contents of a tensor file.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorFile {
    /// The path that it was read from, which names the file in errors.
    pub path: PathBuf,
    /// Its format, which [`write`](Self::write) also uses.
    pub format: Format,
    /// Free text entries of a `.safetensors` header, kept because some readers need them.
    pub metadata: BTreeMap<String, String>,
    /// The tensors, sorted by name, so that files with different orders still agree.
    pub tensors: Vec<NamedTensor>,
}

impl TensorFile {
    /// Reads a file in the format of its extension.
    ///
    /// # Errors
    /// [`TensorError::UnknownFormat`], [`TensorError::Read`], and those of
    /// [`decode`](Self::decode).
    pub fn read(path: &Path) -> Result<Self, TensorError> {
        let format = Format::of(path)?;
        let bytes =
            FILE.read(path).map_err(|source| TensorError::Read { path: path.into(), source })?;
        Self::decode(path, format, &bytes)
    }

    /// Decodes the bytes of a file; `path` only names it in errors.
    ///
    /// # Errors
    /// [`TensorError::Malformed`], [`TensorError::UnsupportedDtype`].
    pub fn decode(path: &Path, format: Format, bytes: &[u8]) -> Result<Self, TensorError> {
        let decoded = match format {
            Format::Npy => npy::decode(bytes).map(|tensor| (BTreeMap::new(), vec![tensor])),
            Format::SafeTensors => safetensors::decode(bytes),
        };
        match decoded {
            Ok((metadata, tensors)) => Ok(Self { path: path.into(), format, metadata, tensors }),
            Err(Problem::Malformed(problem)) => {
                Err(TensorError::Malformed { path: path.into(), problem })
            }
            Err(Problem::Dtype { tensor, dtype }) => {
                Err(TensorError::UnsupportedDtype { path: path.into(), tensor, dtype })
            }
        }
    }

    /// Encodes the contents. Equal contents give equal bytes.
    ///
    /// # Errors
    /// [`TensorError::Malformed`] if the format cannot hold the contents: shapes that do not fit
    /// their values, duplicate names, other than one tensor for `.npy`.
    pub fn encode(&self) -> Result<Vec<u8>, TensorError> {
        let malformed = |problem| TensorError::Malformed { path: self.path.clone(), problem };
        for tensor in &self.tensors {
            if values_of(&tensor.shape) != Some(tensor.data.len()) {
                return Err(malformed(format!(
                    "tensor {:?} of shape {} has {} values",
                    tensor.name,
                    Shape(&tensor.shape),
                    tensor.data.len()
                )));
            }
        }
        match (self.format, self.tensors.as_slice()) {
            (Format::Npy, [tensor]) => Ok(npy::encode(tensor)),
            (Format::Npy, tensors) => {
                Err(malformed(format!("a .npy file holds one tensor, not {}", tensors.len())))
            }
            (Format::SafeTensors, tensors) => {
                safetensors::encode(&self.metadata, tensors).map_err(malformed)
            }
        }
    }

    /// Writes the file to `path`, in [`format`](Self::format) whatever the extension, replacing an
    /// existing file. The replacement is atomic: a complete temporary file is renamed.
    ///
    /// # Errors
    /// Those of [`encode`](Self::encode), [`TensorError::Write`].
    pub fn write(&self, path: &Path) -> Result<(), TensorError> {
        let bytes = self.encode()?;
        tributary_base::write_whole(path, &bytes)
            .map_err(|source| TensorError::Write { path: path.into(), source })
    }

    /// Checks that the values can be summed over `workers` workers: no NaN or infinity, and no
    /// integer beyond ±(2³¹ − 1) / `workers`, whose sum might not fit (invariant I5; `f32` values
    /// of any size can be summed as floats).
    ///
    /// # Errors
    /// [`TensorError::NotFinite`] or [`TensorError::TooLarge`] for the first such value.
    ///
    /// # Panics
    /// If `workers` is 0.
    pub fn check_values(&self, workers: usize) -> Result<(), TensorError> {
        let limit = u32::try_from(i32::MAX as usize / workers).expect("at most i32::MAX");
        for tensor in &self.tensors {
            let place = |index| Place {
                path: self.path.clone(),
                tensor: tensor.name.clone(),
                position: position(index, &tensor.shape),
            };
            match &tensor.data {
                Data::F32(values) => {
                    if let Some(index) = values.iter().position(|value| !value.is_finite()) {
                        return Err(TensorError::NotFinite {
                            place: place(index),
                            value: values[index],
                        });
                    }
                }
                Data::I32(values) => {
                    let too_large = |value: &i32| value.unsigned_abs() > limit;
                    if let Some(index) = values.iter().position(too_large) {
                        return Err(TensorError::TooLarge {
                            place: place(index),
                            value: values[index],
                            limit,
                            workers,
                        });
                    }
                }
            }
        }
        Ok(())
    }
}

/// Checks that all workers' files have tensors of the same names, dtypes and shapes.
///
/// # Errors
/// [`TensorError::MissingTensor`], [`TensorError::DifferentDtypes`] or
/// [`TensorError::DifferentShapes`] for the first difference from the first file.
pub fn check_agreement(files: &[TensorFile]) -> Result<(), TensorError> {
    let Some((first, others)) = files.split_first() else {
        return Ok(());
    };
    let by_name = |file: &'_ TensorFile| -> BTreeMap<String, usize> {
        let names = file.tensors.iter().map(|tensor| tensor.name.clone());
        names.zip(0..).collect()
    };
    for other in others {
        let missing = |has: &TensorFile, lacks: &TensorFile| {
            let there = by_name(lacks);
            let lost = (has.tensors.iter()).find(|tensor| !there.contains_key(&tensor.name))?;
            Some(TensorError::MissingTensor {
                has: has.path.clone(),
                lacks: lacks.path.clone(),
                tensor: lost.name.clone(),
            })
        };
        if let Some(error) = missing(first, other).or_else(|| missing(other, first)) {
            return Err(error);
        }
        let there = by_name(other);
        for ours in &first.tensors {
            let theirs = &other.tensors[there[&ours.name]];
            if ours.data.dtype() != theirs.data.dtype() {
                return Err(TensorError::DifferentDtypes {
                    tensor: ours.name.clone(),
                    first: first.path.clone(),
                    first_dtype: ours.data.dtype(),
                    second: other.path.clone(),
                    second_dtype: theirs.data.dtype(),
                });
            }
            if ours.shape != theirs.shape {
                return Err(TensorError::DifferentShapes {
                    tensor: ours.name.clone(),
                    first: first.path.clone(),
                    first_shape: ours.shape.clone(),
                    second: other.path.clone(),
                    second_shape: theirs.shape.clone(),
                });
            }
        }
    }
    Ok(())
}

/// The position of a value: file, tensor, index on each axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// The tensor's name.
    pub tensor: String,
    /// Index on each axis, from 0, slowest axis first.
    pub position: Vec<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: tensor {:?}: the value at {:?}",
            self.path.display(),
            self.tensor,
            self.position
        )
    }
}

/// Errors of tensor files.
#[derive(Debug, thiserror::Error)]
pub enum TensorError {
    /// The extension is unknown.
    #[error("{}: tensor files end in .npy or .safetensors", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The bytes do not have the file's format.
    #[error("{}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// Values have a type that cannot be summed.
    #[error(
        "{}: tensor {tensor:?} has dtype {dtype}; only f32 and i32 can be summed",
        path.display()
    )]
    UnsupportedDtype {
        /// The file.
        path: PathBuf,
        /// The tensor's name.
        tensor: String,
        /// The type, as named in the file.
        dtype: String,
    },
    /// Only one of two files has the tensor.
    #[error("{} has no tensor {tensor:?}, which {} has", lacks.display(), has.display())]
    MissingTensor {
        /// The file with the tensor.
        has: PathBuf,
        /// The file without.
        lacks: PathBuf,
        /// The tensor's name.
        tensor: String,
    },
    /// A tensor has different types in two files.
    #[error(
        "tensor {tensor:?} has dtype {first_dtype} in {} and {second_dtype} in {}",
        first.display(),
        second.display()
    )]
    DifferentDtypes {
        /// The tensor's name.
        tensor: String,
        /// One file.
        first: PathBuf,
        /// Its dtype there.
        first_dtype: Dtype,
        /// The other file.
        second: PathBuf,
        /// Its dtype there.
        second_dtype: Dtype,
    },
    /// A tensor has different shapes in two files.
    #[error(
        "tensor {tensor:?} has shape {} in {} and {} in {}",
        Shape(first_shape),
        first.display(),
        Shape(second_shape),
        second.display()
    )]
    DifferentShapes {
        /// The tensor's name.
        tensor: String,
        /// One file.
        first: PathBuf,
        /// Its shape there.
        first_shape: Vec<usize>,
        /// The other file.
        second: PathBuf,
        /// Its shape there.
        second_shape: Vec<usize>,
    },
    /// A NaN or an infinity.
    #[error("{place} is {value}, which cannot be summed")]
    NotFinite {
        /// Its position.
        place: Place,
        /// NaN, inf or -inf.
        value: f32,
    },
    /// An integer whose sum over the workers might not fit 32 bits.
    #[error("{place} is {value}; with {workers} workers, integers must be within ±{limit}")]
    TooLarge {
        /// Its position.
        place: Place,
        /// The integer.
        value: i32,
        /// Largest magnitude allowed.
        limit: u32,
        /// Number of workers.
        workers: usize,
    },
}

/// A decoder's error; [`TensorFile::decode`] adds the file.
#[derive(Debug)]
enum Problem {
    Malformed(String),
    Dtype { tensor: String, dtype: String },
}

fn malformed(problem: impl Into<String>) -> Problem {
    Problem::Malformed(problem.into())
}

/// A shape in Python's notation: `(2, 3)`, `(5,)`, `()`.
struct Shape<'a>(&'a [usize]);

impl fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [one] => write!(f, "({one},)"),
            axes => {
                let axes: Vec<String> = axes.iter().map(usize::to_string).collect();
                write!(f, "({})", axes.join(", "))
            }
        }
    }
}

/// Number of values of a tensor of this shape; `None` on overflow.
fn values_of(shape: &[usize]) -> Option<usize> {
    let values = shape.iter().try_fold(1usize, |n, len| n.checked_mul(*len))?;
    values.checked_mul(4).map(|_| values)
}

/// Index on each axis of the value at the flat C-order `index`.
fn position(mut index: usize, shape: &[usize]) -> Vec<usize> {
    let mut position = vec![0; shape.len()];
    for (axis, len) in shape.iter().enumerate().rev() {
        position[axis] = index % len;
        index /= len;
    }
    position
}

#[cfg(test)]
mod tests;
