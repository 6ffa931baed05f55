//! Programs compiled by p4c, for switches that do not accept P4 source.
//!
//! The compiler is looked up on the `PATH`. Programs of the library exist only in memory, so they
//! are written to a temporary directory.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tributary_base::{FileLimit, programs};
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::text;

use crate::Error;
use crate::programs::{Pipeline, Source};

/// Limit of p4c's output: our largest program compiles to 2 MB.
const OUTPUT: FileLimit = FileLimit::regular("compiled program", 256 << 20);

/// Number of lines of compiler messages in an error.
const LINES: usize = 12;

/// Finds a program on the `PATH`, for example `simple_switch_grpc`. Errors contain `fix`.
///
/// # Errors
/// [`Error::NoTool`].
pub fn find(program: &'static str, fix: &'static str) -> Result<PathBuf, Error> {
    programs::on_path(program).ok_or(Error::NoTool { program, fix })
}

/// p4c's back end for BMv2.
///
/// # Errors
/// [`Error::NoTool`].
pub fn bmv2_compiler() -> Result<PathBuf, Error> {
    find("p4c-bm2-ss", "install p4c, whose back end for BMv2 it is (docs/operate/bmv2.md)")
}

/// Compiles a program for BMv2 with the given constants (see [`programs::defines`]) into BMv2's
/// JSON and p4c's P4Info.
///
/// # Errors
/// [`Error::NoTool`] without `p4c-bm2-ss` on the `PATH`, [`Error::Compile`] with the compiler's
/// messages, [`Error::ReadProgram`] if files cannot be written or read.
///
/// [`programs::defines`]: crate::programs::defines
pub fn bmv2(source: &Source, defines: &[(String, String)]) -> Result<Pipeline, Error> {
    let compiler = bmv2_compiler()?;
    let failed = |path: &Path, reason: std::io::Error| Error::ReadProgram {
        path: path.display().to_string(),
        reason: reason.to_string(),
    };
    let directory = tempfile::tempdir().map_err(|error| failed(&std::env::temp_dir(), error))?;
    let at = directory.path();
    for (name, text) in &source.files {
        let file = at.join("p4src").join(name);
        let parent = file.parent().unwrap_or(at);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&file, text))
            .map_err(|error| failed(&file, error))?;
    }
    let (json, info) = (at.join("program.json"), at.join("p4info.txtpb"));
    let arguments = [OsStr::new("--p4v"), OsStr::new("16"), OsStr::new("-o"), json.as_ref()];
    let mut command = Command::new(&compiler);
    if !source.files.is_empty() {
        // The output contains the paths of the sources. Relative paths keep it the same in each
        // run, so that a switch that already runs the program is recognised.
        command.current_dir(at.join("p4src"));
    }
    let output = command
        .args(arguments)
        .arg("--p4runtime-files")
        .arg(&info)
        .args(defines.iter().map(|(name, value)| format!("-D{name}={value}")))
        .arg(&source.main)
        .output()
        .map_err(|error| failed(&compiler, error))?;
    if !output.status.success() {
        let messages = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = messages.lines().take(LINES).collect();
        return Err(Error::Compile(format!(
            "p4c-bm2-ss refuses {} ({}):\n{}\n",
            source.main,
            output.status,
            lines.join("\n")
        )));
    }
    let device_config = OUTPUT.read(&json).map_err(|error| failed(&json, error))?;
    let info_text = OUTPUT.read_text(&info).map_err(|error| failed(&info, error))?;
    let p4info: P4Info = text::from_text(&info_text).map_err(|error| {
        Error::Compile(format!("cannot read the P4Info that p4c-bm2-ss wrote: {error}\n"))
    })?;
    Ok(Pipeline { p4info, device_config })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_advice() {
        let error = find("no-such-compiler", "install it").unwrap_err().to_string();
        assert_eq!(error, "no-such-compiler is not on the PATH; install it");
    }

    #[test]
    fn a_program_that_p4c_refuses_is_an_error_with_its_line() {
        if let Err(error) = bmv2_compiler() {
            println!("skipped: {error}");
            return;
        }
        let files = vec![("x.p4".to_owned(), "control c() { apply { nonsense(); } }".to_owned())];
        let source = Source { main: "x.p4".into(), files };
        let error = bmv2(&source, &[]).unwrap_err().to_string();
        assert!(error.contains("x.p4(1)") && error.contains("nonsense"), "{error}");
        assert!(!error.contains("p4src/x.p4"), "the directory is nobody's business: {error}");
    }

    #[test]
    fn p4c_compiles_atp_to_what_the_controller_uses() {
        if let Err(error) = bmv2_compiler() {
            println!("skipped: {error}");
            return;
        }
        let pool = [("POOL".to_owned(), "77".to_owned())];
        let pipeline = bmv2(&Source::built_in("atp").unwrap(), &pool).unwrap();
        let catalogue = crate::Catalogue::new(&pipeline.p4info).unwrap();
        assert_eq!(catalogue.protocol(), tributary_wire::Protocol::Atp);
        assert!(pipeline.p4info.registers.iter().all(|register| register.size == 77));
        assert!(pipeline.device_config.starts_with(b"{"));
        let again = bmv2(&Source::built_in("atp").unwrap(), &pool).unwrap();
        assert_eq!(pipeline.cookie(), again.cookie(), "a switch that runs it is to be known again");
    }
}
