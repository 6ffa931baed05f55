//! NumPy's `.npy` format, versions 1.0, 2.0 and 3.0: a magic number, a header in the notation of a
//! Python dictionary, the values.
//!
//! The header has its own parser, because crates for Python literals recurse into nested brackets
//! and multiply shapes unchecked, so that a crafted file crashes them. An accepted header is one
//! flat dictionary of three entries.

use super::{Data, Dtype, MAX_RANK, NPY_TENSOR, NamedTensor, Problem, Shape, malformed, values_of};

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Values start at a multiple of this, as in NumPy.
const ALIGNMENT: usize = 64;

/// Reads a file's one array.
pub(super) fn decode(bytes: &[u8]) -> Result<NamedTensor, Problem> {
    let (text, values) = split(bytes)?;
    let header = Parser(text).header()?;
    let Header { dtype, big_endian, fortran_order, shape } = header;
    if shape.len() > MAX_RANK {
        return Err(malformed(format!(
            "the array has {} axes; at most {MAX_RANK} are read",
            shape.len()
        )));
    }
    let expected = values_of(&shape)
        .ok_or_else(|| malformed(format!("shape {} is too large", Shape(&shape))))?;
    if values.len() != expected * 4 {
        return Err(malformed(format!(
            "an array of shape {} takes {} bytes, but {} follow the header",
            Shape(&shape),
            expected * 4,
            values.len()
        )));
    }
    let mut data = Data::from_bytes(dtype, big_endian, values);
    if fortran_order {
        data = match data {
            Data::F32(values) => Data::F32(to_c_order(&values, &shape)),
            Data::I32(values) => Data::I32(to_c_order(&values, &shape)),
        };
    }
    Ok(NamedTensor { name: NPY_TENSOR.into(), shape, data })
}

/// Writes version 1.0, little-endian, C order, which every reader accepts.
pub(super) fn encode(tensor: &NamedTensor) -> Vec<u8> {
    let descr = match tensor.data.dtype() {
        Dtype::F32 => "<f4",
        Dtype::I32 => "<i4",
    };
    let mut header = format!(
        "{{'descr': '{descr}', 'fortran_order': False, 'shape': {}, }}",
        Shape(&tensor.shape)
    );
    let before = MAGIC.len() + 4;
    let padded = (before + header.len() + 1).next_multiple_of(ALIGNMENT);
    header.extend(std::iter::repeat_n(' ', padded - before - header.len() - 1));
    header.push('\n');
    let length = u16::try_from(header.len()).expect("a shape of at most 64 axes is short");

    let mut bytes = Vec::with_capacity(padded + tensor.data.len() * 4);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[1, 0]);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    tensor.data.append_to(&mut bytes);
    bytes
}

/// Splits a file into its header's text and its values.
fn split(bytes: &[u8]) -> Result<(&str, &[u8]), Problem> {
    let truncated = || malformed("the file ends within its header");
    let rest = bytes
        .strip_prefix(MAGIC)
        .ok_or_else(|| malformed("not a .npy file: it does not begin with \\x93NUMPY"))?;
    let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(truncated)?;
    let (length, rest) = match version {
        [1, 0] => {
            let (length, rest) = rest.split_first_chunk::<2>().ok_or_else(truncated)?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        [2 | 3, 0] => {
            let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(truncated)?;
            (u32::from_le_bytes(*length) as usize, rest)
        }
        [major, minor] => {
            return Err(malformed(format!(
                "version {major}.{minor} of the .npy format; 1.0, 2.0 and 3.0 are read"
            )));
        }
    };
    let (text, values) = rest.split_at_checked(length).ok_or_else(truncated)?;
    let text = std::str::from_utf8(text).map_err(|_| malformed("the header is not text"))?;
    Ok((text, values))
}

#[derive(Debug)]
struct Header {
    dtype: Dtype,
    big_endian: bool,
    fortran_order: bool,
    shape: Vec<usize>,
}

/// The unread part of the header.
struct Parser<'a>(&'a str);

