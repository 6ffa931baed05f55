//! The `.safetensors` format: the header's length, a JSON header, the values.
//!
//! Header types and checks come from the `safetensors` crate. Its reader of whole files is not
//! used, because it adds lengths from the file unchecked. Its writer is not used either: it stores
//! metadata in a randomly ordered map, but equal results should give equal files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use safetensors::Dtype as StoredDtype;
use safetensors::tensor::Metadata;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{Data, Dtype, MAX_RANK, NamedTensor, Problem, malformed};

/// Longest header that the format allows.
const MAX_HEADER: u64 = 100_000_000;

/// Entries of metadata and tensors, both sorted by name.
type Contents = (BTreeMap<String, String>, Vec<NamedTensor>);

/// Reads metadata and tensors.
pub(super) fn decode(bytes: &[u8]) -> Result<Contents, Problem> {
    let not_one = |problem: &str| malformed(format!("not a .safetensors file: {problem}"));
    let (length, rest) =
        bytes.split_first_chunk::<8>().ok_or_else(|| not_one("shorter than 8 bytes"))?;
    let length = u64::from_le_bytes(*length);
    if length > MAX_HEADER {
        return Err(not_one("its first 8 bytes are no length of a header"));
    }
    let (header, values) = usize::try_from(length)
        .ok()
        .and_then(|length| rest.split_at_checked(length))
        .ok_or_else(|| malformed("the file ends within its header"))?;
    let invalid = |error| malformed(format!("the header is not valid: {error}"));
    let _: Distinct = serde_json::from_slice(header).map_err(invalid)?;
    let header: Metadata = serde_json::from_slice(header).map_err(invalid)?;
    if header.data_len() != values.len() {
        return Err(malformed(format!(
            "the header describes {} bytes of values, but {} follow it",
            header.data_len(),
            values.len()
        )));
    }

    let infos: BTreeMap<_, _> = header.tensors().into_iter().collect();
    let mut tensors = Vec::with_capacity(infos.len());
    for (name, info) in infos {
        let dtype = match info.dtype {
            StoredDtype::F32 => Dtype::F32,
            StoredDtype::I32 => Dtype::I32,
            other => {
                return Err(Problem::Dtype { tensor: name, dtype: other.to_string() });
            }
        };
        if info.shape.len() > MAX_RANK {
            return Err(malformed(format!(
                "tensor {name:?} has {} axes; at most {MAX_RANK} are read",
                info.shape.len()
            )));
        }
        let (start, end) = info.data_offsets;
        let stored = values
            .get(start..end)
            .ok_or_else(|| malformed(format!("tensor {name:?} lies outside the file")))?;
        tensors.push(NamedTensor {
            shape: info.shape.clone(),
            data: Data::from_bytes(dtype, false, stored),
            name,
        });
    }
    let metadata = header.metadata().iter().flatten();
    Ok((metadata.map(|(k, v)| (k.clone(), v.clone())).collect(), tensors))
}

/// A JSON object without duplicate names. [`Metadata`] would keep the last duplicate.
struct Distinct;

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self)
    }
}

impl<'de> Visitor<'de> for Distinct {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut names = BTreeSet::new();
        while let Some((name, IgnoredAny)) = map.next_entry::<String, _>()? {
            if let Some(name) = names.replace(name) {
                return Err(A::Error::custom(format!("two entries are named {name:?}")));
            }
        }
        Ok(self)
    }
}

#[derive(Serialize)]
struct Header<'a> {
    #[serde(rename = "__metadata__", skip_serializing_if = "BTreeMap::is_empty")]
    metadata: &'a BTreeMap<String, String>,
    #[serde(flatten)]
    tensors: BTreeMap<&'a str, Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    dtype: StoredDtype,
    shape: &'a [usize],
    data_offsets: (usize, usize),
}

/// Writes the tensors in the given order, which the header keeps by their offsets.
pub(super) fn encode(
    metadata: &BTreeMap<String, String>,
    tensors: &[NamedTensor],
) -> Result<Vec<u8>, String> {
    let mut entries = BTreeMap::new();
    let mut offset = 0;
    for tensor in tensors {
        let end = offset + tensor.data.len() * 4;
        let entry = Entry {
            dtype: match tensor.data.dtype() {
                Dtype::F32 => StoredDtype::F32,
                Dtype::I32 => StoredDtype::I32,
            },
            shape: &tensor.shape,
            data_offsets: (offset, end),
        };
        if tensor.name == "__metadata__" || entries.insert(tensor.name.as_str(), entry).is_some() {
            return Err(format!("a second tensor or entry named {:?}", tensor.name));
        }
        offset = end;
    }
    let header = Header { metadata, tensors: entries };
    let mut header =
        serde_json::to_vec(&header).map_err(|error| format!("cannot write the header: {error}"))?;
    // Pad with spaces to align values for readers that map the file into memory.
    header.resize(header.len().next_multiple_of(8), b' ');

    let mut bytes = Vec::with_capacity(8 + header.len() + offset);
    bytes.extend_from_slice(&(header.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&header);
    for tensor in tensors {
        tensor.data.append_to(&mut bytes);
    }
    Ok(bytes)
}
