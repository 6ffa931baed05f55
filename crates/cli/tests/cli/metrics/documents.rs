//! The tables of docs/operate/metrics.md, and whatever else names metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::page::Page;
use crate::command::root;

/// The documented metrics by name: type and labels.
pub(super) struct Documented(BTreeMap<String, (String, BTreeSet<String>)>);

impl Documented {
    pub(super) fn load() -> Self {
        let text = fs::read_to_string(root().join("docs/operate/metrics.md")).unwrap();
        let mut all = BTreeMap::new();
        for line in text.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [name, kind, labels, meaning] = cells[..] else { continue };
            assert!(!meaning.is_empty(), "{line}");
            let labels = labels.split(", ").filter(|label| !label.is_empty());
            let labels = labels.map(|label| label.trim_matches('`').to_owned()).collect();
            let name = name.trim_matches('`').to_owned();
            assert!(all.insert(name, (kind.to_owned(), labels)).is_none(), "twice: {line}");
        }
        assert!(all.len() > 50, "the tables were not found");
        Self(all)
    }

    /// # Panics
    /// If a page has a metric that is not documented, or documented otherwise.
    pub(super) fn has_all(&self, page: &Page) {
        for (family, kind) in &page.types {
            let name = match kind.as_str() {
                "counter" => format!("{family}_total"),
                _ => family.clone(),
            };
            let known = self
                .0
                .get(&name)
                .unwrap_or_else(|| panic!("{name}: not in docs/operate/metrics.md"));
            assert_eq!(known.0, *kind, "{name}");
        }
        for sample in &page.all {
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| {
                let base = sample.name.strip_suffix(end)?;
                (page.types.get(base)? == "histogram").then_some(base)
            });
            let (_, labels) = &self.0[base.unwrap_or(&sample.name)];
            let own = sample
                .labels
                .keys()
                .filter(|key| !matches!(key.as_str(), "le" | "process" | "group"));
            assert_eq!(own.cloned().collect::<BTreeSet<_>>(), *labels, "{sample:?}");
        }
    }
}

/// Words of a text that name metrics, and those of recording rules.
fn names(text: &str) -> BTreeSet<String> {
    let word = |letter: char| !(letter.is_ascii_alphanumeric() || letter == '_' || letter == ':');
    let named = text.split(word).filter(|word| {
        ["tributary_", "tributary:", "process_"].iter().any(|start| word.starts_with(start))
    });
    named.map(str::to_owned).collect()
}

/// All strings in code that are names of metrics.
fn in_code(directory: &Path, all: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            in_code(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            // Tests have strings of their own.
            let code = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
            let strings = code.split('"').skip(1).step_by(2);
            let own = |text: &&str| {
                let word = |letter: char| {
                    letter.is_ascii_lowercase() || letter == '_' || letter.is_ascii_digit()
                };
                let metric = text.starts_with("tributary_") || text.starts_with("process_");
                metric && text.chars().all(word)
            };
            all.extend(strings.filter(own).map(str::to_owned));
        }
    }
}

#[test]
fn the_tables_have_exactly_the_metrics_of_the_code() {
    let mut named = BTreeSet::new();
    for directory in [
        "metrics/src",
        "endpoint/src/numbers.rs",
        "worker/src/numbers.rs",
        "ps/src/numbers.rs",
        "embedded/src/switches.rs",
        "manager/src/agent/numbers.rs",
        "cli/src/sources",
    ] {
        let path = root().join("crates").join(directory);
        let before = named.len();
        if path.is_dir() {
            in_code(&path, &mut named);
        } else {
            let own = tempfile::tempdir().unwrap();
            fs::copy(&path, own.path().join("copy.rs")).unwrap();
            in_code(own.path(), &mut named);
        }
        assert!(named.len() > before, "{directory} names no metric");
    }
    let documented: BTreeSet<String> = Documented::load().0.into_keys().collect();
    let undocumented: Vec<_> = named.difference(&documented).collect();
    let gone: Vec<_> = documented.difference(&named).collect();
    assert!(undocumented.is_empty() && gone.is_empty(), "{undocumented:?} {gone:?}");
}

#[test]
fn dashboard_and_rules_ask_for_metrics_that_exist() {
    let documented = Documented::load().0;
    let rules = fs::read_to_string(root().join("deploy/prometheus/tributary.rules.yml")).unwrap();
    let recorded = |line: &str| line.trim().strip_prefix("- record: ").map(str::to_owned);
    let recorded: BTreeSet<String> = rules.lines().filter_map(recorded).collect();
    assert!(!recorded.is_empty());
    let known = |name: &String| {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let histogram = base.and_then(|base| documented.get(base));
        documented.contains_key(name)
            || recorded.contains(name)
            || histogram.is_some_and(|(kind, _)| kind == "histogram")
    };
    let dashboard = fs::read_to_string(root().join("deploy/grafana/tributary.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let mut queries = Vec::new();
    let panels = dashboard["panels"].as_array().unwrap();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{}", panel["title"]);
        queries.extend(targets.iter().map(|target| target["expr"].as_str().unwrap().to_owned()));
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        queries.extend(variable["definition"].as_str().map(str::to_owned));
    }
    assert!(queries.len() > 30, "{queries:#?}");
    for query in queries {
        let named = names(&query);
        assert!(!named.is_empty(), "{query}");
        let unknown: Vec<_> = named.iter().filter(|name| !known(name)).collect();
        assert!(unknown.is_empty(), "{query}: {unknown:?}");
    }
    let unknown: Vec<_> = names(&rules).into_iter().filter(|name| !known(name)).collect();
    // Names of groups.
    assert!(unknown.iter().all(|name| name.ends_with('-')), "{unknown:?}");
    // The documentation lists the alerts.
    let page = fs::read_to_string(root().join("docs/operate/metrics.md")).unwrap();
    for alert in rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(
            page.contains(&format!("| `{alert}` | ")),
            "{alert} is not in docs/operate/metrics.md"
        );
    }
}
