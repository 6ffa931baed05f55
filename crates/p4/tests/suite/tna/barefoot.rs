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
    let found =
        env::split_paths(&path).map(|d| d.join("p4c-barefoot")).find(|file| file.is_file());
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
