//! Comparison with Tofino's own compiler, `p4c-barefoot`, on the same programs. If it is not
//! installed, the test prints one line and passes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{fs, thread};

use tributary_base::programs;
use tributary_p4::P4Info;
use tributary_p4runtime::text;

use super::compiles;
use super::samples::{SAMPLES, Verdict};

/// The compiler and its assembler.
struct Tools {
    compiler: PathBuf,
    assembler: PathBuf,
}

fn tools() -> Option<Tools> {
    let find = |program: &str| {
        let found = programs::on_path(program);
        if found.is_none() {
            println!("skipped: {program} not found on the PATH");
        }
        found
    };
    Some(Tools { compiler: find("p4c-barefoot")?, assembler: find("bfas")? })
}

/// A separate directory under the target directory.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("barefoot-{name}"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("the target directory can be written");
    directory
}

/// Runs a program. Returns its error output if it failed.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().expect("the program starts");
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

/// Compiles and assembles a program. Returns its P4Info, or the error output if it was rejected.
fn barefoot(tools: &Tools, directory: &Path, source: &str) -> Result<P4Info, String> {
    let file = directory.join("program.p4");
    let info = directory.join("p4info.txtpb");
    let out = directory.join("out");
    fs::write(&file, source).expect("the directory can be written");
    run(Command::new(&tools.compiler)
        .args(["--target", "tofino", "--arch", "tna", "--std", "p4-16"])
        .args(["--p4runtime-force-std-externs", "--p4runtime-files"])
        .arg(&info)
        .arg("-o")
        .arg(&out)
        .arg(&file))?;
    let pipe = out.join("pipe");
    fs::create_dir_all(pipe.join("logs")).expect("the directory can be written");
    run(Command::new(&tools.assembler)
        .args(["--target", "tofino", "-o", "."])
        .arg("program.bfa")
        .current_dir(&pipe))?;
    let text = fs::read_to_string(&info).expect("P4Info was written");
    text::from_text(&text).map_err(|e| e.to_string())
}

#[test]
fn it_accepts_and_refuses_the_same_register_actions() {
    let Some(tools) = tools() else { return };
    let next = AtomicUsize::new(0);
    let different = Mutex::new(Vec::new());
    let work = || {
        while let Some(sample) = SAMPLES.get(next.fetch_add(1, Ordering::Relaxed)) {
            let directory = directory(sample.name);
            let found = barefoot(&tools, &directory, &sample.source());
            let agrees = matches!(
                (sample.verdict, &found),
                (Verdict::Fits | Verdict::Stricter(_), Ok(_)) | (Verdict::Refused(_), Err(_))
            );
            if !agrees {
                let said = found.err().unwrap_or_else(|| "accepted".to_owned());
                let mut list = different.lock().unwrap_or_else(PoisonError::into_inner);
                list.push(format!("{}: {said}", sample.name));
            }
            let _ = fs::remove_dir_all(directory);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let different = different.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}

/// The parts of P4Info that writing entities needs, in an order that is independent of the
/// compiler.
fn sorted(mut info: P4Info) -> P4Info {
    // Compilers may differ in the additional types that they describe, and in the port metadata,
    // which drivers know.
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
    let Some(tools) = tools() else { return };
    let source = super::p4info::everything();
    let directory = directory("p4info");
    let theirs = barefoot(&tools, &directory, &source).unwrap_or_else(|e| panic!("{e}"));
    let ours = compiles(&source).p4info;
    let (ours, theirs) = (text::to_text(&sorted(ours)), text::to_text(&sorted(theirs)));
    assert!(ours == theirs, "ours\n{ours}\n\nits own\n{theirs}");
    let _ = fs::remove_dir_all(directory);
}
