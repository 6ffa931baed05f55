//! Stratum's pipeline format for a Tofino: one protobuf message with the compiler's three files.
//!
//! Stratum's Tofino agent (`stratum_bfrt`) parses `p4_device_config` as its message
//! `stratum.hal.barefoot.BfPipelineConfig`; [`BfPipelineConfig`] has the same fields and numbers.
//! Current agents read none of the older forms (an archive of the compiler's output; name, binary
//! and context, each behind its length), and older agents also read this one.
//!
//! The compiler's output directory contains:
//!
//! | file | content |
//! | --- | --- |
//! | `bfrt.json` | names and numbers of tables for the run-time library |
//! | `pipe/context.json` | where the tables are in the chip |
//! | `pipe/tofino.bin` | the initial values of registers and memories ([`super::tofino_bin`]) |
//! | `NAME.conf` | which of these files are for which pipes; may be missing |
//! | `*p4info*` | the P4Info |

use std::path::{Path, PathBuf};

use prost::Message;
use serde_json::Value;
use tributary_p4runtime::p4::config::v1::P4Info;

use super::{
    Built, Shape, bundle_error, difference, files, named, on_disk, run_compiler, scratch,
    tables_of, tofino_bin,
};
use crate::error::Error;
use crate::programs::{Pipeline, Source};

/// The compiler.
pub const COMPILER: &str = "p4c-barefoot";
/// Its assembler.
pub const ASSEMBLER: &str = "bfas";

/// Pipes of a Tofino. Chips with two pipes ignore the others.
const PIPES: u32 = 4;

/// A program in Stratum's format.
#[derive(Clone, PartialEq, Message)]
pub struct BfPipelineConfig {
    /// Name of the program.
    #[prost(string, tag = "1")]
    pub p4_name: String,
    /// The file `bfrt.json`.
    #[prost(bytes = "vec", tag = "2")]
    pub bfruntime_info: Vec<u8>,
    /// The pipelines.
    #[prost(message, repeated, tag = "3")]
    pub profiles: Vec<Profile>,
}

/// The pipeline of some pipes.
#[derive(Clone, PartialEq, Message)]
pub struct Profile {
    /// Name of the pipeline within the program.
    #[prost(string, tag = "1")]
    pub profile_name: String,
    /// The file `context.json`.
    #[prost(bytes = "vec", tag = "2")]
    pub context: Vec<u8>,
    /// The file `tofino.bin`.
    #[prost(bytes = "vec", tag = "3")]
    pub binary: Vec<u8>,
    /// The pipes.
    #[prost(uint32, repeated, tag = "4")]
    pub pipe_scope: Vec<u32>,
}

/// Compiles a program with `p4c-barefoot` and `bfas`.
///
/// # Errors
/// [`Error::Compile`].
pub fn compile(source: &Source, defines: &[(String, String)]) -> Result<Built, Error> {
    let directory = scratch()?;
    let main = on_disk(source, &directory.path().join("source"))?;
    let output = directory.path().join("output");
    compile_into(&main, defines, &output)?;
    let built = load(&output, None)?;
    Ok(Built { origin: format!("{}, compiled by {COMPILER}", source.main), ..built })
}

/// Compiles a file into a directory.
fn compile_into(main: &Path, defines: &[(String, String)], output: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(output).map_err(|error| bundle_error(output, error.to_string()))?;
    run_compiler(COMPILER, |command| {
        command.args(["--std", "p4-16", "--target", "tofino", "--arch", "tna"]);
        // Counters and registers as P4Runtime's own kinds instead of the architecture's.
        command.arg("--p4runtime-force-std-externs");
        command.args(defines.iter().map(|(name, value)| format!("-D{name}={value}")));
        command.arg("--p4runtime-files").arg(output.join("p4info.txtpb"));
        command.arg("--bf-rt-schema").arg(output.join("bfrt.json"));
        command.arg("-o").arg(output).arg(main)
    })?;
    for pipe in files::list(output)?.into_iter().filter(|path| path.is_dir()) {
        if let Some(assembly) = files::only(&pipe, "the assembly", |name| name.ends_with(".bfa"))? {
            run_compiler(ASSEMBLER, |command| command.arg("-o").arg(&pipe).arg(assembly))?;
        }
    }
    Ok(())
}

