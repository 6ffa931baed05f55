//! The pipeline formats of each kind of switch.
//!
//! | kind | accepts | made by |
//! | --- | --- | --- |
//! | [`Kind::Embedded`] | the preprocessed P4 source | [`programs::compile`] |
//! | [`Kind::Bmv2`] | BMv2's JSON | p4c-bm2-ss, see [`bmv2`] |
//! | [`Kind::Stratum`] | a protobuf message around what a Tofino loads | p4c-barefoot, see [`stratum`] |
//!
//! Files are checked before any switch gets them: that they are complete, and that the P4Info is of
//! the same program. Switches check little of that, and late.

pub mod bmv2;
pub mod chassis;
mod files;
pub mod stratum;
pub mod tofino_bin;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tributary_p4runtime::p4::config::v1::{P4Info, Preamble};

use crate::error::Error;
use crate::p4c;
use crate::programs::{self, Pipeline, Source};

/// A kind of switch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Kind {
    /// The embedded switch (`tributary switch`): accepts P4 source.
    #[default]
    Embedded,
    /// BMv2's simple_switch_grpc: accepts the JSON of p4c-bm2-ss. Slow: windows are small and
    /// timeouts long.
    Bmv2,
    /// A Tofino under Stratum: accepts the output of p4c-barefoot and bfas in one message.
    Stratum,
}

impl Kind {
    /// Name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Bmv2 => "bmv2",
            Self::Stratum => "stratum",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Compiled files, which need no compiler.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Given {
    /// A file, or a directory with a compiler's output.
    pub bundle: Option<PathBuf>,
    /// The program's P4Info, if it is not in the same directory.
    pub p4info: Option<PathBuf>,
}

/// A pipeline and its origin.
#[derive(Clone, PartialEq, Debug)]
pub struct Built {
    /// The pipeline to push.
    pub pipeline: Pipeline,
    /// What it was made from, for messages.
    pub origin: String,
}

/// Makes the pipeline of a kind of switch: from the given files, or else from the program.
///
/// # Errors
/// [`Error::Compile`], [`Error::NoTool`], [`Error::Bundle`].
pub fn build(
    kind: Kind,
    source: &Source,
    defines: &[(String, String)],
    given: &Given,
) -> Result<Built, Error> {
    match (kind, &given.bundle) {
        (Kind::Embedded, None) => Ok(Built {
            pipeline: programs::compile(source, defines)?.pipeline,
            origin: format!("{}, as source", source.main),
        }),
        (Kind::Embedded, Some(bundle)) => Err(Error::Bundle {
            what: bundle.display().to_string(),
            reason:
                "the embedded switch runs P4 source and takes no bundle; leave it out, or name a \
                     program with --p4"
                    .into(),
        }),
        (Kind::Bmv2, Some(bundle)) => bmv2::load(bundle, given.p4info.as_deref()),
        (Kind::Bmv2, None) => bmv2::compile(source, defines),
        (Kind::Stratum, Some(bundle)) => stratum::load(bundle, given.p4info.as_deref()),
        (Kind::Stratum, None) => stratum::compile(&for_tofino(source), defines),
    }
}

/// The Tofino variant of a library program; any other program unchanged.
fn for_tofino(source: &Source) -> Source {
    let variant = source.main.replacen("v1model/", "tna/", 1);
    match source.files.iter().any(|(path, _)| *path == variant) {
        true => Source { main: variant, ..source.clone() },
        false => source.clone(),
    }
}

fn bundle_error(what: &Path, reason: impl Into<String>) -> Error {
    Error::Bundle { what: what.display().to_string(), reason: reason.into() }
}

/// Runs a compiler that is found on the `PATH`.
fn run_compiler(
    tool: &'static str,
    set: impl FnOnce(&mut Command) -> &mut Command,
) -> Result<(), Error> {
    let fix = "install p4c's Tofino back end, or give what it makes with --bundle \
                (docs/operate/tofino-deployment.md)";
    let output = set(&mut Command::new(p4c::find(tool, fix)?)).output();
    let output =
        output.map_err(|error| Error::Compile(format!("cannot start {tool}: {error}\n")))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(Error::Compile(format!("{tool} ended with {}:\n{errors}\n", output.status)))
}

/// A temporary directory for compilers' output, removed when dropped.
fn scratch() -> Result<tempfile::TempDir, Error> {
    tempfile::tempdir().map_err(|error| Error::Bundle {
        what: std::env::temp_dir().display().to_string(),
        reason: format!("cannot make a directory for the compiler's output: {error}"),
    })
}

/// Writes a program to files for a compiler: library programs below `directory`.
fn on_disk(source: &Source, directory: &Path) -> Result<PathBuf, Error> {
    for (path, text) in &source.files {
        let path = directory.join(path);
        let written = std::fs::create_dir_all(path.parent().unwrap_or(directory))
            .and_then(|()| std::fs::write(&path, text));
        written.map_err(|error| bundle_error(&path, error.to_string()))?;
    }
    Ok(match source.files.is_empty() {
        true => PathBuf::from(&source.main),
        false => directory.join(&source.main),
    })
}

/// A table, register or counter in one of two descriptions of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Shape {
    name: String,
    /// Names of key fields and actions, or the number of cells.
    parts: Vec<String>,
}

