//! Endless input and excessive numbers are refused in one line, at once, in little memory.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::command::{JobFile, failure, namespaces, root, succeed, text, tributary};

/// Time limit of a refusal on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// Limit of the address space in KiB: the program, and what its threads reserve.
const MEMORY_KIB: u32 = 4 << 20;

const JOB: &str = "[topology]\nkind = \"star\"\nworkers = 2\n[[job]]\n";

/// Runs the command with limited memory and time.
fn bounded(args: &[&str]) -> Output {
    let command = tributary(args);
    let script = format!("ulimit -v {MEMORY_KIB}; exec timeout {} \"$@\"", SOON.as_secs());
    let mut bounded = Command::new("bash");
    bounded.args(["-c", &script, "bash"]).arg(command.get_program()).args(command.get_args());
    bounded.current_dir(root()).stdin(Stdio::null()).output().unwrap()
}

/// The error line of a refusal.
fn refused(args: &[&str]) -> String {
    failure(args, &bounded(args))
}

fn job_file(more: &str) -> JobFile {
    JobFile::new(&format!("{JOB}{more}"))
}

#[test]
fn endless_files_are_refused() {
    let job = job_file("workload = { kind = \"random\", tensors = 1, elements = 10 }\n");
    let name = job.name();
    let zero = "/dev/zero".to_owned();
    let site = job.path("site.toml").display().to_string();
    fs::write(&site, "network = \"/dev/zero\"\n[[server]]\nhost = \"w1\"\ngpus = 1\n").unwrap();
    let more_than = |limit: &str| format!("it has more than {limit}, and a");
    let [mib4, mib64] = ["4.0 MiB", "64.0 MiB"].map(more_than);
    let program = "p4src/v1model/atp.p4";
    let switch = "s1=127.0.0.1:1";
    for (args, said) in [
        (&["run", &zero][..], mib4.as_str()),
        (&["network", &zero], &mib4),
        (&["controller", &zero, "--switch", switch], &mib4),
        (&["place", "serve", &zero], &mib4),
        (&["place", "serve", &site], &mib4),
        (&["lab", "place", "--cluster", &zero], &mib4),
        (&["lab", "place", "--models", &zero], &mib4),
        (&["lab", "place", "--trace", &zero], "a line is longer than 1 MB"),
        (&["p4", "check", &zero], "it is not a regular file, and a P4 source file must be one"),
        (&["run", &name, "--p4", &zero], "it is not a regular file"),
        (&["controller", &name, "--switch", switch, "--ports", &zero], &mib4),
    ] {
        let line = refused(args);
        assert!(line.contains("/dev/zero") && line.contains(said), "{args:?}: {line}");
    }
    let identity = job.path("identity");
    fs::create_dir(&identity).unwrap();
    for file in ["ca.pem", "cert.pem", "key.pem"] {
        symlink("/dev/zero", identity.join(file)).unwrap();
    }
    let identity = identity.display().to_string();
    for args in [
        &["controller", &name, "--switch", switch, "--identity", &identity][..],
        &["switch", "--port", "1@lo", "--identity", &identity],
    ] {
        let line = refused(args);
        assert!(line.contains(&identity) && line.contains(&mib4), "{args:?}: {line}");
    }
    let output = bounded(&["p4", "stf", program, &zero]);
    let said = text(&output.stdout);
    assert!(said.starts_with("FAIL: cannot read /dev/zero: ") && said.contains(&mib64), "{said}");
}

