//! Calling a program of this workspace, `crate::PROGRAM`, and requirements for its failures.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The program, called in the repository.
pub(crate) fn tributary(args: &[&str]) -> Command {
    let mut command = Command::new(crate::PROGRAM);
    command.args(args).current_dir(root());
    command
}

/// Standard output of a call, which must succeed.
pub(crate) fn succeed(args: &[&str]) -> String {
    let output = tributary(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The error line of a call, which must fail with exactly one line.
pub(crate) fn fail(args: &[&str]) -> String {
    failure(args, &tributary(args).output().unwrap())
}

/// The error line of a failed call.
pub(crate) fn failure(args: &[&str], output: &Output) -> String {
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {errors}");
    let mut lines = errors.lines().filter(|line| line.starts_with("error: "));
    let line = lines.next().unwrap_or_else(|| panic!("{args:?}: no error line in {errors}"));
    assert_eq!(lines.next(), None, "{args:?}: one line: {errors}");
    assert!(!errors.contains("panicked"), "{errors}");
    line.to_owned()
}

/// Text of an output stream.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A temporary job file in a directory of its own.
pub(crate) struct JobFile {
    directory: tempfile::TempDir,
}

impl JobFile {
    /// A job file with this text.
    pub(crate) fn new(contents: &str) -> Self {
        let file = Self { directory: tempfile::tempdir().unwrap() };
        std::fs::write(file.path("job.toml"), contents).unwrap();
        file
    }

    /// A path in the same directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The file's path.
    pub(crate) fn name(&self) -> String {
        self.path("job.toml").display().to_string()
    }
}

/// Whether network namespaces can be created here; prints a message if not.
pub(crate) fn namespaces() -> bool {
    works("network namespaces", &[])
}

/// Whether AF_XDP works in network namespaces here; prints a message if not.
pub(crate) fn xdp() -> bool {
    works("AF_XDP", &["--io", "xdp"])
}

/// Runs a small job; `false` if it fails for lack of privileges or kernel support.
fn works(what: &str, more: &[&str]) -> bool {
    let probe = "[topology]\nkind = \"star\"\n[[job]]\nworkers = 1\n\
                 workload = { kind = \"random\", tensors = 1, elements = 10 }\n";
    let file = JobFile::new(probe);
    let name = file.name();
    let args = [&["run", &name, "--fabric", "netns"], more].concat();
    let output = tributary(&args).output().unwrap();
    let errors = text(&output.stderr);
    let refusals = ["namespace", "not permitted", "CAP_", "this kernel has no"];
    if !output.status.success() && refusals.iter().any(|word| errors.contains(word)) {
        println!("skipped: no {what} here ({})", errors.trim());
        return false;
    }
    assert!(output.status.success(), "{errors}");
    true
}
