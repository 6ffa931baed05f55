//! Our definitions against those that the Python package `p4runtime` carries.
//!
//! Needs a Python with that package: `TRIBUTARY_P4RUNTIME_PYTHON` names its interpreter, else a
//! virtual environment is made below the target directory. Where neither works the test says
//! "skipped: …" and why.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use prost::Message as _;
use prost_types::FileDescriptorSet;
use tributary_p4runtime::FILE_DESCRIPTOR_SET;

/// The release whose definitions are ours. Later ones may add, earlier ones lack some.
const PACKAGE: &str = "p4runtime==1.6.0";
const PYTHON: &str = "TRIBUTARY_P4RUNTIME_PYTHON";

/// The last line that a failed command wrote, or why it could not be started.
fn run(command: &mut Command) -> Result<Output, String> {
    let output =
        command.output().map_err(|e| format!("{}: {e}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(output);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(stderr.lines().rfind(|l| !l.trim().is_empty()).unwrap_or("no message").to_owned())
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compare_descriptors.py")
}

/// Whether that interpreter can import what the script needs.
fn imports(python: &Path) -> Result<(), String> {
    run(Command::new(python).arg(script())).map(drop)
}

/// An interpreter that can import the package, or why there is none: only a missing Python or
/// registry counts. Once the package is there it must work, else this test would pass by skipping.
fn python() -> Result<PathBuf, String> {
    if let Some(given) = env::var_os(PYTHON) {
        let given = PathBuf::from(given);
        imports(&given).unwrap_or_else(|e| panic!("{PYTHON}={}: {e}", given.display()));
        return Ok(given);
    }
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("p4runtime-venv");
    let python = venv.join("bin/python");
    if imports(&python).is_ok() {
        return Ok(python);
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run(Command::new(&python).args(pip).args(["--retries", "1", "--timeout", "20", PACKAGE]))?;
    imports(&python).unwrap_or_else(|e| panic!("{PACKAGE} was installed but cannot be used: {e}"));
    Ok(python)
}

/// Whether the script finds the set equal to the package's, and what it said.
fn compare(python: &Path, set: &[u8], name: &str) -> (Option<i32>, String) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&file, set).unwrap();
    let output = Command::new(python).arg(script()).arg(file).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn definitions_are_those_of_the_python_package() {
    let python = match python() {
        Ok(python) => python,
        Err(why) => {
            println!("skipped: no Python with the package p4runtime ({why})");
            return;
        }
    };

    let (code, said) = compare(&python, FILE_DESCRIPTOR_SET, "ours.bin");
    assert_eq!(code, Some(0), "{said}");
    println!("{}", said.trim());

    // The comparison notices what would break the wire: a number, a type, a name, a lost value.
    type Change = fn(&mut FileDescriptorSet);
    let changes: [(&str, Change); 4] = [
        ("field .p4.v1.TableEntry.priority", |set| field(set).number = Some(14)),
        ("field .p4.v1.TableEntry.priority", |set| field(set).r#type = Some(5 + 12)),
        ("field .p4.v1.TableEntry.precedence", |set| field(set).name = Some("precedence".into())),
        ("value .p4.v1.SdnPort.SDN_PORT_CPU", |set| {
            let file = set.file.iter_mut().find(|f| f.name() == "p4/v1/p4runtime.proto").unwrap();
            file.enum_type[0].value.retain(|v| v.name() != "SDN_PORT_CPU");
        }),
    ];
    for (i, (expected, change)) in changes.into_iter().enumerate() {
        let mut set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
        change(&mut set);
        let (code, said) = compare(&python, &set.encode_to_vec(), &format!("changed-{i}.bin"));
        assert_eq!(code, Some(3), "change {i} was not noticed: {said}");
        assert!(said.contains(expected), "change {i}: {said}");
    }
}

/// `p4.v1.TableEntry.priority`.
fn field(set: &mut FileDescriptorSet) -> &mut prost_types::FieldDescriptorProto {
    let file = set.file.iter_mut().find(|f| f.name() == "p4/v1/p4runtime.proto").unwrap();
    let message = file.message_type.iter_mut().find(|m| m.name() == "TableEntry").unwrap();
    message.field.iter_mut().find(|f| f.name() == "priority").unwrap()
}