/// Loads a compiled program: the compiler's output directory, or a file with the message (as
/// Stratum's `bf_pipeline_builder` writes it).
///
/// # Errors
/// [`Error::Bundle`] if a file is missing or truncated, is for another chip, or belongs to another
/// program than the others.
pub fn load(bundle: &Path, p4info: Option<&Path>) -> Result<Built, Error> {
    let config = match bundle.is_dir() {
        true => assemble(bundle)?,
        false => {
            let config = BfPipelineConfig::decode(files::read(bundle)?.as_slice());
            config.map_err(|error| {
                bundle_error(
                    bundle,
                    format!(
                        "is no pipeline for Stratum ({error}); name the directory that {COMPILER} \
                         wrote, or what bf_pipeline_builder made of it"
                    ),
                )
            })?
        }
    };
    let beside = if bundle.is_dir() { Some(bundle) } else { bundle.parent() };
    let beside = beside.filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (info_file, p4info) = files::p4info_of(beside, p4info)?;
    check(&config).map_err(|reason| bundle_error(bundle, reason))?;
    check_info(&config, &p4info).map_err(|what| {
        bundle_error(
            bundle,
            format!(
                "bfrt.json is not of the program of {}: {what}; compile both at once",
                info_file.display()
            ),
        )
    })?;
    let origin = format!("{} ({})", bundle.display(), config.p4_name);
    let device_config = config.encode_to_vec();
    Ok(Built { pipeline: Pipeline { p4info, device_config }, origin })
}

/// Assembles a compiler's output.
fn assemble(directory: &Path) -> Result<BfPipelineConfig, Error> {
    match files::only(directory, "the compiler's .conf", |name| name.ends_with(".conf"))? {
        Some(conf) => by_conf(directory, &conf),
        None => by_names(directory),
    }
}

/// Follows the `.conf`. Its paths are relative to the compiler's working directory; if they do not
/// exist here, the files are looked up at their usual places in the directory.
fn by_conf(directory: &Path, conf: &Path) -> Result<BfPipelineConfig, Error> {
    let bad = |what: &str| bundle_error(conf, format!("{what}; compile the program again"));
    let json: Value = serde_json::from_slice(&files::read(conf)?)
        .map_err(|error| bad(&format!("is no JSON: {error}")))?;
    let [device] = array(&json["p4_devices"]) else {
        return Err(bad("has not exactly one device"));
    };
    let [program] = array(&device["p4_programs"]) else {
        return Err(bad("has not exactly one program, which is all that Stratum takes"));
    };
    let text = |value: &Value, what: &str| {
        value.as_str().map(str::to_owned).ok_or_else(|| bad(&format!("does not say {what}")))
    };
    let find = |path: &str, pipe: &str| -> PathBuf {
        let path = Path::new(path);
        let name = path.file_name().unwrap_or_default();
        let places = [directory.join(path), directory.join(pipe).join(name), directory.join(name)];
        let found = places.iter().find(|place| place.is_file());
        found.unwrap_or(&places[1]).clone()
    };
    let bfrt = find(&text(&program["bfrt-config"], "where bfrt.json is")?, "");
    let mut profiles = Vec::new();
    for pipeline in array(&program["p4_pipelines"]) {
        let profile_name = text(&pipeline["p4_pipeline_name"], "a pipeline's name")?;
        let context = find(&text(&pipeline["context"], "where context.json is")?, &profile_name);
        let binary = find(&text(&pipeline["config"], "where tofino.bin is")?, &profile_name);
        let scope = array(&pipeline["pipe_scope"]).iter().filter_map(Value::as_u64);
        profiles.push(Profile {
            context: files::read(&context)?,
            binary: files::read(&binary)?,
            pipe_scope: scope.filter_map(|pipe| u32::try_from(pipe).ok()).collect(),
            profile_name,
        });
    }
    Ok(BfPipelineConfig {
        p4_name: text(&program["program-name"], "the program's name")?,
        bfruntime_info: files::read(&bfrt)?,
        profiles,
    })
}