impl Shape {
    fn new(name: impl Into<String>, parts: impl IntoIterator<Item = String>) -> Self {
        let mut parts: Vec<String> = parts.into_iter().collect();
        parts.sort();
        Self { name: name.into(), parts }
    }
}

fn named(preamble: Option<&Preamble>) -> &str {
    preamble.map_or("", |preamble| preamble.name.as_str())
}

/// The tables of a P4Info.
fn tables_of(info: &P4Info) -> Vec<Shape> {
    let action = |id: u32| {
        let mut actions = info.actions.iter().filter_map(|action| action.preamble.as_ref());
        actions.find(|preamble| preamble.id == id).map_or("", |preamble| preamble.name.as_str())
    };
    let table = |table: &tributary_p4runtime::p4::config::v1::Table| {
        let keys = table.match_fields.iter().map(|field| format!("key {}", field.name));
        let actions =
            table.action_refs.iter().map(|reference| format!("action {}", action(reference.id)));
        Shape::new(named(table.preamble.as_ref()), keys.chain(actions))
    };
    info.tables.iter().map(table).collect()
}

/// Describes what `ours` has and `theirs` lacks or has differently.
fn difference(what: &str, ours: &[Shape], theirs: &[Shape]) -> Option<String> {
    for shape in ours {
        let Some(other) = theirs.iter().find(|other| other.name == shape.name) else {
            return Some(format!("it has no {what} `{}`", shape.name));
        };
        if let Some(part) = shape.parts.iter().find(|part| !other.parts.contains(part)) {
            return Some(format!("{what} `{}` there has no {part}", shape.name));
        }
        if let Some(part) = other.parts.iter().find(|part| !shape.parts.contains(part)) {
            return Some(format!("{what} `{}` there has {part} besides", shape.name));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(name: &str, parts: &[&str]) -> Shape {
        Shape::new(name, parts.iter().map(|part| (*part).to_owned()))
    }

    #[test]
    fn differences_are_named() {
        let ours = [shape("a", &["key x", "action y"])];
        let told = |theirs: &[Shape]| difference("table", &ours, theirs);
        assert_eq!(told(&[shape("b", &[]), shape("a", &["action y", "key x"])]), None);
        assert_eq!(told(&[]).unwrap(), "it has no table `a`");
        assert_eq!(told(&[shape("a", &["key x"])]).unwrap(), "table `a` there has no action y");
        let more = [shape("a", &["key x", "action y", "key z"])];
        assert_eq!(told(&more).unwrap(), "table `a` there has key z besides");
    }

    #[test]
    fn the_embedded_switch_takes_source_and_no_bundle() {
        let source = Source::built_in("atp").unwrap();
        let built = build(Kind::Embedded, &source, &[], &Given::default()).unwrap();
        assert!(String::from_utf8_lossy(&built.pipeline.device_config).contains("memberships"));
        let given = Given { bundle: Some("x.json".into()), p4info: None };
        let error = build(Kind::Embedded, &source, &[], &given).unwrap_err().to_string();
        assert!(error.starts_with("x.json: the embedded switch runs P4 source"), "{error}");
    }

    #[test]
    fn a_tofino_gets_the_variant_for_it() {
        let variant = for_tofino(&Source::built_in("esa").unwrap());
        assert_eq!(variant.main, "tna/esa.p4");
        let own = Source { main: "v1model/mine.p4".into(), files: Vec::new() };
        assert_eq!(for_tofino(&own), own);
    }

    #[test]
    fn a_missing_compiler_is_named() {
        let error = run_compiler("p4c-nowhere", |command| command).unwrap_err();
        let expected = "p4c-nowhere is not on the PATH; install p4c's Tofino back end, or give";
        assert!(error.to_string().starts_with(expected), "{error}");
        let error = run_compiler("sh", |sh| sh.args(["-c", "echo a >&2; exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "sh ended with exit status: 3:\na\n\n");
    }
}
