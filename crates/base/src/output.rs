//! Output files that are there whole, or not at all.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A file that is being written. It has its name, in place of an earlier file, after [`finish`](Self::finish). Dropped before
/// that, it leaves everything as it was.
///
/// Until then it is another file in the same directory. A symbolic link stays one, and a file that is replaced
/// keeps its mode. A device or a pipe is written to as it is.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    /// Where the file is now, and where it will be; `None` for a device.
    places: Option<(PathBuf, PathBuf)>,
}

impl OutputFile {
    /// Begins a file. Call it before the work whose results go there, so that an error does not waste the work.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::begin(path, None)
    }

    fn begin(path: &Path, mode: Option<u32>) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        // A name such as /dev/stdout stands for what is open already.
        let is_open = path.starts_with("/dev") || path.starts_with("/proc");
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if path.file_name().is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"));
        }
        let before = match fs::metadata(&path) {
            Ok(found) => {
                // Refused for a directory, and for a file that may not be changed.
                let file = OpenOptions::new().write(true).open(&path)?;
                if is_open || !found.is_file() {
                    return Ok(Self { file, places: None });
                }
                Some(found.permissions())
            }
            Err(_) => None,
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let part = format!(".tributary-{}-{number}.part", std::process::id());
        let part = path.with_file_name(part);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode.unwrap_or(0o666))
            .open(&part)?;
        let output = Self { file, places: Some((part, path)) };
        let mode = mode.map(Permissions::from_mode);
        mode.or(before).map_or(Ok(()), |mode| output.file.set_permissions(mode))?;
        Ok(output)
    }

    /// Gives the file its name. It is on disk then.
    ///
    /// # Errors
    /// Errors of the operating system. What was written is removed then.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some((part, path)) = &self.places {
            self.file.sync_all()?;
            fs::rename(part, path)?;
            self.places = None;
        }
        Ok(())
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some((part, _)) = &self.places {
            drop(fs::remove_file(part));
        }
    }
}

/// Writes a whole [`OutputFile`].
///
/// # Errors
/// Errors of the operating system. The path has what it had before then.
pub fn write_whole(path: &Path, contents: impl AsRef<[u8]>) -> io::Result<()> {
    write(OutputFile::create(path)?, contents.as_ref())
}

/// The same with these permissions, whatever the umask, and also if the file was there before.
///
/// # Errors
/// As of [`write_whole`].
pub fn write_whole_with_mode(path: &Path, contents: impl AsRef<[u8]>, mode: u32) -> io::Result<()> {
    write(OutputFile::begin(path, Some(mode))?, contents.as_ref())
}

fn write(mut file: OutputFile, contents: &[u8]) -> io::Result<()> {
    file.write_all(contents)?;
    file.finish()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string();
        let mut names: Vec<String> = entries.map(|entry| name(entry).unwrap()).collect();
        names.sort_unstable();
        names
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let mut half = OutputFile::create(&path).unwrap();
        half.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(half);
        assert_eq!(names(directory.path()), [""; 0]);
        write_whole(&path, "first").unwrap();
        let mut half = OutputFile::create(&path).unwrap();
        half.write_all(b"half").unwrap();
        drop(half);
        assert_eq!(fs::read(&path).unwrap(), b"first");
        write_whole(&path, "second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(directory.path()), ["out"]);
    }

    #[test]
    fn links_modes_and_devices_stay_as_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let [path, link] = ["out", "link"].map(|name| directory.path().join(name));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        symlink("out", &link).unwrap();
        write_whole(&link, "new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!((fs::read(&path).unwrap(), mode(&path)), (b"new".to_vec(), 0o640));
        write_whole_with_mode(&path, "secret", 0o600).unwrap();
        assert_eq!(mode(&path), 0o600);
        write_whole(Path::new("/dev/null"), "gone").unwrap();
        let full = write_whole(Path::new("/dev/full"), "lost").unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert_eq!(names(directory.path()), ["link", "out"]);
    }

    #[test]
    fn what_cannot_be_written_is_refused_before_the_work() {
        let directory = tempfile::tempdir().unwrap();
        for path in [directory.path(), &directory.path().join("none/out"), Path::new("/")] {
            assert!(OutputFile::create(path).is_err(), "{}", path.display());
        }
        assert_eq!(names(directory.path()), [""; 0]);
    }
}
