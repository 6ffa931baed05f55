//! The directory of a run, which has its sockets.
//!
//! A run removes its directory when it ends, on every signal that a process can handle. It holds a
//! lock on the directory, so after SIGKILL the next run finds the directory unlocked and removes
//! it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use tempfile::TempDir;

/// Prefix of the names of such directories.
const PREFIX: &str = "tributary-run-";

/// A directory that only this user can enter. Removed when dropped.
pub struct Scratch {
    directory: TempDir,
    _lock: Flock<File>,
}

impl Scratch {
    /// Creates a directory within `parent`, after removing those of dead runs.
    ///
    /// # Errors
    /// If the directory cannot be made.
    pub fn new(parent: &Path) -> io::Result<Self> {
        remove_abandoned(parent);
        loop {
            let own = fs::Permissions::from_mode(0o700);
            let mut builder = tempfile::Builder::new();
            let directory = builder.prefix(PREFIX).permissions(own).tempdir_in(parent)?;
            // Before it is locked, another run may take it for abandoned and remove it.
            if let Some(lock) = lock(directory.path())
                && directory.path().exists()
            {
                return Ok(Self { directory, _lock: lock });
            }
        }
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Removes the directories of this user's ended runs. Errors are ignored.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let own = |path: &Path| {
            let metadata = fs::symlink_metadata(path)?;
            io::Result::Ok(metadata.is_dir() && metadata.uid() == geteuid().as_raw())
        };
        if entry.file_name().to_string_lossy().starts_with(PREFIX)
            && own(&path).unwrap_or(false)
            && let Some(_lock) = lock(&path)
            && let Err(error) = fs::remove_dir_all(&path)
        {
            tracing::warn!("cannot remove {}, which a killed run left: {error}", path.display());
        }
    }
}

/// Locks a directory; `None` if another process holds the lock, or the directory does not exist.
fn lock(path: &Path) -> Option<Flock<File>> {
    Flock::lock(File::open(path).ok()?, FlockArg::LockExclusiveNonblock).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_run_removes_only_directories_of_dead_runs() {
        let parent = tempfile::tempdir().unwrap();
        let alive = Scratch::new(parent.path()).unwrap();
        fs::write(alive.path().join("note.txt"), "{}").unwrap();
        let dead = parent.path().join(format!("{PREFIX}dead"));
        let other = parent.path().join("other");
        for left in [&dead, &other] {
            fs::create_dir(left).unwrap();
            fs::write(left.join("note.txt"), "{}").unwrap();
        }
        std::os::unix::fs::symlink(&other, parent.path().join(format!("{PREFIX}link"))).unwrap();
        let next = Scratch::new(parent.path()).unwrap();
        assert!(!dead.exists());
        assert!(other.join("note.txt").exists() && alive.path().join("note.txt").exists());
        let mode = fs::metadata(next.path()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        let path = next.path().to_owned();
        drop(next);
        assert!(!path.exists());
    }
}
