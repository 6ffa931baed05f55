//! Programs that some targets need, on the `PATH`.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::check::{Area, Check};
use tributary_controller::targets::Kind as Target;

/// Time limit for a program to print its version.
const PATIENCE: Duration = Duration::from_secs(5);

/// A program, its purpose, and the target that requires it.
const TOOLS: &[(&str, &str, Option<Target>)] = &[
    ("p4c-bm2-ss", "compiles for BMv2", Some(Target::Bmv2)),
    ("simple_switch_grpc", "is BMv2", None),
    ("mn", "is Mininet", None),
    ("p4c-barefoot", "compiles for Tofino", Some(Target::Stratum)),
    ("bfas", "assembles for Tofino", Some(Target::Stratum)),
    ("ip", "sets up interfaces", None),
    ("ethtool", "sets offloads and queues", None),
];

/// What was found of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Missing,
    /// Its version as printed; `None` if it prints none.
    Version(Option<String>),
}

/// Finds all programs.
pub(super) fn gather() -> Vec<Found> {
    TOOLS.iter().map(|(name, ..)| look(name)).collect()
}

/// Judges the programs. A compiler matters only if it is needed: a `bundle` replaces it.
pub(super) fn judge(found: &[Found], target: Target, bundle: bool) -> Vec<Check> {
    let mut area = Area::new("tools");
    for ((name, what, needed_by), found) in TOOLS.iter().zip(found) {
        match found {
            Found::Version(Some(version)) => area.ok(name, version),
            Found::Version(None) => area.ok(name, "there; it does not tell its version"),
            Found::Missing if *needed_by == Some(target) && !bundle => area.warn(
                name,
                format!("not on the PATH; it {what}"),
                "install it where `tributary controller` runs, or give it --bundle",
            ),
            Found::Missing => area.note(name, format!("not on the PATH; it {what}")),
        }
    }
    area.into_checks()
}

fn look(name: &str) -> Found {
    tributary_base::programs::on_path(name)
        .map_or(Found::Missing, |file| Found::Version(version(&file)))
}

fn version(program: &PathBuf) -> Option<String> {
    let mut child = Command::new(program)
        .arg(if program.ends_with("ip") { "-V" } else { "--version" })
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().ok()?.is_none() {
        if Instant::now() >= deadline {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut said = String::new();
    child.stdout.take()?.read_to_string(&mut said).ok()?;
    child.stderr.take()?.read_to_string(&mut said).ok()?;
    version_in(&said)
}

/// The first line with a number such as 1.2 that is not a path, without surrounding blanks.
fn version_in(said: &str) -> Option<String> {
    let telling = |line: &&str| {
        let digits = |s: &[u8]| s[0].is_ascii_digit() && s[1] == b'.' && s[2].is_ascii_digit();
        line.as_bytes().windows(3).any(digits) && !line.starts_with('/') && line.len() < 120
    };
    said.lines().map(str::trim).find(telling).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::check::Verdict;
    use super::super::check::tests::named;
    use super::*;

    #[test]
    fn a_compiler_matters_to_its_target() {
        let none = vec![Found::Missing; TOOLS.len()];
        let verdict = |target, bundle, name| named(&judge(&none, target, bundle), name).verdict;
        assert_eq!(verdict(Target::Bmv2, false, "p4c-bm2-ss"), Verdict::Warn);
        assert_eq!(verdict(Target::Bmv2, true, "p4c-bm2-ss"), Verdict::Note);
        assert_eq!(verdict(Target::Embedded, false, "p4c-bm2-ss"), Verdict::Note);
        assert_eq!(verdict(Target::Stratum, false, "bfas"), Verdict::Warn);
        let all = vec![Found::Version(Some("1.2".into())); TOOLS.len()];
        assert!(judge(&all, Target::Bmv2, false).iter().all(|c| c.verdict == Verdict::Ok));
    }

    #[test]
    fn versions_are_found_in_the_output_of_programs() {
        assert_eq!(
            version_in("p4c-bm2-ss\nVersion 1.2.5.1 (SHA: x BUILD: Release)\n").unwrap(),
            "Version 1.2.5.1 (SHA: x BUILD: Release)"
        );
        assert_eq!(version_in("/opt/p4c2/bin/p4c\nVersion 1.2\n").unwrap(), "Version 1.2");
        assert_eq!(version_in("usage: x\n"), None);
        assert_eq!(version_in(""), None);
    }

    #[test]
    fn a_program_that_never_ends_is_ended() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("never");
        std::fs::write(&program, "#!/bin/sh\nexec sleep 60\n").unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, open).unwrap();
        let start = Instant::now();
        assert_eq!(version(&program), None);
        assert!(start.elapsed() < PATIENCE + Duration::from_secs(2));
    }
}
