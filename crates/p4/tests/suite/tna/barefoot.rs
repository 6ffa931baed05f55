//! Tofino's own compiler, `p4c-barefoot`, says the same of the same programs. Where it is not
//! installed, one line says so.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use tributary_p4::P4Info;
use tributary_p4runtime_proto::text;

use super::compiles;
use super::samples::{SAMPLES, Verdict};

fn compiler() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|d| d.join("p4c-barefoot")).find(|file| file.is_file());
    if found.is_none() {
        println!("skipped: p4c-barefoot not found on the PATH");
    }
    found
}

/// A directory of its own under the target directory.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("barefoot-{name}"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("the target directory can be written");
    directory
}

/// Compiles a program; gives what the compiler said where it refused, and its P4Info.
fn barefoot(compiler: &Path, directory: &Path, source: &str) -> Result<P4Info, String> {
    let file = directory.join("program.p4");
    let info = directory.join("p4info.txtpb");
    fs::write(&file, source).expect("the directory can be written");
    let output = Command::new(compiler)
        .args(["--target", "tofino", "--arch", "tna", "--p4runtime-force-std-externs"])
        .args(["-D__TARGET_TOFINO__=1", "-o"])
        .arg(directory.join("out"))
        .arg("--p4runtime-files")
        .arg(&info)
        .arg(&file)
        .output()
        .expect("the compiler starts");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = fs::read_to_string(&info).expect("P4Info was written");
    text::from_text(&text).map_err(|e| e.to_string())
}

#[test]
fn it_accepts_and_refuses_the_same_register_actions() {
    let Some(compiler) = compiler() else { return };
    let mut different = Vec::new();
    for sample in SAMPLES {
        let directory = directory(sample.name);
        let found = barefoot(&compiler, &directory, &sample.source());
        let agrees = matches!(
            (sample.verdict, &found),
            (Verdict::Fits, Ok(_)) | (Verdict::Refused(_), Err(_)) | (Verdict::Stricter(_), Ok(_))
        );
        if !agrees {
            let said = found.err().unwrap_or_else(|| "accepted".to_owned());
            different.push(format!("{}: {said}", sample.name));
        }
        let _ = fs::remove_dir_all(directory);
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}

/// All that entities are written with, in an order that does not depend on the compiler.
fn sorted(mut info: P4Info) -> P4Info {
    // Which types are described besides, and the port metadata that drivers know, are a compiler's
    // own affair.
    info.type_info = None;
    info.externs.clear();
    info.tables.sort_by_key(|t| t.preamble.as_ref().map(|p| p.id));
    info.actions.sort_by_key(|a| a.preamble.as_ref().map(|p| p.id));
    info.counters.sort_by_key(|c| c.preamble.as_ref().map(|p| p.id));
    info.direct_counters.sort_by_key(|c| c.preamble.as_ref().map(|p| p.id));
    info.meters.sort_by_key(|m| m.preamble.as_ref().map(|p| p.id));
    info.registers.sort_by_key(|r| r.preamble.as_ref().map(|p| p.id));
    info.digests.sort_by_key(|d| d.preamble.as_ref().map(|p| p.id));
    for table in &mut info.tables {
        table.action_refs.sort_by_key(|action| action.id);
    }
    info
}

#[test]
fn it_prints_the_same_p4info() {
    let Some(compiler) = compiler() else { return };
    let source = super::p4info::everything();
    let directory = directory("p4info");
    let theirs = barefoot(&compiler, &directory, &source).unwrap_or_else(|e| panic!("{e}"));
    let ours = compiles(&source).p4info;
    let (ours, theirs) = (text::to_text(&sorted(ours)), text::to_text(&sorted(theirs)));
    assert!(ours == theirs, "ours\n{ours}\n\nits own\n{theirs}");
    let _ = fs::remove_dir_all(directory);
}
