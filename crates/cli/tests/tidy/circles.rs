//! Circles of files: no files of a crate may use each other in a loop.
//!
//! A file uses another if it names something that is defined there, in a `use` or in a path. A name that is passed on
//! by `pub use` counts for the file that defines it. A file may use its ancestors, because it is a part of them. Tests
//! do not count, nor does a `pub use` whose name the file does not need itself. Not seen: names that a file needs from
//! its own `pub use module::*`, and those that macros make.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::{listed, root};

/// Words before the name of an item.
const ITEMS: [&str; 8] = ["const", "enum", "fn", "static", "struct", "trait", "type", "union"];

/// Longest chain of `use` that is followed.
const DEEPEST: usize = 8;

/// A path, or a module by its path from the crate's root.
type Names = Vec<String>;

/// What a `use` brings into a file.
struct Import {
    public: bool,
    path: Names,
    /// Its name in the file; `*` for all names.
    name: String,
}

/// What a file says.
#[derive(Default)]
struct Source {
    imports: Vec<Import>,
    /// Paths outside of `use`, and single names.
    paths: BTreeSet<Names>,
    defined: BTreeSet<String>,
}

/// The files of a crate by their modules.
#[derive(Default)]
struct Files(BTreeMap<Names, Source>);

/// The names and marks of a text, without comments and literals. Two colons are one mark.
fn words(stream: TokenStream, into: &mut Vec<String>) {
    for tree in stream {
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Parenthesis | Delimiter::None => ("(", ")"),
                };
                into.push(open.to_owned());
                words(group.stream(), into);
                into.push(close.to_owned());
            }
            TokenTree::Punct(mark) if mark.as_char() == ':' => match into.last_mut() {
                Some(last) if last == ":" => last.push(':'),
                _ => into.push(":".to_owned()),
            },
            TokenTree::Literal(_) => {}
            other => into.push(other.to_string()),
        }
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Whether the word after these begins a path: it does not continue one, and is not a field or a method.
fn begins(before: &[&str]) -> bool {
    matches!(before, [.., ".", "."]) || !matches!(before, [.., "::" | "."])
}

/// Number of words of the item at the start of these.
fn item(words: &[&str]) -> usize {
    let mut depth = 0_usize;
    let end = words.iter().position(|word| {
        match *word {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && matches!(*word, "}" | ";")
    });
    end.map_or(words.len(), |end| end + 1)
}

impl Source {
    fn read(&mut self, text: &str) {
        let mut all = Vec::new();
        words(text.parse().expect("Rust"), &mut all);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let mut at = 0;
        while at < all.len() {
            let before = &all[..at];
            at += match all[at..] {
                ["#", "[", "cfg", "(", "test", ")", "]", ref rest @ ..] => 7 + item(rest),
                ["use", next, ..] if next != "<" => {
                    // `pub use`, or with its reach in parentheses.
                    let public = matches!(before, [.., "pub" | ")"]);
                    1 + self.import(&all[at + 1..], public, &[])
                }
                [word, name, ..] if ITEMS.contains(&word) && is_name(name) => {
                    self.defined.insert(name.to_owned());
                    1
                }
                [word, ref rest @ ..] if is_name(word) && begins(before) => {
                    let more = rest.chunks_exact(2).map_while(|two| match *two {
                        ["::", name] if is_name(name) => Some(name),
                        _ => None,
                    });
                    let path: Names =
                        std::iter::once(word).chain(more).map(str::to_owned).collect();
                    let length = 2 * path.len() - 1;
                    self.paths.insert(path);
                    length
                }
                _ => 1,
            };
        }
    }

    /// Adds what a tree of a `use` brings. Returns its number of words.
    fn import(&mut self, words: &[&str], public: bool, prefix: &[String]) -> usize {
        let mut path = prefix.to_vec();
        let mut at = 0;
        let (name, length) = loop {
            at += match words[at..] {
                ["{", ..] => {
                    at += 1;
                    while words[at] != "}" {
                        at += match words[at] {
                            "," => 1,
                            _ => self.import(&words[at..], public, &path),
                        };
                    }
                    return at + 1;
                }
                ["as", name, ..] => break (name.to_owned(), at + 2),
                ["," | "}" | ";", ..] | [] => break (path.last().cloned().unwrap_or_default(), at),
                ["::", ..] => 1,
                // `{self}` is the module before the braces.
                ["self", ..] if !path.is_empty() => 1,
                [word, ..] => {
                    path.push(word.to_owned());
                    1
                }
            };
        };
        self.imports.push(Import { public, path, name });
        length
    }
}

impl Files {
    /// The files of each of our crates.
    fn of_crates() -> BTreeMap<String, Self> {
        let mut crates = BTreeMap::<String, Self>::new();
        for file in listed("*.rs") {
            let Some((folder, path)) = file.split_once("/src/") else { continue };
            if !path.split('/').any(|name| matches!(name, "tests" | "tests.rs")) {
                let name = folder.strip_prefix("crates/").unwrap_or(folder).to_owned();
                let text = fs::read_to_string(root().join(&file)).unwrap();
                crates.entry(name).or_default().add(path, &text);
            }
        }
        crates
    }

    fn add(&mut self, path: &str, text: &str) {
        let mut module: Names =
            path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        module.pop_if(|last| matches!(last.as_str(), "lib" | "main" | "mod"));
        self.0.entry(module).or_default().read(text);
    }

    /// A path in a module as one from the crate's root; `None` if it does not begin with a module of the crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Names> {
        let mut rest = path;
        let mut base = module;
        while let [first, after @ ..] = rest {
            base = match first.as_str() {
                "crate" => &[],
                "self" => base,
                "super" => base.split_last()?.1,
                _ => break,
            };
            rest = after;
        }
        let names = [base, rest].concat();
        let starts = rest.len() < path.len() || self.0.contains_key(&names[..base.len() + 1]);
        starts.then_some(names)
    }

    /// The module that defines what is named, and its name there; `None` for a module.
    fn definition(&self, names: &[String], depth: usize) -> Option<(&Names, String)> {
        let mut lengths = (0..=names.len()).rev();
        let (module, source) = lengths.find_map(|length| self.0.get_key_value(&names[..length]))?;
        let [name, rest @ ..] = &names[module.len()..] else { return None };
        if depth > 0 && name != "*" {
            for import in source.imports.iter().filter(|import| import.name == *name) {
                if let Some(path) = self.absolute(module, &import.path)
                    && path != names
                {
                    return self.definition(&[&path[..], rest].concat(), depth - 1);
                }
            }
            for import in source.imports.iter().filter(|import| import.public && import.name == "*")
            {
                let path = self.absolute(module, &import.path[..import.path.len() - 1]);
                let names = path.map(|path| [&path[..], &names[module.len()..]].concat());
                if let Some((at, item)) = names.and_then(|names| self.definition(&names, depth - 1))
                    && self.0[at].defined.contains(&item)
                {
                    return Some((at, item));
                }
            }
        }
        Some((module, name.clone()))
    }

    /// By module: the modules that it uses, and what of them.
    fn links(&self) -> BTreeMap<&Names, BTreeMap<&Names, BTreeSet<String>>> {
        let link = |(module, source)| (module, self.links_of(module, source));
        self.0.iter().map(link).collect()
    }

    fn links_of(&self, module: &Names, source: &Source) -> BTreeMap<&Names, BTreeSet<String>> {
        let used: BTreeSet<&String> = source.paths.iter().map(|path| &path[0]).collect();
        let imports = source.imports.iter();
        let imported = imports
            .filter(|import| !import.public || used.contains(&import.name))
            .filter_map(|import| self.absolute(module, &import.path));
        let named = source.paths.iter().filter_map(|path| {
            self.absolute(module, path).or_else(|| {
                let import = source.imports.iter().find(|import| import.name == path[0])?;
                Some([&self.absolute(module, &import.path)?[..], &path[1..]].concat())
            })
        });
        let mut links = BTreeMap::<&Names, BTreeSet<String>>::new();
        for names in imported.chain(named) {
            if let Some((other, name)) = self.definition(&names, DEEPEST)
                && !module.starts_with(other)
            {
                links.entry(other).or_default().insert(name);
            }
        }
        links
    }

    /// The links that are parts of circles, one line each.
    fn circles(&self) -> Vec<String> {
        let links = self.links();
        let mut lines = Vec::new();
        for (from, others) in &links {
            for (to, names) in others {
                if leads(&links, to, from) {
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    let (from, to) = (from.join("::"), to.join("::"));
                    lines.push(format!("{from} -> {to}: {}", names.join(", ")));
                }
            }
        }
        lines
    }
}

