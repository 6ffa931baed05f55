//! Files that gzip packed.

use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;

/// The first bytes of a packed file.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Takes the first bytes of a reader, as many as [`is_packed`] needs if there are so many.
pub(super) fn head(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(MAGIC.len());
    reader.by_ref().take(MAGIC.len() as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Whether a file that begins with these bytes is packed.
pub(super) fn is_packed(head: &[u8]) -> bool {
    head == MAGIC
}

/// The content of a packed file, up to a number of bytes.
#[derive(Debug)]
pub(super) struct Unpacked<R> {
    decoder: MultiGzDecoder<R>,
    left: u64,
    most: u64,
}

impl<R: BufRead> Unpacked<R> {
    pub(super) fn new(reader: R, most: u64) -> Self {
        Self { decoder: MultiGzDecoder::new(reader), left: most, most }
    }
}

impl<R: BufRead> Read for Unpacked<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.decoder.read(to)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            io::Error::other(format!("it unpacks to more than {} bytes; split it", self.most))
        })?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn a_file_that_unpacks_to_more_than_allowed_is_an_error() {
        let mut to = GzEncoder::new(Vec::new(), Compression::fast());
        to.write_all(&[b'x'; 100_000]).unwrap();
        let packed = to.finish().unwrap();
        let unpack = |most| {
            let mut content = Vec::new();
            Unpacked::new(packed.as_slice(), most).read_to_end(&mut content)
        };
        assert_eq!(unpack(100_000).unwrap(), 100_000);
        let error = unpack(99_999).unwrap_err().to_string();
        assert_eq!(error, "it unpacks to more than 99999 bytes; split it");
    }
}
