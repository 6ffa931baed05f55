//! The pages: links lead somewhere, and a reader finds every page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::{listed, root};

/// Longest README, in lines.
const README: usize = 120;

/// A page without its code blocks.
struct Page {
    lines: Vec<String>,
}

impl Page {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let mut code = false;
        let prose = text.lines().filter(|line| {
            let fence = line.trim_start().starts_with("```");
            code ^= fence;
            !code && !fence
        });
        Self { lines: prose.map(str::to_owned).collect() }
    }

    /// Links to files and headings, as they are written.
    fn links(&self) -> impl Iterator<Item = &str> {
        let targets = self.lines.iter().flat_map(|line| line.split("](").skip(1));
        let targets = targets.filter_map(|rest| rest.split_once(')').map(|(link, _)| link));
        targets.filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
    }

    /// The names by which links reach its headings.
    fn anchors(&self) -> BTreeSet<String> {
        let headings = self.lines.iter().filter(|line| line.starts_with('#'));
        headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
    }
}

/// A heading as hosts of repositories name it.
fn anchor(heading: &str) -> String {
    let mut shown = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        shown.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    shown.push_str(rest);
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
    shown.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// All pages, by their paths from the root.
fn pages() -> BTreeMap<PathBuf, Page> {
    let there = listed("*.md").into_iter().map(PathBuf::from);
    there.map(|path| (path.clone(), Page::read(&root().join(path)))).collect()
}

/// Where a link of a page leads: a path from the root, and the heading.
fn target(page: &Path, link: &str) -> (PathBuf, Option<String>) {
    let (file, heading) = match link.split_once('#') {
        Some((file, heading)) => (file, Some(heading.to_owned())),
        None => (link, None),
    };
    let path = match file {
        "" => page.to_owned(),
        file => page.parent().unwrap().join(file),
    };
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(plain.pop(), "{}: {link}", page.display()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    (plain, heading)
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let mut broken = Vec::new();
    for (path, page) in &pages {
        for link in page.links() {
            let (to, heading) = target(path, link);
            let there = root().join(&to).exists();
            let has = |heading: &String| {
                pages.get(&to).is_none_or(|page| page.anchors().contains(heading))
            };
            if !there || !heading.as_ref().is_none_or(has) {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(pages.len() > 40 && broken.is_empty(), "{broken:#?}");
}

/// The pages and files to which a page links.
fn leads(pages: &BTreeMap<PathBuf, Page>, from: &Path) -> BTreeSet<PathBuf> {
    let links = pages.get(from).into_iter().flat_map(Page::links);
    links.map(|link| target(from, link).0).collect()
}

#[test]
fn every_page_of_the_documentation_is_at_most_three_links_from_the_readme() {
    let pages = pages();
    // One link to the list of folders, one to a folder's index, one to its page.
    let mut near = BTreeSet::from([PathBuf::from("README.md")]);
    for _ in 0..3 {
        let next: Vec<_> = near.iter().flat_map(|page| leads(&pages, page)).collect();
        near.extend(next);
    }
    let far = pages.keys().filter(|page| page.starts_with("docs") && !near.contains(*page));
    let far: Vec<_> = far.collect();
    assert!(far.is_empty(), "{far:?}");
}

#[test]
fn the_index_of_each_folder_lists_all_its_pages() {
    let pages = pages();
    let mut unlisted = Vec::new();
    for page in pages.keys().filter(|page| page.starts_with("docs")) {
        let folder = page.parent().unwrap();
        let index = match page.ends_with("README.md") {
            true => folder.parent().unwrap().join("README.md"),
            false => folder.join("README.md"),
        };
        if !leads(&pages, &index).contains(page) {
            unlisted.push(format!("{} is not in {}", page.display(), index.display()));
        }
    }
    assert!(unlisted.is_empty(), "{unlisted:#?}");
}

#[test]
fn the_readme_is_short() {
    let lines = fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(lines <= README, "{lines} lines; move what not every reader needs to another page");
}

/// Words for which there is a plainer one: a name, a term, "is missing".
const RIDDLES: [&str; 5] = ["nobody", "whoever", "what there is", "there is not ", "none of ours"];

#[test]
fn pages_have_no_riddles() {
    let mut found = Vec::new();
    for (path, page) in pages() {
        // Names of tests are code.
        let prose =
            |line: &String| line.split('`').step_by(2).collect::<Vec<_>>().join(" ").to_lowercase();
        for line in &page.lines {
            let prose = prose(line);
            let words = RIDDLES.iter().filter(|words| prose.contains(*words));
            found.extend(words.map(|words| format!("{}: {words}: {line}", path.display())));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn headings_are_named_as_hosts_of_repositories_name_them() {
    for (heading, name) in [
        ("What runs where", "what-runs-where"),
        ("ESA's figures, `--quick`", "esas-figures---quick"),
        ("[ATP](a.md): 1 + 2", "atp-1--2"),
    ] {
        assert_eq!(anchor(heading), name);
    }
}
