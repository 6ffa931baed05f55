//! Output directories.

use std::fs::{self, File};
use std::io;
use std::path::Path;

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
    use super::*;

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
