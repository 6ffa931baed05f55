//! The directory of a run: sockets, and the file of tokens.
//!
//! A run removes its directory when it ends, on every signal that a process can handle. After SIGKILL
//! the next run removes the directory: it is locked as long as its run lives.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use tempfile::TempDir;

/// How the names of such directories begin.
const PREFIX: &str = "tributary-run-";

/// A directory that only this user can enter. Removed when this is dropped.
pub(super) struct Scratch {
    directory: TempDir,
    _lock: Flock<File>,
}

impl Scratch {
    /// A new one within `parent`, in which those of dead runs are removed.
    pub(super) fn new(parent: &Path) -> io::Result<Self> {
        remove_abandoned(parent);
        loop {
            let own = fs::Permissions::from_mode(0o700);
            let mut builder = tempfile::Builder::new();
            let directory = builder.prefix(PREFIX).permissions(own).tempdir_in(parent)?;
            // Another run may take it for abandoned before it is locked: then it is gone.
            if let Some(lock) = lock(directory.path())
                && directory.path().exists()
            {
                return Ok(Self { directory, _lock: lock });
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Removes the directories of this user's runs that have ended. What cannot be removed stays.
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

/// The lock of a directory; `None` if another process has it, or there is no such directory.
fn lock(path: &Path) -> Option<Flock<File>> {
    Flock::lock(File::open(path).ok()?, FlockArg::LockExclusiveNonblock).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_run_removes_what_a_dead_one_left_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let alive = Scratch::new(parent.path()).unwrap();
        fs::write(alive.path().join("tokens.json"), "{}").unwrap();
        let dead = parent.path().join(format!("{PREFIX}dead"));
        let other = parent.path().join("other");
        for left in [&dead, &other] {
            fs::create_dir(left).unwrap();
            fs::write(left.join("tokens.json"), "{}").unwrap();
        }
        std::os::unix::fs::symlink(&other, parent.path().join(format!("{PREFIX}link"))).unwrap();
        let next = Scratch::new(parent.path()).unwrap();
        assert!(!dead.exists());
        assert!(other.join("tokens.json").exists() && alive.path().join("tokens.json").exists());
        let mode = fs::metadata(next.path()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        let path = next.path().to_owned();
        drop(next);
        assert!(!path.exists());
    }
}
