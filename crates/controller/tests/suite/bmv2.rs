//! The controller against BMv2's `simple_switch_grpc`, where it and p4c are installed.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{self, Kit};
use tributary_controller::programs::{Pipeline, defines};
use tributary_p4runtime_proto::p4::config::v1::P4Info;
use tributary_p4runtime_proto::text;

struct Bmv2 {
    pipeline: Pipeline,
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Kit for Bmv2 {
    type Switch = Running;

    fn pipeline(&self) -> Pipeline {
        self.pipeline.clone()
    }

    fn start(&self, port: u16) -> Running {
        let child = Command::new("simple_switch_grpc")
            .args(["--device-id", "1", "--no-p4", "--log-level", "off"])
            .args(["--", "--cpu-port", "510", "--grpc-server-addr"])
            .arg(format!("127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let start = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < Duration::from_secs(20), "BMv2 does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Running(child)
    }
}

/// A switch with `atp.p4`, if the tools are installed.
fn bmv2() -> Option<Bmv2> {
    running("atp")
}

/// A switch with a program, if the tools are installed.
fn running(program: &str) -> Option<Bmv2> {
    for tool in ["simple_switch_grpc", "p4c-bm2-ss"] {
        let found = std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|at| at.join(tool).is_file()));
        if !found {
            println!("skipped: {tool} not found");
            return None;
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("program.json");
    let info = directory.path().join("program.txtpb");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4src/v1model");
    let mut command = Command::new("p4c-bm2-ss");
    command.args(["--std", "p4-16", "-o"]).arg(&json).arg("--p4runtime-files").arg(&info);
    for (name, value) in defines(&support::scenario().switch) {
        command.arg(format!("-D{name}={value}"));
    }
    let output = command.arg(sources.join(format!("{program}.p4"))).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let info = std::fs::read_to_string(info).unwrap();
    let p4info: P4Info = text::from_text(&info).unwrap();
    let device_config = std::fs::read(json).unwrap();
    Some(Bmv2 { pipeline: Pipeline { p4info, device_config } })
}

macro_rules! cases {
    ($($case:ident),* $(,)?) => {$(
        #[tokio::test]
        async fn $case() {
            if let Some(kit) = bmv2() {
                support::$case(&kit).await;
            }
        }
    )*};
}

cases! {
    a_job_comes_and_goes,
    a_restarted_switch_gets_everything_back,
    changes_reach_a_switch_that_was_away,
    a_new_controller_reconciles,
    a_second_controller_is_told,
    bad_switches_are_named,
    a_failed_admission_leaves_nothing,
}

#[tokio::test]
async fn an_esa_job_comes_and_goes() {
    if let Some(kit) = running("esa") {
        support::an_esa_job_comes_and_goes(&kit).await;
    }
}

#[tokio::test]
async fn p4inc_jobs_come_move_and_go() {
    if let Some(kit) = running("p4inc") {
        support::p4inc_jobs_come_move_and_go(&kit).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admission_is_whole_wherever_it_breaks() {
    if let Some(kit) = bmv2() {
        support::failures::an_admission_is_whole_wherever_it_breaks(&kit).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_falls_silent() {
    if let Some(kit) = bmv2() {
        support::failures::a_switch_that_falls_silent(&kit).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stray_hand_is_undone() {
    if let Some(kit) = bmv2() {
        support::failures::a_stray_hand_is_undone(&kit).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_program_under_our_cookie() {
    if let (Some(kit), Some(esa)) = (bmv2(), running("esa")) {
        support::failures::another_program_under_our_cookie(&kit, esa.pipeline).await;
    }
}