/// Whether links lead from one module to another.
fn leads(
    links: &BTreeMap<&Names, BTreeMap<&Names, BTreeSet<String>>>,
    from: &Names,
    to: &Names,
) -> bool {
    let (mut seen, mut open) = (BTreeSet::from([from]), vec![from]);
    while let Some(at) = open.pop() {
        open.extend(links[at].keys().filter(|other| seen.insert(**other)));
    }
    seen.contains(to)
}

#[test]
fn no_files_use_each_other_in_a_loop() {
    let mut circles = BTreeMap::new();
    for (name, files) in Files::of_crates() {
        circles.insert(name, files.circles());
    }
    assert!(circles.len() > 20, "{} crates", circles.len());
    circles.retain(|_, circles| !circles.is_empty());
    assert!(
        circles.is_empty(),
        "these files depend on each other; move what both need into one below: {circles:#?}"
    );
}

/// The circles of a crate of these files.
fn circles(files: &[(&str, &str)]) -> Vec<String> {
    let mut all = Files::default();
    files.iter().for_each(|(path, text)| all.add(path, text));
    all.circles()
}

#[test]
fn a_row_of_files_is_no_circle() {
    let files = [
        ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B;"),
        ("a.rs", "use crate::B; pub struct A(B);"),
        (
            "b/mod.rs",
            "mod part; /* crate::A */ pub struct B(part::P); #[cfg(test)] mod tests { use crate::A; }",
        ),
        ("b/part.rs", "use super::B; pub const NAME: &str = \"crate::A\"; pub struct P(Box<B>);"),
    ];
    assert_eq!(circles(&files), [""; 0]);
}

#[test]
fn two_files_with_a_use_and_a_path_are_a_circle() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "use super::b::{self as other, Deep}; pub struct A; fn f(_: Deep) { other::g(); }",
        ),
        ("b.rs", "pub struct Deep; pub fn g() -> Option<crate::a::A> { None }"),
    ];
    assert_eq!(circles(&files), ["a -> b: Deep, g", "b -> a: A"]);
}

#[test]
fn a_name_that_is_passed_on_belongs_to_the_file_that_defines_it() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; pub use a::*; pub(crate) use c::Renamed as C;"),
        ("a.rs", "pub use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::C; pub struct B(C);"),
        ("c.rs", "pub struct Renamed; fn f() { crate::A; }"),
    ];
    assert_eq!(circles(&files), [""; 0], "a does not need B itself");
    let mut needed = files;
    needed[1].1 = "pub use crate::b::B; pub struct A(B);";
    assert_eq!(circles(&needed), ["a -> b: B", "b -> c: Renamed", "c -> a: A"]);
}
