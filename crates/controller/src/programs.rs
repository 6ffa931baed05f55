//! The P4 programs: embedded in the library, or read from a file.

use std::path::Path;

use prost::Message;
use tributary_base::Fnv;
use tributary_model::{Preemption, SwitchSettings};
use tributary_p4::{Architecture, Sources, ir};
use tributary_p4runtime::p4::config::v1::P4Info;

use crate::Error;

/// All files of `p4src/`: relative paths and contents.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/p4src.rs"));

/// A P4 program as source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// Path of the main file: within [`Source::files`], or on disk.
    pub main: String,
    /// Files that exist only in memory: path and text. Empty for a program on disk, whose includes
    /// are resolved relative to it.
    pub files: Vec<(String, String)>,
}

impl Source {
    /// An embedded program for the v1model architecture, such as `atp`.
    ///
    /// # Errors
    /// [`Error::UnknownProgram`].
    pub fn built_in(name: &str) -> Result<Self, Error> {
        Self::built_in_for(Architecture::V1model, name)
    }

    /// An embedded program for an architecture.
    ///
    /// # Errors
    /// [`Error::UnknownProgram`].
    pub fn built_in_for(architecture: Architecture, name: &str) -> Result<Self, Error> {
        let main = format!("{architecture}/{name}.p4");
        if !FILES.iter().any(|(path, _)| *path == main) {
            let known = match Self::names(architecture).collect::<Vec<_>>().join(", ") {
                none if none.is_empty() => "none".to_owned(),
                known => known,
            };
            return Err(Error::UnknownProgram { name: name.to_owned(), architecture, known });
        }
        let files = FILES.iter().map(|&(path, text)| (path.to_owned(), text.to_owned()));
        Ok(Self { main, files: files.collect() })
    }

    /// Names of the embedded programs for an architecture.
    pub fn names(architecture: Architecture) -> impl Iterator<Item = &'static str> {
        let directory = architecture.name();
        FILES.iter().filter_map(move |(path, _)| {
            path.strip_prefix(directory)?.strip_prefix('/')?.strip_suffix(".p4")
        })
    }

    /// A program in a file, as `--p4 FILE` names it.
    ///
    /// # Errors
    /// [`Error::ReadProgram`] if there is no such file, or it is too large.
    pub fn file(path: &Path) -> Result<Self, Error> {
        let failed =
            |reason: String| Error::ReadProgram { path: path.display().to_string(), reason };
        tributary_p4::SOURCE.open(path).map_err(|error| failed(error.to_string()))?;
        Ok(Self { main: path.display().to_string(), files: Vec::new() })
    }
}

/// The compile-time constants of a program for these settings: names as in
/// `p4src/include/sizes.p4`, and values, for the compiler's `-D`.
#[must_use]
pub fn defines(settings: &SwitchSettings) -> Vec<(String, String)> {
    let preemption = match settings.preemption {
        Preemption::Priority => 0,
        Preemption::Always => 1,
        Preemption::Coin => 2,
    };
    [
        ("VALUES", u128::from(settings.values_per_packet)),
        ("POOL", u128::from(settings.pool)),
        ("IDLE_US", settings.idle_timeout.as_micros()),
        ("ECN_THRESHOLD", u128::from(settings.ecn_threshold)),
        ("PREEMPTION", preemption),
        ("LINEAR_PRIORITIES", u128::from(settings.linear_priorities)),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_string()))
    .to_vec()
}

/// A program compiled for the embedded switch.
#[derive(Debug)]
pub struct Compiled {
    /// What a P4Runtime server accepts.
    pub pipeline: Pipeline,
    /// What an execution engine in this process runs.
    pub program: ir::Program,
    /// Warnings with their lines; empty if there are none.
    pub warnings: String,
}

