//! Output directories, and those of sockets.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of the longest path below a [`socket_parent`]. The kernel accepts 107 for the whole path of a
/// socket.
const BELOW: usize = 60;
const SOCKET_PATH: usize = 107;

/// A directory in which to create one with Unix sockets: that of temporary files (`TMPDIR`), unless the
/// paths of sockets in it would be too long, or could not be written as addresses, which are UTF-8.
///
/// # Errors
///
/// If neither that directory nor the system's own are suitable.
pub fn socket_parent() -> io::Result<PathBuf> {
    parent_for_sockets(std::env::temp_dir())
}

fn parent_for_sockets(own: PathBuf) -> io::Result<PathBuf> {
    if own.to_str().is_some_and(|path| path.len() + BELOW <= SOCKET_PATH) {
        return Ok(own);
    }
    let others = ["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from);
    let found = others.into_iter().find(|path| output_directory(path).is_ok());
    found.ok_or_else(|| {
        let why = format!(
            "the path of TMPDIR, {}, is not UTF-8 or longer than {} bytes, which Unix sockets need; name \
             another directory",
            own.display(),
            SOCKET_PATH - BELOW
        );
        io::Error::new(io::ErrorKind::InvalidInput, why)
    })
}

/// Creates a directory and its parents, and tests that files can be created in it. Call it before
/// the work whose results go there.
///
/// # Errors
///
/// Errors of the operating system.
pub fn output_directory(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    let probe = path.join(format!(".tributary-{}", std::process::id()));
    File::create(&probe)?;
    fs::remove_file(&probe)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn sockets_have_short_paths_in_utf_8() {
        let suitable = Path::new("/run/user/1000");
        assert_eq!(parent_for_sockets(suitable.into()).unwrap(), suitable);
        let binary = PathBuf::from(OsStr::from_bytes(b"/tmp/\xff"));
        for unsuitable in [PathBuf::from(format!("/tmp/{}", "x".repeat(180))), binary] {
            let parent = parent_for_sockets(unsuitable.clone()).unwrap();
            assert!(parent != unsuitable && parent.is_dir(), "{}", parent.display());
        }
    }

    #[test]
    fn a_directory_is_made_and_left_empty() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b");
        output_directory(&path).unwrap();
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        fs::write(path.join("file"), "").unwrap();
        assert!(output_directory(&path.join("file")).is_err());
        // No user can write there, not even root.
        assert!(output_directory(Path::new("/proc/self/net")).is_err());
    }
}
