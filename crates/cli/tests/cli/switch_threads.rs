//! Switches with several threads.

use crate::command::{JobFile, fail, namespaces, succeed};

/// Faults of every link.
const FAULTS: &str = "[faults]\nloss = 0.01\nduplicate = 0.01\nreorder = 0.02\n";

fn job(protocol: &str, faults: &str) -> JobFile {
    let slots = if protocol == "p4inc" { "slots = 256\n" } else { "" };
    JobFile::new(&format!(
        "[topology]\nkind = \"star\"\nworkers = 3\n{faults}[protocol]\nkind = \"{protocol}\"\n{slots}\
         [[job]]\nworkload = {{ kind = \"random\", tensors = 2, elements = 60_000 }}\n"
    ))
}

fn sums_are_exact(args: &[&str], protocol: &str, faults: &str) {
    let file = job(protocol, faults);
    let name = file.name();
    let output = succeed(&[&["run", &name, "--switch-threads", "3"], args].concat());
    assert!(output.contains("compared with sums computed separately: all equal"), "{output}");
}

#[test]
fn sums_are_exact_in_memory() {
    for protocol in ["atp", "esa", "p4inc", "switchml"] {
        sums_are_exact(&[], protocol, "");
        sums_are_exact(&[], protocol, FAULTS);
    }
}

/// Between two switches, each thread of one has a link to a thread of the other.
#[test]
fn sums_are_exact_over_two_switches() {
    for example in ["examples/two-racks.toml", "examples/esa-two-racks.toml"] {
        let output = succeed(&["run", example, "--switch-threads", "2"]);
        assert!(output.contains("all equal"), "{output}");
    }
}

#[test]
fn sums_are_exact_with_every_packet_io() {
    if !namespaces() {
        return;
    }
    for (io, protocol) in
        [("packet", "atp"), ("gso", "p4inc"), ("udp", "switchml"), ("udp-gso", "esa")]
    {
        for faults in ["", FAULTS] {
            sums_are_exact(&["--fabric", "netns", "--io", io], protocol, faults);
        }
    }
}

#[test]
fn the_program_for_tofino_has_threads_too() {
    sums_are_exact(&["--arch", "tna"], "atp", FAULTS);
}

#[test]
fn what_has_no_threads_refuses_them() {
    let file = job("atp", "");
    let run =
        |more: &[&str]| fail(&[&["run", &file.name(), "--switch-threads", "2"], more].concat());
    let error = run(&["--fabric", "sim"]);
    assert!(error.contains("only embedded switches in real time have threads"), "{error}");
    let error = run(&["--fabric", "netns", "--io", "xdp"]);
    assert!(
        error.contains("share a port's frames with --io packet, gso, udp or udp-gso"),
        "{error}"
    );
    let error = fail(&["switch", "--port", "1@lo", "--io", "xdp", "--threads", "2"]);
    assert_eq!(
        error,
        "error: --threads: several threads share the frames of a port with `packet` or `gso` only, \
         not with `xdp`"
    );
}