/// Compiles a program with the given constants (see [`defines`]).
///
/// # Errors
/// [`Error::Compile`] with all diagnostics and their lines, [`Error::NoCompiler`].
pub fn compile(source: &Source, defines: &[(String, String)]) -> Result<Compiled, Error> {
    let base = if source.files.is_empty() { Sources::disk() } else { Sources::embedded() };
    let files = source.files.iter();
    let sources = files.fold(base, |sources, (path, text)| sources.embed(path, text));
    let failed = |diagnostics: tributary_p4::Diagnostics| match diagnostics.failure() {
        Some(failure) => Error::NoCompiler(failure.to_owned()),
        None => Error::Compile(diagnostics.render(false)),
    };
    let compilation = tributary_p4::compile(&sources, &source.main, defines).map_err(failed)?;
    let text = tributary_p4::preprocess(&sources, &source.main, defines).map_err(failed)?;
    Ok(Compiled {
        pipeline: Pipeline { p4info: compilation.p4info, device_config: text.into_bytes() },
        program: compilation.program,
        warnings: compilation.warnings.render(false),
    })
}

/// A compiled program in the form that a switch accepts.
#[derive(Clone, PartialEq, Debug)]
pub struct Pipeline {
    /// Names and IDs of tables, actions, counters.
    pub p4info: P4Info,
    /// The target's executable: for the embedded switch the preprocessed P4 source.
    pub device_config: Vec<u8>,
}

impl Pipeline {
    /// Identifies the pipeline across processes, so that a switch that already runs it is not
    /// disturbed: FNV-1a over both parts.
    #[must_use]
    pub fn cookie(&self) -> u64 {
        let info = self.p4info.encode_to_vec();
        let mut fnv = Fnv::default();
        fnv.write(&info);
        fnv.write(&self.device_config);
        // A switch without a pipeline may report zero.
        fnv.finish().max(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_library_carries_atp_and_all_that_it_includes() {
        let atp = Source::built_in("atp").unwrap();
        for (path, text) in &atp.files {
            for line in text.lines().filter(|line| line.starts_with("#include \"")) {
                let name = line.split('"').nth(1).unwrap();
                let base = Path::new(path).parent().unwrap();
                let mut parts: Vec<&str> = Vec::new();
                let joined = base.join(name);
                for part in joined.to_str().unwrap().split('/') {
                    match part {
                        ".." => drop(parts.pop()),
                        part => parts.push(part),
                    }
                }
                let wanted = parts.join("/");
                assert!(atp.files.iter().any(|(path, _)| *path == wanted), "{path}: {wanted}");
            }
        }
    }

    /// The fields of `metadata_t` in a preprocessed program, comments and annotations left out.
    fn metadata_fields(text: &str) -> Vec<&str> {
        let (_, rest) = text.split_once("struct metadata_t {").unwrap();
        let (fields, _) = rest.split_once('}').unwrap();
        let code = fields.lines().map(|line| line.split("//").next().unwrap().trim());
        code.filter_map(|line| line.strip_suffix(';')?.split_whitespace().last()).collect()
    }

    #[test]
    fn the_metadata_of_a_program_names_only_what_the_program_uses() {
        for architecture in [Architecture::V1model, Architecture::Tna] {
            for name in Source::names(architecture) {
                let source = Source::built_in_for(architecture, name).unwrap();
                let compiled = compile(&source, &[]).unwrap_or_else(|error| panic!("{error}"));
                let text = String::from_utf8(compiled.pipeline.device_config).unwrap();
                let fields = metadata_fields(&text);
                assert!(fields.contains(&"outcome"), "{architecture}/{name}: {fields:?}");
                let words = text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '.');
                let used: HashSet<&str> =
                    words.filter_map(|word| word.strip_prefix("meta.")).collect();
                let unused: Vec<&str> =
                    fields.into_iter().filter(|field| !used.contains(field)).collect();
                assert!(unused.is_empty(), "{architecture}/{name}: {unused:?}");
            }
        }
    }

    #[test]
    fn defines_are_named_as_the_program_names_them() {
        let settings = SwitchSettings {
            values_per_packet: 256,
            pool: 100,
            idle_timeout: Duration::from_millis(20),
            ecn_threshold: 9,
            queue_capacity: 10,
            preemption: Preemption::Coin,
            linear_priorities: true,
            partitions: 8,
        };
        let sizes = FILES.iter().find(|(path, _)| *path == "include/sizes.p4").unwrap().1;
        let defines = defines(&settings);
        for (name, _) in &defines {
            assert!(sizes.contains(&format!("#ifndef {name}\n#define {name} ")), "{name}");
        }
        let values: Vec<&str> = defines.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["256", "100", "20000", "9", "2", "1"]);
    }