#[test]
fn pipes_are_read() {
    let job = job_file("workload = { kind = \"random\", tensors = 1, elements = 10 }\n");
    let mut command = tributary(&["network", "/dev/stdin"]);
    let output = command.stdin(File::open(job.path("job.toml")).unwrap()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let pipe =
        format!("cat {} | {} network /dev/stdin", job.name(), env!("CARGO_BIN_EXE_tributary"));
    let output = Command::new("bash").args(["-c", &pipe]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn tensors_larger_than_memory_are_refused() {
    for (workload, said) in [
        ("bytes = \"16GB\", tensors = 1", "with tensors of 14.9 GiB each"),
        ("elements = 4294967296, tensors = 1", "with tensors of 16.0 GiB each"),
    ] {
        let job = job_file(&format!("workload = {{ kind = \"random\", {workload} }}\n"));
        for args in [&["run", &job.name()][..], &["run", &job.name(), "--fabric", "netns"]] {
            let line = refused(args);
            assert!(line.contains(said) && line.contains("are available"), "{args:?}: {line}");
        }
    }
    // Large sparse files.
    let job = job_file(
        "workload = { kind = \"files\", inputs = [\"a.npy\", \"b.npy\"], output_dir = \"out\" }\n",
    );
    for name in ["a.npy", "b.npy"] {
        File::create(job.path(name)).unwrap().set_len(1 << 40).unwrap();
    }
    let line = refused(&["run", &job.name()]);
    assert!(line.contains("with tensors of 1.0 TiB each"), "{line}");
    assert!(!job.path("out").exists());
    for name in ["a.npy", "b.npy"] {
        fs::remove_file(job.path(name)).unwrap();
        std::os::unix::fs::symlink("/dev/zero", job.path(name)).unwrap();
    }
    let line = refused(&["run", &job.name()]);
    assert!(line.contains("a.npy"), "{line}");
}

#[test]
fn more_jobs_than_can_be_simulated_are_refused() {
    let line = refused(&["lab", "place", "--jobs", "99999999999"]);
    assert!(line.contains("--jobs 99999999999: a trace may have at most 10000000"), "{line}");
    let line = refused(&["lab", "place", "--jobs", "1000000", "--seeds", "99999999999"]);
    assert!(line.contains("lower --jobs or --seeds"), "{line}");
    let line = refused(&["lab", "place", "figures", "netpack", "--testbed-jobs", "99999999999"]);
    assert!(line.contains("at most 10000000"), "{line}");
}

/// A program without a table, for tests of other features.
const PROGRAM: &str = "#include <core.p4>\n#include <v1model.p4>\nstruct h_t {}\nstruct m_t {}\n\
    parser P(packet_in b, out h_t h, inout m_t m, inout standard_metadata_t s) {\n\
    state start { transition accept; } }\n\
    control V(inout h_t h, inout m_t m) { apply {} }\n\
    control I(inout h_t h, inout m_t m, inout standard_metadata_t s) {\n\
    apply { s.egress_spec = 1; } }\n\
    control E(inout h_t h, inout m_t m, inout standard_metadata_t s) { apply {} }\n\
    control C(inout h_t h, inout m_t m) { apply {} }\n\
    control D(packet_out b, in h_t h) { apply {} }\n\
    V1Switch(P(), V(), I(), E(), C(), D()) main;\n";

#[test]
fn a_long_line_of_a_packet_test_is_read_in_time() {
    let file = JobFile::new("");
    let (program, script) = (file.path("pass.p4"), file.path("long.stf"));
    fs::write(&program, PROGRAM).unwrap();
    let [program, name] = [&program, &script].map(|path| path.display().to_string());
    // One packet written byte by byte, in a line of 10 MB.
    let bytes = "00 ".repeat(10_000_000 / 3);
    fs::write(&script, format!("packet 0 {bytes}zz\n")).unwrap();
    let begin = Instant::now();
    let output = bounded(&["p4", "stf", &program, &name]);
    let said = text(&output.stdout);
    assert!(said.starts_with("FAIL: ") && said.contains("long.stf:1:"), "{said} {output:?}");
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    // A word as long as the line is abbreviated in the error.
    fs::write(&script, format!("packet 0 {}\n", "x".repeat(10_000_000))).unwrap();
    let said = text(&bounded(&["p4", "stf", &program, &name]).stdout);
    assert!(said.starts_with("FAIL: ") && said.len() < 1_000, "{} characters", said.len());
}

#[test]
fn a_trace_with_a_group_for_each_job_is_read_in_time() {
    let file = JobFile::new("");
    let trace = file.path("trace.csv");
    let rows: String = (0..200_000).map(|job| format!("0,60,1,group {job}\n")).collect();
    fs::write(&trace, format!("submit_s,duration_s,gpus,group\n{rows}")).unwrap();
    let trace = trace.display().to_string();
    let begin = Instant::now();
    succeed(&["lab", "place", "--trace", &trace, "--jobs", "10", "--policy", "netpack"]);
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
}

/// What an error asks for suffices.
#[test]
fn limits_that_are_asked_for_suffice() {
    let job = job_file("workload = { kind = \"random\", tensors = 1, elements = 10 }\n");
    let name = job.name();
    let mut cases = vec![
        ("-v", "150000", vec!["run", &name]),
        ("-v", "150000", vec!["p4", "check", "p4src/v1model/atp.p4"]),
    ];
    if namespaces() {
        cases.push(("-n", "32", vec!["run", &name, "--fabric", "netns"]));
    }
    for (flag, low, args) in cases {
        let limited = |limit: &str| {
            let command = tributary(&args);
            let mut limited = Command::new("bash");
            limited.args(["-c", &format!("ulimit {flag} {limit}; exec \"$@\""), "bash"]);
            limited.arg(command.get_program()).args(command.get_args()).current_dir(root());
            limited.stdin(Stdio::null()).output().unwrap()
        };
        let refused = limited(low);
        let line = failure(&args, &refused);
        assert_eq!(text(&refused.stderr).lines().count(), 1, "{args:?}: {line}");
        let (_, asked) = line.rsplit_once(&format!("`ulimit {flag} ")).unwrap();
        let output = limited(asked.trim_end_matches('`'));
        assert!(output.status.success(), "{args:?}: {line} {}", text(&output.stderr));
    }
}

/// Sockets need short paths in UTF-8, and files do not.
#[test]
fn long_paths_and_paths_that_are_not_utf_8_are_used() {
    if !namespaces() {
        return;
    }
    let job = job_file("workload = { kind = \"random\", tensors = 1, elements = 10 }\n");
    for name in [OsString::from("x".repeat(180)), OsString::from_vec(b"not \xff UTF-8".into())] {
        let directory = job.path("in").join(name);
        fs::create_dir_all(&directory).unwrap();
        let file = directory.join("job.toml");
        let faults = fs::read_to_string(job.path("job.toml")).unwrap() + "[faults]\nloss = 0.01\n";
        fs::write(&file, faults).unwrap();
        let mut run = tributary(&["run", "--fabric", "netns"]);
        let output = run.arg(&file).env("TMPDIR", &directory).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "nothing stays");
    }
}

/// A directory in which even root may not write: a file's path, or the kernel's.
#[test]
fn an_output_directory_that_takes_no_files_is_noticed_before_the_work() {
    let job = job_file(
        "workload = { kind = \"files\", inputs = [\"a.npy\", \"b.npy\"], output_dir = \"out\" }\n",
    );
    // Invalid inputs, which are not even read.
    for name in ["a.npy", "b.npy"] {
        fs::write(job.path(name), "no tensor").unwrap();
    }
    fs::write(job.path("out"), "a file").unwrap();
    let line = refused(&["run", &job.name()]);
    assert!(line.contains("cannot write to the output directory"), "{line}");
    fs::remove_file(job.path("out")).unwrap();
    std::os::unix::fs::symlink("/proc/self/net", job.path("out")).unwrap();
    let line = refused(&["run", &job.name()]);
    assert!(line.contains("cannot write to the output directory"), "{line}");
    let out = job.path("out").display().to_string();
    for args in [
        &["lab", "place", "--out", &out][..],
        &["lab", "place", "figures", "titan", "--quick", "--out", &out],
        &["p4", "graph", "p4src/v1model/atp.p4", "--out", &out],
        &["lab", "place", "--json-out", "/proc/self/net/measures.json"],
        &["lab", "bench", "esa", "--plots", &out],
        &["controller", "push", &job.name(), "--dry-run", "--p4", "none.p4", "--save", &out],
    ] {
        let begin = Instant::now();
        let line = refused(args);
        assert!(line.contains("cannot write"), "{args:?}: {line}");
        assert!(begin.elapsed() < SOON);
    }
    read_only(&job.path("none"));
}

/// The same for a directory without write permission, which binds every user but root.
fn read_only(directory: &Path) {
    fs::create_dir(directory).unwrap();
    fs::set_permissions(directory, fs::Permissions::from_mode(0o555)).unwrap();
    if File::create(directory.join("probe")).is_ok() {
        println!("skipped: nothing is read-only for this user");
        return;
    }
    let line = refused(&["lab", "place", "--out", &directory.display().to_string()]);
    assert!(line.contains("Permission denied"), "{line}");
}

#[test]
fn limits_of_the_shell_are_named() {
    let limited = |limit: &str, args: &[&str]| {
        let command = tributary(args);
        let mut limited = Command::new("bash");
        limited.args(["-c", &format!("ulimit {limit}; exec \"$@\""), "bash"]);
        limited.arg(command.get_program()).args(command.get_args()).current_dir(root());
        failure(args, &limited.stdin(Stdio::null()).output().unwrap())
    };
    let line = limited("-n 9", &["switch", "--port", "1@lo"]);
    assert!(line.contains("ulimit -n 32"), "{line}");
    // A thread of the compiler alone needs more.
    let line = limited("-v 150000", &["switch", "--port", "1@lo"]);
    assert!(line.contains("the limit of address space is 146.5 MiB, and"), "{line}");
    let job = job_file("workload = { kind = \"random\", tensors = 1, elements = 10 }\n");
    let report = job.path("report.json");
    let line = limited("-f 0", &["run", &job.name(), "--json-out", &report.display().to_string()]);
    assert!(line.contains("File too large"), "{line}");
}
