//! The programs of this workspace, which find each other.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Commands of `tributary` that run another program: `tributary-p4` and `tributary-lab`.
pub const OTHERS: [&str; 2] = ["p4", "lab"];

/// Name of the program that this process runs.
static OWN: OnceLock<&str> = OnceLock::new();

/// Says which program this process runs. The first call counts.
pub fn this_is(name: &'static str) {
    let _ = OWN.set(name);
}

/// The file of a program: the one that this process runs if it has this name, otherwise one beside that or on the
/// `PATH`.
///
/// # Errors
/// If there is none, with the command that builds it.
pub fn path(name: &str) -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    if OWN.get() == Some(&name) {
        return Ok(own);
    }
    find(name, own.parent(), &search_path()).ok_or_else(|| {
        let package = if name == "tributary-p4" { "tributary-p4-tools" } else { name };
        let how = format!("build it with `cargo build --release --package {package}`");
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("{name} is neither beside this program nor on the PATH; {how}"),
        )
    })
}

/// The file of a program on the `PATH`.
#[must_use]
pub fn on_path(name: &str) -> Option<PathBuf> {
    find(name, None, &search_path())
}

fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

fn find(name: &str, beside: Option<&Path>, on_path: &OsStr) -> Option<PathBuf> {
    let directories = beside.map(Path::to_owned).into_iter().chain(std::env::split_paths(on_path));
    directories.map(|directory| directory.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_beside_this_one_first() {
        let [near, far] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let on_path = std::env::join_paths(["/no/such".as_ref(), far.path()]).unwrap();
        let find = || find("tributary-x", Some(near.path()), &on_path);
        assert_eq!(find(), None);
        std::fs::create_dir(near.path().join("tributary-x")).unwrap();
        std::fs::write(far.path().join("tributary-x"), "").unwrap();
        assert_eq!(find(), Some(far.path().join("tributary-x")), "a directory is no program");
        std::fs::remove_dir(near.path().join("tributary-x")).unwrap();
        std::fs::write(near.path().join("tributary-x"), "").unwrap();
        assert_eq!(find(), Some(near.path().join("tributary-x")));
    }

    #[test]
    fn a_missing_program_is_reported_with_the_command_that_builds_it() {
        let error = path("tributary-none").unwrap_err().to_string();
        assert!(error.ends_with("`cargo build --release --package tributary-none`"), "{error}");
    }
}
