//! Invalid input: one clear line, exit status 1, nothing left behind.

use std::net::TcpListener;

use crate::command::{JobFile, fail, failure, tributary};

#[test]
fn the_position_of_a_malformed_job_files_error_is_named() {
    let file = JobFile::new("[topology]\nkind = \"star\nworkers = 4\n");
    let line = fail(&["run", &file.name()]);
    assert!(line.contains("job.toml:2:"), "{line}");
}

#[test]
fn the_error_of_an_unknown_key_has_its_position_and_a_suggestion() {
    let file = JobFile::new("[topology]\nwokers = 4\n[[job]]\n");
    let line = fail(&["run", &file.name()]);
    assert!(line.contains("job.toml:2:1: unknown key `wokers`"), "{line}");
    assert!(line.contains("did you mean `workers`?"), "{line}");
}

#[test]
fn af_xdp_needs_interfaces() {
    let line = fail(&["run", "examples/digits.toml", "--io", "xdp"]);
    assert!(line.contains("--io xdp") && line.contains("--fabric netns"), "{line}");
}

#[test]
fn the_engine_applies_only_to_the_embedded_switch() {
    let bmv2 = ["--fabric", "netns", "--target", "bmv2", "--engine", "compiled"];
    let line = fail(&[["run", "examples/digits.toml"].as_slice(), &bmv2].concat());
    assert!(line.contains("--engine compiled") && line.contains("BMv2"), "{line}");
}

#[test]
fn a_missing_job_file() {
    let line = fail(&["run", "no-such-file.toml"]);
    assert!(line.contains("no-such-file.toml"), "{line}");
}

#[test]
fn control_characters_are_escaped() {
    let line = fail(&["run", "no\u{1b}[31msuch\u{202e}file.toml"]);
    assert!(line.contains(r"no\u{1b}[31msuch\u{202e}file.toml"), "{line}");
}

/// A `.npy` file of version 1.
pub(crate) fn npy(dtype: &str, shape: &str, data: &[[u8; 4]]) -> Vec<u8> {
    let header = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data.as_flattened());
    bytes
}

/// Runs a job with two workers' files.
fn sum_files(first: &[u8], second: &[u8]) -> String {
    let file = JobFile::new(
        "[topology]\nkind = \"star\"\nworkers = 2\n[[job]]\n\
         workload = { kind = \"files\", inputs = [\"a.npy\", \"b.npy\"], output_dir = \"out\" }\n",
    );
    std::fs::write(file.path("a.npy"), first).unwrap();
    std::fs::write(file.path("b.npy"), second).unwrap();
    let line = fail(&["run", &file.name()]);
    assert!(!file.path("out/sum.npy").exists(), "no sum of bad input");
    line
}

#[test]
fn tensors_of_different_shapes_types_and_values_that_are_no_numbers() {
    let floats = |values: &[f32]| values.iter().map(|v| v.to_le_bytes()).collect::<Vec<_>>();
    let good = npy("<f4", "(2,)", &floats(&[1.0, 2.0]));
    let longer = npy("<f4", "(3,)", &floats(&[1.0, 2.0, 3.0]));
    let line = sum_files(&good, &longer);
    assert!(line.contains("a.npy") && line.contains("b.npy"), "{line}");
    assert!(line.contains('2') && line.contains('3'), "{line}");

    let integers = npy("<i4", "(2,)", &[[1, 0, 0, 0], [2, 0, 0, 0]]);
    let line = sum_files(&good, &integers);
    assert!(line.contains("i32") && line.contains("f32"), "{line}");

    for value in [f32::NAN, f32::INFINITY] {
        let line = sum_files(&good, &npy("<f4", "(2,)", &floats(&[1.0, value])));
        assert!(line.contains("b.npy") && line.contains("[1]"), "{line}");
    }

    let doubles = npy("<f8", "(1,)", &[[0; 4], [0; 4]]);
    let line = sum_files(&doubles, &doubles);
    assert!(line.contains("f8") || line.contains("f64"), "{line}");

    let line = sum_files(&good, &good[..good.len() - 1]);
    assert!(line.contains("b.npy"), "{line}");
}

#[test]
fn a_p4_program_with_errors_is_shown() {
    let file = JobFile::new("[[job]]\nworkload = { kind = \"random\", tensors = 1 }\n");
    let program = file.path("bad.p4");
    let text = "#include <core.p4>\n#include <v1model.p4>\nheader h_t { bit<8> x }\n";
    std::fs::write(&program, text).unwrap();
    let program = program.display().to_string();
    for args in [
        vec!["p4", "check", &program],
        vec!["p4", "info", &program],
        vec!["run", &file.name(), "--p4", &program],
        vec!["switch", &program, "--port", "1@lo"],
    ] {
        let output = tributary(&args).output().unwrap();
        let line = failure(&args, &output);
        let all = String::from_utf8_lossy(&output.stderr);
        assert!(all.contains("bad.p4:3:"), "{args:?}: {all}");
        assert!(line.contains("bad.p4"), "{line}");
    }
    let line = fail(&["p4", "check", "no-such.p4"]);
    assert!(line.contains("cannot read no-such.p4: No such file"), "{line}");
    let line = fail(&["run", &file.name(), "--p4", "no-such.p4"]);
    assert!(line.contains("no-such.p4"), "{line}");
}

#[test]
fn an_unreachable_switch() {
    // A port that was just free.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("s1=127.0.0.1:{port}");
    let line = fail(&["controller", "examples/digits.toml", "--switch", &address]);
    assert!(line.contains("switch s1") && line.contains(&port.to_string()), "{line}");
    let line = fail(&["controller", "examples/digits.toml", "--switch", "s7=127.0.0.1:1"]);
    assert!(line.contains("s7"), "{line}");
}

#[test]
fn a_p4runtime_port_in_use() {
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap().to_string();
    let args = ["switch", "--port", "1@lo", "--p4runtime", &address];
    let output = tributary(&args).output().unwrap();
    let line = failure(&args, &output);
    // Without the privilege to open raw sockets, that is reported first.
    assert!(line.contains("in use") || line.contains("CAP_NET_RAW"), "{line}");
}

#[test]
fn missing_interfaces_and_ports() {
    let line = fail(&["switch", "--port", "1@no-such-interface"]);
    assert!(line.contains("no-such-interface"), "{line}");
    for port in ["eth0", "0@eth0", "510@eth0", "1@"] {
        let line = fail(&["switch", "--port", port]);
        assert!(line.contains("PORT@INTERFACE"), "{line}");
    }
}

#[test]
fn missing_privileges_are_named() {
    // As the user `nobody`, if possible.
    let mut command = std::process::Command::new("setpriv");
    let args = ["switch", "--port", "1@lo"];
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    // `nobody` may not read the build directory, so use a copy.
    let copy = tempfile::tempdir().unwrap();
    let program = copy.path().join("tributary");
    std::fs::copy(env!("CARGO_BIN_EXE_tributary"), &program).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(copy.path(), open).unwrap();
    command.arg(&program).args(args).current_dir("/");
    match command.output() {
        Ok(output) if output.status.code() == Some(1) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            if errors.starts_with("setpriv") {
                println!("skipped: setpriv cannot change the user ({})", errors.trim());
                return;
            }
            let line = failure(&args, &output);
            assert!(line.contains("CAP_NET_RAW"), "{line}");
        }
        Ok(output) => println!("skipped: setpriv ended with {}", output.status),
        Err(error) => println!("skipped: no setpriv ({error})"),
    }
}

#[test]
fn a_wrong_command_line_is_status_two() {
    let output = tributary(&["run"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
