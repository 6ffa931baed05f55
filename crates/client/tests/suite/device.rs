//! A switch in this process, and commands to it.

use std::future::pending;
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Runtime as Tokio;
use tributary_client::{Error, Report, Session, words};
use tributary_controller::client::{SwitchConfig, Target};
use tributary_netio::memory;
use tributary_switch::runtime::{Runtime, SwitchHandle};
use tributary_switch::server::{Listen, ServerHandle, Service};
use tributary_switch::{Forwarding, SwitchConfig as Settings};

pub(crate) const TABLES: &str = include_str!("../../../switch/tests/switch/programs/tables.p4");
pub(crate) const FEATURES: &str = include_str!("../../../switch/tests/switch/programs/features.p4");
pub(crate) const NAMES: &str = include_str!("../../../switch/tests/switch/programs/names.p4");
pub(crate) const PSA: &str = include_str!("../../../switch/tests/switch/programs/psa.p4");
pub(crate) const STRUCTS: &str = include_str!("../../../switch/tests/switch/programs/structs.p4");

/// A running switch with memory ports 1 and 2, and a session with it.
pub(crate) struct Device {
    pub(crate) session: Session,
    pub(crate) ports: Vec<memory::MemoryPort>,
    pub(crate) tokio: Tokio,
    _switch: SwitchHandle,
    _server: ServerHandle,
    pub(crate) directory: tempfile::TempDir,
}

impl Device {
    /// A switch that runs a program, if there is one.
    pub(crate) fn new(program: Option<&str>) -> Self {
        let mut runtime = Runtime::new(Settings::default());
        let mut ports = Vec::new();
        for port in 1..=2 {
            let (near, far) = memory::link(64, runtime.waker(), &Default::default());
            runtime.add_port(port, Box::new(near), None);
            ports.push(far);
        }
        let (switch, packets_in) = runtime.start().unwrap();
        if let Some(source) = program {
            let forwarding = Forwarding::from_source(source).unwrap();
            switch.control().call(|switch, _| switch.commit(forwarding)).unwrap();
        }
        let service = Service::new(switch.control().clone(), packets_in);
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("p4runtime.sock");
        let server = ServerHandle::start(service, Listen::Unix(socket.clone())).unwrap();
        let tokio = tokio::runtime::Builder::new_multi_thread();
        let tokio = { tokio }.worker_threads(1).enable_all().build().unwrap();
        let session = tokio.block_on(Session::connect(config(&socket.display().to_string(), 1)));
        let session = session.unwrap();
        Self { session, ports, tokio, _switch: switch, _server: server, directory }
    }

    /// Another session with the same switch, perhaps in a role.
    pub(crate) fn other(&self, election_id: u128, role: Option<&str>) -> Session {
        let socket = self.directory.path().join("p4runtime.sock");
        let config = config(&socket.display().to_string(), election_id);
        let config = SwitchConfig { role: role.map(str::to_owned), ..config };
        self.tokio.block_on(Session::connect(config)).unwrap()
    }

    /// Carries out a command; its text and JSON documents.
    pub(crate) fn try_run(&mut self, line: &str) -> Result<(String, Vec<Value>), Error> {
        let (mut text, mut json) = (Vec::new(), Vec::new());
        let words = words::split(line)?;
        let mut print = |report: &Report| {
            text.push(report.text(Some(200)));
            json.push(report.json().clone());
        };
        let run = tributary_client::run(&mut self.session, &words, pending(), &mut print);
        self.tokio.block_on(run)?;
        Ok((text.join("\n"), json))
    }

    /// The text of a command, which must succeed.
    pub(crate) fn run(&mut self, line: &str) -> String {
        self.try_run(line).unwrap_or_else(|error| panic!("{line}: {error}")).0
    }

    /// The JSON of a command, which must succeed.
    pub(crate) fn json(&mut self, line: &str) -> Value {
        self.try_run(line).unwrap_or_else(|error| panic!("{line}: {error}")).1.remove(0)
    }

    /// The error of a command, which must fail with one line.
    pub(crate) fn fail(&mut self, line: &str) -> String {
        let error = self.try_run(line).expect_err(line).to_string();
        assert!(!error.contains('\n'), "{line}: {error}");
        error
    }
}

fn config(socket: &str, election_id: u128) -> SwitchConfig {
    let target = Target::Address(format!("unix:{socket}"));
    SwitchConfig {
        election_id,
        request_timeout: Duration::from_secs(5),
        ..SwitchConfig::new("s1", target)
    }
}