/// Finds the files by name: one pipeline for all pipes.
fn by_names(directory: &Path) -> Result<BfPipelineConfig, Error> {
    let bfrt =
        files::only(directory, "bfrt.json", |name| ["bfrt.json", "bf-rt.json"].contains(&name))?
            .ok_or_else(|| {
                bundle_error(
                    directory,
                    format!("has no bfrt.json; name the directory that {COMPILER} wrote"),
                )
            })?;
    let holds = |path: &PathBuf| {
        path.is_dir() && (path.join("tofino.bin").exists() || path.join("context.json").exists())
    };
    let mut pipes: Vec<PathBuf> = files::list(directory)?.into_iter().filter(holds).collect();
    if pipes.is_empty() && directory.join("context.json").exists() {
        pipes.push(directory.to_owned());
    }
    let [pipe] = &pipes[..] else {
        return Err(bundle_error(
            directory,
            match pipes.len() {
                0 => format!(
                    "has no pipe/tofino.bin and pipe/context.json; let {ASSEMBLER} assemble what \
                     {COMPILER} wrote"
                ),
                _ => "has several pipelines and no .conf that says which pipes they are for".into(),
            },
        ));
    };
    let context = files::read(&pipe.join("context.json"))?;
    let program = json_of(&context, "context.json")
        .map_err(|reason| bundle_error(&pipe.join("context.json"), reason))?;
    let name = pipe.file_name().map_or("pipe".into(), |name| name.to_string_lossy().into_owned());
    Ok(BfPipelineConfig {
        p4_name: program["program_name"].as_str().unwrap_or("program").to_owned(),
        bfruntime_info: files::read(&bfrt)?,
        profiles: vec![Profile {
            profile_name: if pipe == directory { "pipe".into() } else { name },
            binary: files::read(&pipe.join("tofino.bin"))?,
            context,
            pipe_scope: (0..PIPES).collect(),
        }],
    })
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn json_of(bytes: &[u8], name: &str) -> Result<Value, String> {
    serde_json::from_slice(bytes).map_err(|error| match error.is_eof() {
        true => format!("{name} is cut off ({error}); compile the program again"),
        false => format!("{name} is not JSON ({error}); compile the program again"),
    })
}

/// Checks that all parts are complete and of one program.
fn check(config: &BfPipelineConfig) -> Result<(), String> {
    if config.p4_name.is_empty() {
        return Err("the program has no name; Stratum wants one".into());
    }
    json_of(&config.bfruntime_info, "bfrt.json")?;
    if config.profiles.is_empty() {
        return Err("no pipe has anything to run; compile the program again".into());
    }
    let mut pipes = Vec::new();
    for profile in &config.profiles {
        let name = &profile.profile_name;
        if profile.pipe_scope.is_empty() {
            return Err(format!("pipeline {name} is for no pipe; set its pipe_scope"));
        }
        if let Some(pipe) = profile.pipe_scope.iter().find(|pipe| pipes.contains(*pipe)) {
            return Err(format!("two pipelines are for pipe {pipe}; correct their pipe_scope"));
        }
        pipes.extend(&profile.pipe_scope);
        let binary = tofino_bin::inspect(&profile.binary)
            .map_err(|reason| format!("tofino.bin of pipeline {name}: {reason}"))?;
        if let Some(chip) = binary.chip.filter(|chip| !chip.eq_ignore_ascii_case("tofino")) {
            return Err(format!(
                "tofino.bin of pipeline {name} is for the chip {chip}; compile for --target tofino"
            ));
        }
        let context = json_of(&profile.context, "context.json")?;
        let own = context["program_name"].as_str();
        for (file, program) in [("tofino.bin", binary.program.as_deref()), ("context.json", own)] {
            if let Some(program) = program.filter(|program| *program != config.p4_name) {
                return Err(format!(
                    "{file} of pipeline {name} is of the program {program}, and the bundle of {}; \
                     compile the program again",
                    config.p4_name
                ));
            }
        }
        if array(&context["tables"]).is_empty() {
            return Err("context.json has no tables: the compiler failed half-way; compile the \
                        program again"
                .into());
        }
    }
    Ok(())
}

/// Checks that the run-time description contains everything of the controller's P4Info.
fn check_info(config: &BfPipelineConfig, info: &P4Info) -> Result<(), String> {
    let bfrt = json_of(&config.bfruntime_info, "bfrt.json")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let bare = |name: &str| name.strip_prefix("pipe.").unwrap_or(name).to_owned();
    let theirs: Vec<Shape> = array(&bfrt["tables"])
        .iter()
        .map(|table| {
            // A table with priorities has an additional key field for them.
            let keys = array(&table["key"]).iter().map(|key| text(&key["name"]));
            let keys = keys.filter(|name| name != "$MATCH_PRIORITY");
            let keys = keys.map(|name| format!("key {name}"));
            let actions = array(&table["action_specs"]).iter();
            let actions = actions.map(|action| format!("action {}", bare(&text(&action["name"]))));
            Shape::new(bare(&text(&table["name"])), keys.chain(actions))
        })
        .collect();
    let ours: Vec<Shape> = tables_of(info)
        .into_iter()
        .map(|shape| {
            let part = |part: &String| match part.strip_prefix("action ") {
                Some(name) => format!("action {}", bare(name)),
                None => part.clone(),
            };
            Shape::new(bare(&shape.name), shape.parts.iter().map(part))
        })
        .collect();
    if let Some(found) = difference("table", &ours, &theirs) {
        return Err(found);
    }
    for counter in &info.counters {
        let name = bare(named(counter.preamble.as_ref()));
        if !theirs.iter().any(|table| table.name == name) {
            return Err(format!("it has no counter `{name}`"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tributary_p4runtime::text;

    use super::*;
    use crate::programs;
    use crate::targets::tofino_bin::tests::sample;

    /// A compiler's output directory with a P4Info of ours.
    struct Output(tempfile::TempDir);

    impl Output {
        fn new() -> Self {
            let output = Self(tempfile::tempdir().unwrap());
            let atp = programs::compile(&Source::built_in("atp").unwrap(), &[]);
            let info = atp.unwrap_or_else(|error| panic!("{error}")).pipeline.p4info;
            output.write("atp.p4info.txtpb", text::to_text(&info));
            output.write("bfrt.json", bfrt(&info).to_string());
            let context = r#"{"program_name": "atp", "target": "tofino", "tables": [{}]}"#;
            output.write("pipe/context.json", context);
            output.write("pipe/tofino.bin", sample("atp", "tofino"));
            output
        }

        fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
            let path = self.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn load(&self) -> Result<Built, String> {
            load(self.0.path(), None).map_err(|error| error.to_string())
        }

        /// The error without the directory's name.
        fn refused(&self) -> String {
            let error = self.load().unwrap_err();
            assert!(!error.contains('\n'), "{error}");
            error.replace(&self.0.path().display().to_string(), "DIR")
        }
    }

    /// A run-time description of the tables of a P4Info, with the names of a Tofino compiler.
    fn bfrt(info: &P4Info) -> Value {
        let tables = tables_of(info).into_iter().map(|shape| {
            let part = |prefix: &str, key: &str| -> Vec<Value> {
                let named = shape.parts.iter().filter_map(|part| part.strip_prefix(prefix));
                named.map(|name| serde_json::json!({ key: name })).collect()
            };
            serde_json::json!({
                "name": format!("pipe.{}", shape.name),
                "key": part("key ", "name"),
                "action_specs": part("action ", "name"),
            })
        });
        let mut tables: Vec<Value> = tables.collect();
        for counter in &info.counters {
            let name = format!("pipe.{}", named(counter.preamble.as_ref()));
            tables.push(serde_json::json!({ "name": name, "key": [{ "name": "$COUNTER_INDEX" }] }));
        }
        serde_json::json!({ "schema_version": "1.0.0", "tables": tables })
    }

    #[test]
    fn a_compilers_output_becomes_one_message() {
        let output = Output::new();
        let built = output.load().unwrap();
        let config = BfPipelineConfig::decode(built.pipeline.device_config.as_slice()).unwrap();
        assert_eq!(config.p4_name, "atp");
        assert_eq!(config.bfruntime_info, fs::read(output.path("bfrt.json")).unwrap());
        let [profile] = &config.profiles[..] else { panic!("one profile") };
        assert_eq!(
            (profile.profile_name.as_str(), &profile.pipe_scope[..]),
            ("pipe", &[0, 1, 2, 3][..])
        );
        assert_eq!(profile.binary, sample("atp", "tofino"));
        assert_eq!(profile.context, fs::read(output.path("pipe/context.json")).unwrap());

        // A file with the message is equivalent to the directory.
        output.write("atp.pb.bin", &built.pipeline.device_config);
        let again = load(&output.path("atp.pb.bin"), None).unwrap();
        assert_eq!(again.pipeline, built.pipeline);
    }

    #[test]
    fn the_message_has_the_field_numbers_of_stratum() {
        let config = BfPipelineConfig {
            p4_name: "p".into(),
            bfruntime_info: b"b".to_vec(),
            profiles: vec![Profile {
                profile_name: "n".into(),
                context: b"c".to_vec(),
                binary: b"t".to_vec(),
                pipe_scope: vec![0, 3],
            }],
        };
        // Field and wire type, length, contents; the pipes are packed.
        let profile = b"\x0a\x01n\x12\x01c\x1a\x01t\x22\x02\x00\x03";
        let mut expected = b"\x0a\x01p\x12\x01b\x1a\x0d".to_vec();
        expected.extend(profile);
        assert_eq!(config.encode_to_vec(), expected);
    }

    #[test]
    fn a_conf_assigns_files_to_pipes() {
        let output = Output::new();
        fs::rename(output.path("pipe"), output.path("left")).unwrap();
        let conf = |scopes: [&str; 2]| {
            let pipeline = |name: &str, scope: &str| {
                format!(
                    r#"{{"p4_pipeline_name": "{name}", "context": "share/tofinopd/atp/{name}/context.json",
                        "config": "share/tofinopd/atp/{name}/tofino.bin", "pipe_scope": {scope}}}"#
                )
            };
            let [left, right] = [pipeline("left", scopes[0]), pipeline("right", scopes[1])];
            output.write(
                "atp.conf",
                format!(
                    r#"{{"p4_devices": [{{"device-id": 0, "p4_programs": [{{"program-name": "atp",
                        "bfrt-config": "share/tofinopd/atp/bfrt.json",
                        "p4_pipelines": [{left}, {right}]}}]}}]}}"#
                ),
            );
        };
        conf(["[0, 1]", "[2, 3]"]);
        assert_eq!(
            output.refused(),
            "DIR/right/context.json: cannot be read: No such file or directory (os error 2)"
        );
        for name in ["context.json", "tofino.bin"] {
            output.write(
                &format!("right/{name}"),
                fs::read(output.path(&format!("left/{name}"))).unwrap(),
            );
        }
        let config = output.load().unwrap().pipeline.device_config;
        let profiles = BfPipelineConfig::decode(config.as_slice()).unwrap().profiles;
        let scopes: Vec<_> =
            profiles.iter().map(|p| (p.profile_name.as_str(), &p.pipe_scope[..])).collect();
        assert_eq!(scopes, [("left", &[0, 1][..]), ("right", &[2, 3][..])]);
        conf(["[0, 1]", "[1]"]);
        assert_eq!(output.refused(), "DIR: two pipelines are for pipe 1; correct their pipe_scope");
        conf(["[0, 1]", "[]"]);
        assert_eq!(output.refused(), "DIR: pipeline right is for no pipe; set its pipe_scope");
    }

    #[test]
    fn missing_files_are_named() {
        for (missing, expected) in [
            ("pipe/tofino.bin", "DIR/pipe/tofino.bin: cannot be read: No such file"),
            ("pipe/context.json", "DIR/pipe/context.json: cannot be read: No such file"),
            ("bfrt.json", "DIR: has no bfrt.json; name the directory that p4c-barefoot wrote"),
            ("atp.p4info.txtpb", "DIR: has no P4Info; compile with `--p4runtime-files"),
        ] {
            let output = Output::new();
            fs::remove_file(output.path(missing)).unwrap();
            let error = output.refused();
            assert!(error.starts_with(expected), "{missing}: {error}");
        }
        let output = Output::new();
        fs::remove_dir_all(output.path("pipe")).unwrap();
        assert!(output.refused().starts_with("DIR: has no pipe/tofino.bin and pipe/context.json"));
        let nowhere = load(Path::new("/nowhere"), None).unwrap_err().to_string();
        assert!(nowhere.starts_with("/nowhere: cannot be read: "), "{nowhere}");
    }

    #[test]
    fn truncated_files_are_refused() {
        for name in ["pipe/tofino.bin", "pipe/context.json", "bfrt.json"] {
            let output = Output::new();
            let whole = fs::read(output.path(name)).unwrap();
            output.write(name, &whole[..whole.len() - 3]);
            let error = output.refused();
            assert!(error.contains("cut off"), "{name}: {error}");
            assert!(error.contains(name.rsplit('/').next().unwrap()), "{name}: {error}");
            output.write(name, b"");
            assert!(output.refused().contains("is empty; compile the program again"), "{name}");
        }
        let output = Output::new();
        let whole = output.load().unwrap().pipeline.device_config;
        output.write("atp.pb.bin", &whole[..whole.len() / 2]);
        let error = load(&output.path("atp.pb.bin"), None).unwrap_err().to_string();
        assert!(error.contains("is no pipeline for Stratum"), "{error}");
    }

    #[test]
    fn parts_of_different_programs_are_refused() {
        let output = Output::new();
        output.write("pipe/tofino.bin", sample("esa", "tofino"));
        assert_eq!(
            output.refused(),
            "DIR: tofino.bin of pipeline pipe is of the program esa, and the bundle of atp; compile the \
             program again"
        );
        output.write("pipe/tofino.bin", sample("atp", "Tofino2"));
        assert_eq!(
            output.refused(),
            "DIR: tofino.bin of pipeline pipe is for the chip Tofino2; compile for --target tofino"
        );
        // BMv2's JSON is not a bundle.
        output.write("pipe/tofino.bin", b"{\"program\": \"atp.p4\"}");
        assert!(output.refused().contains("there is no block at byte 0"), "{}", output.refused());

        let output = Output::new();
        let esa = programs::compile(&Source::built_in("esa").unwrap(), &[]);
        let info = esa.unwrap_or_else(|error| panic!("{error}")).pipeline.p4info;
        output.write("atp.p4info.txtpb", text::to_text(&info));
        let error = output.refused();
        let expected =
            "DIR: bfrt.json is not of the program of DIR/atp.p4info.txtpb: it has no table `";
        assert!(error.starts_with(expected), "{error}");
        assert!(error.ends_with("compile both at once"), "{error}");
        output.write("other.p4info.txtpb", text::to_text(&info));
        let error = output.refused();
        assert!(error.starts_with("DIR: has several files that could be the P4Info"), "{error}");
    }

    #[test]
    fn incomplete_compiler_output_is_reported() {
        let output = Output::new();
        output.write("pipe/context.json", r#"{"program_name": "atp", "tables": []}"#);
        let error = output.refused();
        assert!(error.starts_with("DIR: context.json has no tables"), "{error}");
    }
}
