//! The controller against BMv2's `simple_switch_grpc`, where it and p4c are installed.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{self, Kit};
use tributary_controller::programs::{Pipeline, defines};
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::text;

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

/// A switch with a program, if the tools are installed.
fn running(program: &str) -> Option<Bmv2> {
    for tool in ["simple_switch_grpc", "p4c-bm2-ss"] {
        if tributary_base::programs::on_path(tool).is_none() {
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
    for (name, value) in defines(&support::scenario().network.switch) {
        command.arg(format!("-D{name}={value}"));
    }
    let output = command.arg(sources.join(format!("{program}.p4"))).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let info = std::fs::read_to_string(info).unwrap();
    let p4info: P4Info = text::from_text(&info).unwrap();
    let device_config = std::fs::read(json).unwrap();
    Some(Bmv2 { pipeline: Pipeline { p4info, device_config } })
}

support::cases!(running);
