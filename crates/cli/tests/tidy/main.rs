//! Rules for the repository as a whole: what crates depend on (here), circles of files (`circles`), how long modules
//! are (`code`), and the pages (`pages`).
//!
//! Each arrow between two crates is a line in `crates/dependencies.txt`, and a new one is for a reviewer to see.
//! `TRIBUTARY_BLESS=1` writes the file.

mod circles;
mod code;
mod pages;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The most packages that a crate may be built from, itself included.
const MOST: [(&str, usize); 3] = [("wire", 20), ("protocol", 22), ("model", 30)];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files of the repository that match a pattern of git, also new ones.
fn listed(pattern: &str) -> Vec<String> {
    let known = ["ls-files", "--cached", "--others", "--exclude-standard", "--", pattern];
    let listed = Command::new("git").args(known).current_dir(root()).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let listed = String::from_utf8(listed.stdout).unwrap();
    // One that is deleted and not committed is listed, too.
    listed.lines().filter(|path| root().join(path).exists()).map(str::to_owned).collect()
}

fn cargo(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    // Users build one crate with the features that it needs.
    command.env_remove("CARGO_RESOLVER_FEATURE_UNIFICATION");
    let output = command.args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A package without the prefix that all of ours have.
fn short(name: &str) -> &str {
    name.strip_prefix("tributary-").unwrap_or(name)
}

/// The arrows from each of our crates to others, without those of tests.
fn arrows() -> BTreeMap<String, BTreeSet<String>> {
    let text = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&text).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let ours: BTreeSet<String> = packages.iter().map(name).collect();
    let arrows = packages.iter().map(|package| {
        let needed = package["dependencies"].as_array().unwrap().iter();
        let needed = needed.filter(|needed| needed["kind"].is_null()).map(name);
        let needed = needed.filter(|needed| ours.contains(needed));
        (short(&name(package)).to_owned(), needed.map(|needed| short(&needed).to_owned()).collect())
    });
    arrows.collect()
}

#[test]
fn arrows_between_crates_are_those_of_the_list() {
    let lines = arrows().into_iter().map(|(from, to)| {
        let to: Vec<String> = to.into_iter().collect();
        format!("{from}: {}", to.join(" ")).trim_end().to_owned() + "\n"
    });
    let now: String = lines.collect();
    let file = root().join("crates/dependencies.txt");
    if std::env::var_os("TRIBUTARY_BLESS").is_some() {
        std::fs::write(&file, &now).unwrap();
    }
    let listed = std::fs::read_to_string(&file).unwrap();
    let (now, listed): (BTreeSet<&str>, BTreeSet<&str>) =
        (now.lines().collect(), listed.lines().collect());
    let new: Vec<_> = now.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&now).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "crates/dependencies.txt lacks {new:#?} and has {gone:#?}"
    );
}

/// What a crate reaches by arrows.
fn reached(arrows: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(at) = open.pop() {
        for to in &arrows[&at] {
            if reached.insert(to.clone()) {
                open.push(to.clone());
            }
        }
    }
    reached
}

/// `p4`, `dataplane`, `switch` and `p4-tools` could be a repository of their own.
#[test]
fn the_p4_target_knows_nothing_of_aggregation() {
    let arrows = arrows();
    let aggregation = ["wire", "protocol", "model", "controller", "endpoint", "worker"];
    for part in ["p4", "dataplane", "switch", "p4-tools"] {
        let reached = reached(&arrows, part);
        assert!(aggregation.iter().all(|other| !reached.contains(*other)), "{part}: {reached:?}");
    }
}

/// Checks that a crate is built from at most so many packages, and from none of these.
fn assert_few(crate_name: &str, most: usize, not: &[&str]) {
    let package = format!("tributary-{crate_name}");
    let tree = cargo(&["tree", "-p", &package, "-e", "normal", "--prefix", "none"]);
    let packages: BTreeSet<&str> = tree.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    for heavy in not {
        let has = packages.iter().any(|package| package.split(' ').next() == Some(heavy));
        assert!(!has, "{crate_name} is built with {heavy}");
    }
    assert!(packages.len() <= most, "{crate_name}: {} packages, {packages:#?}", packages.len());
}

#[test]
fn what_describes_jobs_is_built_from_few_packages() {
    for (crate_name, most) in MOST {
        assert_few(crate_name, most, &["tokio", "tonic", "rustls", "prost"]);
    }
}

/// People build it when they install the package.
#[test]
fn the_python_package_has_no_simulator_solver_or_command_line() {
    let not = ["tributary-sim", "tributary-optical", "tributary-run", "tributary-cluster"];
    let libraries = ["microlp", "redb", "ratatui", "crossterm", "comfy-table", "rtnetlink"];
    let programs = ["clap", "rcgen", "matchers"];
    assert_few("python", 225, &[&not[..], &libraries, &programs].concat());
}