impl<'a> Parser<'a> {
    fn header(mut self) -> Result<Header, Problem> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.expect('{')?;
        while !self.accept('}') {
            let key = self.string()?;
            self.expect(':')?;
            let repeated = match key {
                "descr" => descr.replace(self.descr()?).is_some(),
                "fortran_order" => fortran_order.replace(self.boolean()?).is_some(),
                "shape" => shape.replace(self.shape()?).is_some(),
                other => return Err(malformed(format!("unknown entry {other:?} in the header"))),
            };
            if repeated {
                return Err(malformed(format!("the header has {key:?} twice")));
            }
            if !self.accept(',') {
                self.expect('}')?;
                break;
            }
        }
        if !self.0.trim().is_empty() {
            return Err(malformed("the header goes on after its dictionary"));
        }
        let missing = |key| move || malformed(format!("the header has no {key:?}"));
        let (dtype, big_endian) = descr.ok_or_else(missing("descr"))?;
        Ok(Header {
            dtype,
            big_endian,
            fortran_order: fortran_order.ok_or_else(missing("fortran_order"))?,
            shape: shape.ok_or_else(missing("shape"))?,
        })
    }

    fn accept(&mut self, token: char) -> bool {
        self.0 = self.0.trim_start();
        match self.0.strip_prefix(token) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: char) -> Result<(), Problem> {
        if self.accept(token) {
            return Ok(());
        }
        Err(self.unexpected(&format!("{token:?}")))
    }

    fn unexpected(&self, wanted: &str) -> Problem {
        let found = match self.0.chars().next() {
            Some(found) => format!("{found:?}"),
            None => "its end".into(),
        };
        malformed(format!("in the header, {wanted} must come where {found} is"))
    }

    /// A string in single or double quotes. No known header needs escape sequences.
    fn string(&mut self) -> Result<&'a str, Problem> {
        self.0 = self.0.trim_start();
        for quote in ['\'', '"'] {
            if let Some(rest) = self.0.strip_prefix(quote) {
                let (text, rest) = rest
                    .split_once(quote)
                    .ok_or_else(|| malformed("a string in the header does not end"))?;
                self.0 = rest;
                return Ok(text);
            }
        }
        Err(self.unexpected("a string"))
    }

    fn boolean(&mut self) -> Result<bool, Problem> {
        self.0 = self.0.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.0.strip_prefix(word) {
                self.0 = rest;
                return Ok(value);
            }
        }
        Err(self.unexpected("True or False"))
    }

    /// The type, and whether it is big-endian.
    fn descr(&mut self) -> Result<(Dtype, bool), Problem> {
        let unsupported = |dtype: String| Problem::Dtype { tensor: NPY_TENSOR.into(), dtype };
        self.0 = self.0.trim_start();
        if self.0.starts_with('[') {
            return Err(unsupported("structured".into()));
        }
        match self.string()? {
            "<f4" => Ok((Dtype::F32, false)),
            ">f4" => Ok((Dtype::F32, true)),
            "<i4" => Ok((Dtype::I32, false)),
            ">i4" => Ok((Dtype::I32, true)),
            other => Err(unsupported(describe(other))),
        }
    }

    /// `(2, 3)`, `(5,)`, `()`; also a list, and `5L`, Python 2's notation of long integers.
    fn shape(&mut self) -> Result<Vec<usize>, Problem> {
        let close = if self.accept('(') {
            ')'
        } else if self.accept('[') {
            ']'
        } else {
            return Err(self.unexpected("a shape"));
        };
        let mut shape = Vec::new();
        while !self.accept(close) {
            shape.push(self.length()?);
            if !self.accept(',') {
                self.expect(close)?;
                break;
            }
        }
        Ok(shape)
    }

    fn length(&mut self) -> Result<usize, Problem> {
        self.0 = self.0.trim_start();
        let end = self.0.find(|c: char| !c.is_ascii_digit());
        let (digits, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        if digits.is_empty() {
            return Err(self.unexpected("the length of an axis"));
        }
        self.0 = rest.strip_prefix('L').unwrap_or(rest);
        digits.parse().map_err(|_| malformed("the length of an axis is too large"))
    }
}

/// A readable type: `<f8` becomes f64; others are kept, truncated.
fn describe(descr: &str) -> String {
    let mut short: String = descr.chars().take(20).collect();
    if short.len() < descr.len() {
        short.push('…');
    }
    let mut chars = descr.chars();
    let (order, kind, bytes) = (chars.next(), chars.next(), chars.as_str());
    match (order, kind, bytes.parse::<u8>()) {
        (Some('<' | '>' | '|'), Some(kind @ ('f' | 'i' | 'u')), Ok(bytes @ 1..=16)) => {
            format!("{kind}{} ({short:?})", u32::from(bytes) * 8)
        }
        _ => format!("{short:?}"),
    }
}

/// Converts values from Fortran order (first axis fastest) to C order (last axis fastest).
fn to_c_order<T: Copy>(values: &[T], shape: &[usize]) -> Vec<T> {
    // Distance in `values` between neighbours on each axis.
    let strides: Vec<usize> = shape
        .iter()
        .scan(1, |next, len| {
            let stride = *next;
            *next *= len;
            Some(stride)
        })
        .collect();
    let mut position = vec![0; shape.len()];
    let mut from = 0;
    let mut ordered = Vec::with_capacity(values.len());
    while ordered.len() < values.len() {
        ordered.push(values[from]);
        for axis in (0..shape.len()).rev() {
            position[axis] += 1;
            from += strides[axis];
            if position[axis] < shape[axis] {
                break;
            }
            from -= strides[axis] * shape[axis];
            position[axis] = 0;
        }
    }
    ordered
}