    fn compiled(defines: &[(String, String)]) -> Compiled {
        compile(&Source::built_in("atp").unwrap(), defines)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn atp_has_everything_that_the_controller_uses() {
        let compiled = compiled(&[]);
        let catalogue = crate::Catalogue::new(&compiled.pipeline.p4info).unwrap();
        assert_eq!(catalogue.slots, 255);
        assert_eq!(catalogue.protocol(), tributary_wire::Protocol::Atp);
        // The preprocessed text is the whole program: it compiles alone, to the same P4Info.
        let text = String::from_utf8(compiled.pipeline.device_config).unwrap();
        let again = tributary_p4::compile_text("atp.p4", &text, &[]).unwrap();
        assert_eq!(again.p4info, compiled.pipeline.p4info);
    }

    #[test]
    fn esa_has_servers_besides() {
        let esa = compile(&Source::built_in("esa").unwrap(), &[]);
        let esa = esa.unwrap_or_else(|error| panic!("{error}"));
        let catalogue = crate::Catalogue::new(&esa.pipeline.p4info).unwrap();
        assert_eq!(catalogue.protocol(), tributary_wire::Protocol::Esa);
        assert_eq!((catalogue.slots, catalogue.tables().count()), (255, 4));
        assert_eq!(esa.warnings, "");
    }

    #[test]
    fn programs_with_services_are_told_apart() {
        for (name, protocol, tables) in [
            ("p4inc", tributary_wire::Protocol::P4inc, 5),
            ("switchml", tributary_wire::Protocol::SwitchMl, 4),
        ] {
            let pool = [("POOL".to_owned(), "77".to_owned())];
            let compiled = compile(&Source::built_in(name).unwrap(), &pool);
            let compiled = compiled.unwrap_or_else(|error| panic!("{error}"));
            let catalogue = crate::Catalogue::new(&compiled.pipeline.p4info).unwrap();
            assert_eq!((catalogue.protocol(), catalogue.pool()), (protocol, Some(77)));
            assert_eq!((catalogue.slots, catalogue.tables().count()), (255, tables));
        }
        let atp = crate::Catalogue::new(&compiled(&[]).pipeline.p4info).unwrap();
        assert_eq!(atp.pool(), None);
    }

    #[test]
    fn constants_reach_the_program() {
        let defines = [("POOL".to_owned(), "77".to_owned())];
        let info = compiled(&defines).pipeline.p4info;
        assert!(!info.registers.is_empty());
        assert!(info.registers.iter().all(|register| register.size == 77));
    }

    #[test]
    fn a_program_that_is_wrong_is_shown_with_its_line() {
        let files = vec![("x.p4".to_owned(), "control c() { apply { nonsense(); } }".to_owned())];
        let error = compile(&Source { main: "x.p4".into(), files }, &[]).unwrap_err().to_string();
        assert!(error.contains("x.p4") && error.contains("nonsense"), "{error}");
    }

    #[test]
    fn a_program_without_a_membership_table_is_refused() {
        let mut info = compiled(&[]).pipeline.p4info;
        info.tables.retain(|table| !table.preamble.as_ref().unwrap().name.ends_with("memberships"));
        let error = crate::Catalogue::new(&info).unwrap_err().to_string();
        assert!(error.starts_with("the P4 program has no table `memberships`"), "{error}");
    }

    #[test]
    fn unknown_programs_are_named() {
        let error = Source::built_in("apt").unwrap_err().to_string();
        assert!(
            error
                .starts_with("there is no P4 program `apt` for v1model; the ones built in are atp"),
            "{error}"
        );
        let error = Source::file(Path::new("/nonexistent.p4")).unwrap_err().to_string();
        assert!(error.starts_with("/nonexistent.p4: cannot read the P4 program: "), "{error}");
    }

    #[test]
    fn cookies_differ() {
        let pipeline =
            |config: &[u8]| Pipeline { p4info: P4Info::default(), device_config: config.to_vec() };
        assert_ne!(pipeline(b"a").cookie(), pipeline(b"b").cookie());
        assert_eq!(pipeline(b"a").cookie(), pipeline(b"a").cookie());
    }
}
