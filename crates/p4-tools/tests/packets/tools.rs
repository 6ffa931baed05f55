//! The switches available on this machine, and the programs compiled for them.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use tributary_base::programs;
use tributary_p4::Architecture;

use crate::target::{Build, Program};

/// The directory of the programs under test.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4src");

/// The file of a program.
pub(crate) fn source(architecture: Architecture, program: Program) -> String {
    format!("{SOURCES}/{architecture}/{}.p4", program.name())
}

/// The Tofino back end of p4c; `Err` gives the reason in one line if it is not used.
pub(crate) fn tofino() -> Result<PathBuf, String> {
    find("p4c-barefoot")
}

/// A program compiled for Tofino.
pub(crate) struct ForTofino {
    /// Number of stages of ingress and egress.
    pub(crate) stages: usize,
    /// P4Info as text, with P4Runtime's own kinds of counters and registers.
    pub(crate) p4info: String,
}

/// Compiles a program for Tofino, or returns the compiler's errors.
pub(crate) fn compile_for_tofino(compiler: &Path, program: Program) -> Result<ForTofino, String> {
    let name = program.name();
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("tofino-{name}-{}", std::process::id()));
    let p4info = kept.with_extension("txtpb");
    let output = Command::new(compiler)
        .args(["--target", "tofino", "--arch", "tna", "-g", "--p4runtime-force-std-externs"])
        .arg("--p4runtime-files")
        .arg(&p4info)
        .arg("-o")
        .arg(&kept)
        .arg(format!("{SOURCES}/tna/{name}.p4"))
        .output()
        .map_err(|error| error.to_string())?;
    let assembly = fs::read_to_string(kept.join(format!("pipe/{name}.bfa")));
    let info = fs::read_to_string(&p4info);
    let _ = fs::remove_dir_all(&kept);
    let _ = fs::remove_file(&p4info);
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let assembly = assembly.map_err(|error| error.to_string())?;
    let stages = assembly
        .lines()
        .filter_map(|line| line.strip_prefix("stage ")?.split(' ').next()?.parse::<usize>().ok());
    let last = stages.max().ok_or("the assembly has no stages")?;
    Ok(ForTofino { stages: last + 1, p4info: info.map_err(|error| error.to_string())? })
}

/// BMv2 and the compiler for it.
#[derive(Clone, Debug)]
pub(crate) struct Bmv2Tools {
    pub(crate) switch: PathBuf,
    compiler: PathBuf,
}

static BMV2: OnceLock<Result<Bmv2Tools, String>> = OnceLock::new();

/// Finds BMv2; `Err` gives the reason in one line if it is not used. `main` passes a possible
/// obstacle.
pub(crate) fn bmv2(
    obstacle: impl FnOnce() -> Option<String>,
) -> &'static Result<Bmv2Tools, String> {
    BMV2.get_or_init(|| {
        let tools =
            Bmv2Tools { switch: find("simple_switch_grpc")?, compiler: find("p4c-bm2-ss")? };
        match obstacle() {
            Some(obstacle) => Err(format!("skipped: {obstacle}")),
            None => Ok(tools),
        }
    })
}

fn find(program: &str) -> Result<PathBuf, String> {
    programs::on_path(program).ok_or_else(|| format!("skipped: {program} not found on the PATH"))
}

/// The configuration of BMv2.
pub(crate) struct Compiled {
    pub(crate) json: Vec<u8>,
    pub(crate) p4info: String,
}

/// Compiles the program for BMv2. That takes seconds, so results are cached in the target
/// directory, named by a digest of all inputs.
pub(crate) fn compile(tools: &Bmv2Tools, build: &Build) -> Compiled {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let program = build.program.name();
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("{program}-{:016x}", digest(tools, build)));
    let read = || -> Option<Compiled> {
        let json = fs::read(kept.join("program.json")).ok()?;
        Some(Compiled { json, p4info: fs::read_to_string(kept.join("p4info.txtpb")).ok()? })
    };
    if let Some(compiled) = read() {
        return compiled;
    }
    let fresh = kept.with_extension(std::process::id().to_string());
    fs::create_dir_all(&fresh).expect("the target directory can be written");
    let output = Command::new(&tools.compiler)
        .args(["--p4v", "16"])
        .args(build.defines().map(|(name, value)| format!("-D{name}={value}")))
        .arg("-o")
        .arg(fresh.join("program.json"))
        .arg("--p4runtime-files")
        .arg(fresh.join("p4info.txtpb"))
        .arg(source(Architecture::V1model, build.program))
        .output()
        .expect("p4c-bm2-ss can be started");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "p4c-bm2-ss refuses the program:\n{messages}");
    // Another process may have been faster; its result is equivalent.
    if fs::rename(&fresh, &kept).is_err() {
        let _ = fs::remove_dir_all(&fresh);
    }
    read().expect("p4c-bm2-ss wrote both files")
}

fn digest(tools: &Bmv2Tools, build: &Build) -> u64 {
    let mut digest = DefaultHasher::new();
    build.hash(&mut digest);
    tools.compiler.hash(&mut digest);
    let changed = fs::metadata(&tools.compiler).and_then(|m| m.modified()).ok();
    changed.hash(&mut digest);
    hash_files(Path::new(SOURCES), &mut digest);
    digest.finish()
}

fn hash_files(directory: &Path, digest: &mut DefaultHasher) {
    let entries = fs::read_dir(directory).expect("the sources can be read");
    let mut paths: Vec<PathBuf> =
        entries.map(|e| e.expect("the sources can be read").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            hash_files(&path, digest);
        } else {
            path.hash(digest);
            fs::read(&path).expect("the sources can be read").hash(digest);
        }
    }
}
