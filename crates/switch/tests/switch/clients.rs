//! Stock P4Runtime clients, if Python has them: p4runtime-shell and finsy from PyPI.
//! `scripts/p4runtime-clients.sh` installs them and runs these tests.

use std::process::Command;

use tributary_p4runtime::text;
use tributary_switch::server::{Listen, ServerHandle};

use crate::common::*;
use crate::grpc::*;

/// A Python that can import a module: the one in an environment variable, or the one on the path.
fn python_with(module: &str, variable: &str) -> Option<String> {
    let python = std::env::var(variable).unwrap_or_else(|_| "python3".into());
    let import = format!("import {module}");
    let found = Command::new(&python).args(["-c", &import]).output().ok()?.status.success();
    found.then_some(python)
}

/// Runs a script against a switch of its own.
fn drive(module: &str, variable: &str, script: &str) {
    let Some(python) = python_with(module, variable) else {
        println!("skipped: no Python with {module}; scripts/p4runtime-clients.sh installs one");
        return;
    };
    let device = device();
    let listen = Listen::Tcp("127.0.0.1:0".parse().unwrap());
    let server = ServerHandle::start(device.service.clone(), listen).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (p4info, program) =
        (directory.path().join("p4info.txt"), directory.path().join("tables.p4"));
    let config = config(TABLES);
    std::fs::write(&p4info, text::to_text(&config.p4info.unwrap())).unwrap();
    std::fs::write(&program, TABLES).unwrap();
    let script = format!("{}/tests/clients/{script}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(python)
        .arg(script)
        .args([server.address().to_string(), DEVICE.to_string()])
        .args([p4info, program])
        .output()
        .unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success() && out.contains("all done"), "{out}\n{err}");
    server.stop().unwrap();
}

#[test]
fn p4runtime_shell() {
    drive("p4runtime_sh", "P4RUNTIME_SHELL_PYTHON", "with_shell.py");
}

#[test]
fn finsy() {
    drive("finsy", "FINSY_PYTHON", "with_finsy.py");
}
