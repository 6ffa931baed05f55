//! Encoding and decoding of message fields.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{Error, LENGTH_LEN, Values};
use crate::{Sequence, VALUES_MAX, WorkerSet};

/// Appends a frame. Its body is the tag and the bytes that `fields` appends.
pub(super) fn frame(out: &mut BytesMut, tag: u8, fields: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_u32(0);
    out.put_u8(tag);
    fields(out);
    let length = u32::try_from(out.len() - start - LENGTH_LEN).expect("far below 4 GiB");
    out[start..start + LENGTH_LEN].copy_from_slice(&length.to_be_bytes());
}

/// Appends a set of workers: the number of its 32-bit words without the zeros at the end, and these.
pub(super) fn put_workers(out: &mut BytesMut, workers: WorkerSet) {
    let words = workers.words().rposition(|word| word != 0).map_or(0, |last| last + 1);
    out.put_u8(words as u8);
    workers.words().take(words).for_each(|word| out.put_u32(word));
}

/// Appends values.
///
/// # Panics
///
/// If the number of values is invalid. The peer would close the connection.
pub(super) fn put_values(out: &mut BytesMut, values: &Values) {
    let length = values.payload.len();
    assert!(is_payload(length), "{length} bytes are no values of a packet");
    out.put_u8(values.float.into());
    out.put_slice(&values.payload);
}

fn is_payload(length: usize) -> bool {
    length > 0 && length.is_multiple_of(4) && length <= 4 * usize::from(VALUES_MAX)
}

/// Reads the fields of a body in order.
pub(super) struct Reader(Bytes);

impl Reader {
    /// Returns the tag and a reader positioned after it.
    pub(super) fn open(body: Bytes) -> Result<(u8, Self), Error> {
        let mut reader = Self(body);
        Ok((reader.byte()?, reader))
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let bytes = self.0.first_chunk().copied();
        let bytes = bytes.ok_or(Error::Truncated(N.saturating_sub(self.0.len())))?;
        self.0.advance(N);
        Ok(bytes)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Error> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    pub(super) fn sequence(&mut self) -> Result<Sequence, Error> {
        self.array().map(|bytes| Sequence(u32::from_be_bytes(bytes)))
    }

    pub(super) fn workers(&mut self) -> Result<WorkerSet, Error> {
        let count = self.byte()?;
        let words = (0..count).map(|_| self.array().map(u32::from_be_bytes));
        let words = words.collect::<Result<Vec<u32>, Error>>()?;
        // Each set has one encoding.
        let shortest = words.last() != Some(&0);
        WorkerSet::from_words(words).filter(|_| shortest).ok_or(Error::Workers(count))
    }

    /// A byte of flags. An error if a flag outside `known` is set.
    pub(super) fn flags(&mut self, known: u8) -> Result<u8, Error> {
        let flags = self.byte()?;
        if flags & !known == 0 { Ok(flags) } else { Err(Error::Flags(flags)) }
    }

    /// Values: the rest of the body.
    pub(super) fn values(&mut self) -> Result<Values, Error> {
        let float = self.flags(1)? == 1;
        let payload = std::mem::take(&mut self.0);
        if is_payload(payload.len()) {
            Ok(Values { float, payload })
        } else {
            Err(Error::Payload(payload.len()))
        }
    }

    /// Returns `message` if the body is fully read.
    pub(super) fn end<T>(&self, message: T) -> Result<T, Error> {
        if self.0.is_empty() { Ok(message) } else { Err(Error::Trailing(self.0.len())) }
    }
}
