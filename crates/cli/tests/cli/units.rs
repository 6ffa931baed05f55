//! The systemd units: installed, verified if systemd exists, and their command lines parsed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::command::{root, text, tributary};

/// The output of `deploy/install.sh` for this build, in a temporary directory.
pub(crate) struct Installed {
    root: tempfile::TempDir,
    prefix: &'static str,
}

impl Installed {
    pub(crate) fn new(prefix: &'static str) -> Self {
        let root_directory = tempfile::tempdir().unwrap();
        let output = Command::new("sh")
            .arg(root().join("deploy/install.sh"))
            .env("PROGRAM", env!("CARGO_BIN_EXE_tributary"))
            .env("DESTDIR", root_directory.path())
            .env("PREFIX", prefix)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        Self { root: root_directory, prefix }
    }

    /// A path below the prefix.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(self.prefix.trim_start_matches('/')).join(name)
    }

    /// The units: names without `@.service`, and contents.
    fn units(&self) -> BTreeMap<String, String> {
        let entries = fs::read_dir(self.path("lib/systemd/system")).unwrap();
        let unit = |path: PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let name = name.strip_suffix("@.service").unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        };
        entries.map(|entry| unit(entry.unwrap().path())).collect()
    }
}

/// Verifies an instance of each unit with the program's path; `None` without systemd.
fn verify(directory: &Path, units: &BTreeMap<String, String>, program: &Path) -> Option<Output> {
    let mut files = Vec::new();
    for (name, unit) in units {
        let file = directory.join(format!("{name}@test.service"));
        let command = format!("ExecStart={} ", program.display());
        let unit = unit.replace("ExecStart=tributary ", &command);
        fs::write(&file, unit).unwrap();
        // Include the drop-in for AF_XDP.
        let drop_in = file.with_extension("service.d");
        fs::create_dir_all(&drop_in).unwrap();
        fs::copy(root().join("deploy/systemd/xdp.conf"), drop_in.join("xdp.conf")).unwrap();
        files.push(file);
    }
    match Command::new("systemd-analyze").arg("verify").args(&files).output() {
        Ok(output) => Some(output),
        Err(error) => {
            println!("skipped: systemd-analyze not found on the PATH ({error})");
            None
        }
    }
}

#[test]
fn systemd_accepts_the_units() {
    let installed = Installed::new("/usr/local");
    let units = installed.units();
    let names: Vec<&str> = units.keys().map(String::as_str).collect();
    let expected = ["agent", "controller", "manager", "ps", "reminder", "switch", "worker"];
    assert_eq!(names, expected.map(|name| format!("tributary-{name}")));
    let directory = tempfile::tempdir().unwrap();
    let program = installed.path("bin/tributary");
    let Some(output) = verify(directory.path(), &units, &program) else { return };
    let said = text(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");

    // Check that the verification detects an unknown directive and a missing program.
    let mut wrong = units.clone();
    let unit = wrong.get_mut("tributary-ps").unwrap();
    *unit = unit.replace("ProtectHome=yes", "ProtectHouse=yes");
    let output = verify(directory.path(), &wrong, &program).unwrap();
    assert!(text(&output.stderr).contains("ProtectHouse"), "{}", text(&output.stderr));
    let output = verify(directory.path(), &units, Path::new("/nowhere/tributary")).unwrap();
    assert!(!output.status.success());
}

/// Variables in an example of settings.
fn settings(path: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (name, value) = line.split_once('=').unwrap();
            (name.to_owned(), value.to_owned())
        })
        .collect()
}

/// A unit's arguments as systemd expands them: `${NAME}` is one word, `$NAME` may be several.
fn arguments(unit: &str, instance: &str, settings: &BTreeMap<String, String>) -> Vec<String> {
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let mut arguments = Vec::new();
    for word in line.split_whitespace().skip(1) {
        let value = |name: &str| {
            settings.get(name).unwrap_or_else(|| panic!("the example sets no {name}")).clone()
        };
        if let Some(name) = word.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) {
            arguments.push(value(name));
        } else if let Some(name) = word.strip_prefix('$') {
            arguments.extend(value(name).split_whitespace().map(str::to_owned));
        } else {
            arguments.push(word.replace("%i", instance));
        }
    }
    arguments
}

#[test]
fn the_command_lines_of_the_units_are_valid() {
    let installed = Installed::new("/usr/local");
    let units = installed.units();
    for (unit, instance) in [
        ("switch", "s1"),
        ("controller", "digits"),
        ("ps", "server"),
        ("reminder", "agent"),
        ("worker", "0"),
        ("manager", "site"),
    ] {
        let example = format!("share/doc/tributary/examples/etc/{unit}-{instance}.env");
        let settings = settings(&installed.path(&example));
        let arguments = arguments(&units[&format!("tributary-{unit}")], instance, &settings);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        // clap reports an unknown command line with status 2. These fail for a missing interface or
        // job file instead.
        let output = tributary(&arguments).output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        let missing = [
            "/etc/tributary/job.toml",
            "/etc/tributary/site.toml",
            "127.0.0.1:29812",
            "eth",
            "CAP_NET_RAW",
        ];
        assert!(missing.iter().any(|what| errors.contains(what)), "{arguments:?}: {errors}");
    }
}

#[test]
fn without_a_program_nothing_is_installed() {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new("sh")
        .arg(root().join("deploy/install.sh"))
        .env("PROGRAM", directory.path().join("none"))
        .env("DESTDIR", directory.path().join("image"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("name it with PROGRAM="), "{}", text(&output.stderr));
    assert!(!directory.path().join("image").exists());
}
