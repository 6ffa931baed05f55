//! Reading files within limits.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::size;

/// The size limit of a kind of file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileLimit {
    what: &'static str,
    bytes: u64,
    streams: bool,
}

impl FileLimit {
    /// A limit of `bytes` bytes for a regular file, a pipe or standard input. `what` is the name of
    /// such a file in messages: `job file`.
    #[must_use]
    pub const fn new(what: &'static str, bytes: u64) -> Self {
        Self { what, bytes, streams: true }
    }

    /// The same for regular files only, whose sizes are known before they are read.
    #[must_use]
    pub const fn regular(what: &'static str, bytes: u64) -> Self {
        Self { what, bytes, streams: false }
    }

    /// Reads a whole file.
    ///
    /// # Errors
    ///
    /// - [`io::ErrorKind::FileTooLarge`] if the file exceeds the limit. Regular files are checked
    ///   before they are read, others while they are read.
    /// - [`io::ErrorKind::OutOfMemory`].
    /// - Errors of the operating system.
    ///
    /// The texts of the errors continue `cannot read FILE: `.
    pub fn read(self, path: &Path) -> io::Result<Vec<u8>> {
        let (mut file, length) = self.checked(path)?;
        let mut bytes = Vec::new();
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
        bytes.try_reserve_exact(length).map_err(|_| no_memory(length as u64))?;
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads a whole file of UTF-8 text.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read), and [`io::ErrorKind::InvalidData`].
    pub fn read_text(self, path: &Path) -> io::Result<String> {
        let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8");
        String::from_utf8(self.read(path)?).map_err(not_text)
    }

    /// Opens a file for reading in pieces. Reading past the limit is an error.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    pub fn open(self, path: &Path) -> io::Result<Limited<File>> {
        Ok(self.checked(path)?.0)
    }

    /// Limits any reader.
    #[must_use]
    pub fn of<R>(self, inner: R) -> Limited<R> {
        Limited { inner, left: self.bytes, limit: self }
    }

    /// The opened file, and its size if that is known before it is read.
    fn checked(self, path: &Path) -> io::Result<(Limited<File>, u64)> {
        let mut options = File::options();
        options.read(true);
        // Opening a pipe without a writer would block. The flag does not affect regular files.
        if !self.streams {
            options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        }
        let file = options.open(path)?;
        let metadata = file.metadata()?;
        self.check(&metadata)?;
        Ok((self.of(file), metadata.len()))
    }

    fn check(self, metadata: &Metadata) -> io::Result<()> {
        let length = metadata.len();
        if metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
        }
        if !metadata.is_file() && !self.streams {
            let why = format!("it is not a regular file, and a {} must be one", self.what);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        if metadata.is_file() && length > self.bytes {
            return Err(self.too_large(&format!("it has {}", size(length))));
        }
        Ok(())
    }

    fn too_large(self, found: &str) -> io::Error {
        let Self { what, bytes, .. } = self;
        let why =
            format!("{found}, and a {what} may have at most {}; name another file", size(bytes));
        io::Error::new(io::ErrorKind::FileTooLarge, why)
    }
}

/// The allocator's error does not name the size, so this one does.
fn no_memory(bytes: u64) -> io::Error {
    let why = format!("it has {}, more than there is memory for", size(bytes));
    io::Error::new(io::ErrorKind::OutOfMemory, why)
}

/// A reader that fails when it exceeds its limit.
#[derive(Debug)]
pub struct Limited<R> {
    inner: R,
    left: u64,
    limit: FileLimit,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Reading one byte beyond the limit distinguishes a file of exactly the limit from a larger
        // one.
        let most = usize::try_from(self.left.saturating_add(1)).unwrap_or(usize::MAX);
        let most = most.min(buffer.len());
        let read = self.inner.read(&mut buffer[..most])?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => {
                let found = format!("it has more than {}", size(self.limit.bytes));
                return Err(self.limit.too_large(&found));
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const LIMIT: FileLimit = FileLimit::new("letter", 8);

    #[test]
    fn a_file_at_the_limit_is_read_and_a_larger_one_is_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("letter");
        std::fs::write(&path, "12345678").unwrap();
        assert_eq!(LIMIT.read(&path).unwrap(), b"12345678");
        assert_eq!(LIMIT.read_text(&path).unwrap(), "12345678");
        std::fs::write(&path, "123456789").unwrap();
        let error = LIMIT.read(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        let said = "it has 9 bytes, and a letter may have at most 8 bytes; name another file";
        assert_eq!(error.to_string(), said);
    }

    #[test]
    fn a_sparse_file_of_a_tebibyte_is_rejected_before_reading() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("large");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = FileLimit::regular("tensor file", 1 << 30).read(&path).unwrap_err();
        assert!(error.to_string().starts_with("it has 1.0 TiB, and a tensor file"), "{error}");
    }

    #[test]
    fn streams_are_read_up_to_the_limit_or_refused() {
        let zero = Path::new("/dev/zero");
        let error = LIMIT.read(zero).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().starts_with("it has more than 8 bytes, and a letter"), "{error}");
        let error = FileLimit::regular("letter", 8).read(zero).unwrap_err();
        assert_eq!(error.to_string(), "it is not a regular file, and a letter must be one");
        assert_eq!(LIMIT.read(Path::new("/dev/null")).unwrap(), b"");
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"1234").unwrap();
        drop(writer);
        let mut text = String::new();
        LIMIT.of(reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "1234");
    }

    #[test]
    fn a_pipe_that_nothing_writes_to_is_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let error = FileLimit::regular("letter", 8).read(&path).unwrap_err();
        assert_eq!(error.to_string(), "it is not a regular file, and a letter must be one");
    }

    #[test]
    fn missing_files_and_binary_files_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        let error = LIMIT.read(directory.path()).unwrap_err();
        assert_eq!(error.to_string(), "it is a directory");
        let path = directory.path().join("letter");
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert_eq!(LIMIT.read_text(&path).unwrap_err().to_string(), "it is not text in UTF-8");
    }
}
