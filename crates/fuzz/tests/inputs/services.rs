//! Requests of our gRPC services, as bytes of HTTP bodies: jobs, placement manager, cross-connect.
//!
//! The servers are real, with switches in this process. They live as long as the test: after each input its jobs are
//! removed.

use std::convert::Infallible;
use std::num::{NonZeroU8, NonZeroU64};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use tonic::body::Body;
use tonic::service::Routes;
use tower::ServiceExt as _;
use tributary_access::{Caller, Grant, Role, Tenant};
use tributary_api::placement::v1::placement_manager_server::PlacementManagerServer;
use tributary_controller::client::{SwitchConfig, Target};
use tributary_controller::jobs::Controller;
use tributary_controller::programs::{self, Pipeline, Source};
use tributary_controller::service::{Jobs, Known};
use tributary_manager::durable::{Change, Durable, Store};
use tributary_manager::manager::Settings;
use tributary_manager::service::Service;
use tributary_manager::shell::{Input, Shell, View};
use tributary_manager::site::Site;
use tributary_model::{Deployment, Scenario};
use tributary_netio::{FrameIo, memory};
use tributary_optical::crossconnect::emulated::{self, Control, Mirrors, Plane};
use tributary_switch::runtime::SwitchHandle;
use tributary_switch::server::{self, ServerHandle};

use crate::bounds::{MIB, Turn};
use crate::reader::Reader;

/// All methods, by the services that have them.
const METHODS: [&str; 16] = [
    "tributary.jobs.v1.Jobs/Admit",
    "tributary.jobs.v1.Jobs/Release",
    "tributary.jobs.v1.Jobs/Move",
    "tributary.jobs.v1.Jobs/SetRate",
    "tributary.jobs.v1.Jobs/StartIteration",
    "tributary.jobs.v1.Jobs/FinishIteration",
    "tributary.jobs.v1.Jobs/Watch",
    "tributary.jobs.v1.Jobs/List",
    "tributary.placement.v1.PlacementManager/Submit",
    "tributary.placement.v1.PlacementManager/Cancel",
    "tributary.placement.v1.PlacementManager/Watch",
    "tributary.placement.v1.PlacementManager/Agent",
    "tributary.crossconnect.v1.CrossConnect/Read",
    "tributary.crossconnect.v1.CrossConnect/Change",
    "tributary.jobs.v1.Jobs/Take",
    "tributary.placement.v1.PlacementManager/Explain",
];

/// Most memory for one input: buffers of connections, and switches that sweep.
const MEMORY: usize = 64 * MIB;

/// Most requests of an input.
const REQUESTS: usize = 16;

/// Time in which each call must be answered, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time for the first message of a stream, which may have none.
const FIRST: Duration = Duration::from_millis(20);

const NETWORK: &str = "protocol = \"p4inc\"\n[topology]\nracks = 1\nhosts_per_rack = 3\nps_hosts = 1\n\
     [switch]\npool = 64\n[[job]]\nworkers = 2\n";

/// The manager places jobs of ATP.
const MANAGED: &str =
    "[topology]\nracks = 1\nhosts_per_rack = 3\nps_hosts = 1\n[[job]]\nworkers = 2\n";

const SITE: &str = "network = \"network.toml\"\n[[server]]\nhost = \"w1\"\ngpus = 2\n[[server]]\nhost = \"w2\"\ngpus = 2\n";

/// Fields are dropped in order: servers before their switches.
struct Servers {
    runtime: Runtime,
    clients: Jobs,
    routes: Routes,
    manager: Sender<Input>,
    jobs: watch::Receiver<View>,
    _switches: Vec<(ServerHandle, SwitchHandle)>,
    _directory: tempfile::TempDir,
}

impl Servers {
    fn start() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let pipeline = pipeline();
        let scenario = scenario();
        let known = Deployment::new(scenario.clone()).unwrap().placement(0);
        let mut switches = Vec::new();
        let mut controller = |name: &str| {
            let path = directory.path().join(name);
            switches.push(switch(&path));
            let config =
                SwitchConfig::new("s1", Target::Address(format!("unix:{}", path.display())));
            let connecting =
                Controller::connect(&scenario.network.topology, vec![config], &pipeline);
            runtime.block_on(connecting).unwrap()
        };
        let network = controller("network");
        // The second job is for clients.
        runtime.block_on(network.admit(&known)).unwrap();
        let site = Some(Arc::new(tributary_model::jobfile::Site::of(NETWORK, "fuzz").unwrap()));
        let known = Known { site, ..Deployment::new(scenario.clone()).unwrap().into() };
        let clients = Jobs::new(network, known);
        let (manager, jobs) = manager();
        let placement = PlacementManagerServer::new(Service::new(manager.clone(), jobs.clone()));
        let routes = runtime.block_on(async { clients.service() });
        let routes = routes.add_service(placement).add_service(emulated::service(crossconnect()));
        let (_switches, _directory) = (switches, directory);
        Self { runtime, clients, routes, manager, jobs, _switches, _directory }
    }

    /// Sends one request. Methods answer in time, also those that answer with a stream.
    async fn call(&self, method: &str, grant: Grant, body: Vec<u8>) {
        let request = http::Request::post(format!("http://fuzz/{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .extension(grant)
            .body(Body::new(Full::new(Bytes::from(body))))
            .expect("a request of HTTP");
        let answer = timeout(PATIENCE, self.routes.clone().oneshot(request)).await;
        let answer = answer.unwrap_or_else(|_| panic!("{method} does not answer"));
        let mut body = answer.unwrap_or_else(|never: Infallible| match never {}).into_body();
        drop(timeout(FIRST, body.frame()).await);
    }

    /// Ends all jobs.
    async fn clear(&self) {
        for listed in self.clients.list() {
            let released = self.clients.release(listed.placement.job).await;
            released.unwrap_or_else(|refusal| panic!("{refusal}"));
        }
        let jobs: Vec<u32> = self.jobs.borrow().jobs.keys().copied().collect();
        for job in jobs {
            let (answer, answered) = oneshot::channel();
            self.manager.send(Input::Cancel(job, answer)).expect("the manager runs");
            // It may be over already.
            drop(answered.await);
        }
    }
}

fn scenario() -> Scenario {
    tributary_model::jobfile::parse(NETWORK, "fuzz").unwrap_or_else(|error| panic!("{error}"))
}

fn pipeline() -> Pipeline {
    let source = Source::built_in("p4inc").expect("a program of ours");
    let compiled = programs::compile(&source, &programs::defines(&scenario().network.switch));
    compiled.unwrap_or_else(|error| panic!("{error}")).pipeline
}

/// A switch that serves P4Runtime at this path.
fn switch(path: &Path) -> (ServerHandle, SwitchHandle) {
    let mut runtime =
        tributary_switch::runtime::Runtime::new(tributary_switch::SwitchConfig::default());
    for port in 1..=8 {
        runtime.add_port(port, Box::new(memory::pair().0), None);
    }
    let (switch, packets_in) = runtime.start().unwrap();
    let service = server::Service::new(switch.control().clone(), packets_in);
    (ServerHandle::start(service, server::Listen::Unix(path.to_owned())).unwrap(), switch)
}

/// A manager without agents, on a thread that ends with the process.
fn manager() -> (Sender<Input>, watch::Receiver<View>) {
    let (view, jobs) = watch::channel(View::default());
    let (inputs, incoming) = channel();
    std::thread::spawn(move || {
        let site = Site::parse(SITE, MANAGED).unwrap();
        let settings = Settings { kept: 8, ..Settings::default() };
        let policy = tributary_cluster::placement::by_name("netpack").expect("there is one");
        // Without agents, nothing is admitted to switches.
        let (switches, _wishes) = mpsc::unbounded_channel();
        let mut shell = Shell::start(site, settings, policy, Forgetful, view, switches).unwrap();
        shell.run(&incoming).unwrap();
    });
    (inputs, jobs)
}

/// A database that is empty at the start and takes everything.
struct Forgetful;

impl Store for Forgetful {
    type Error = Infallible;

    fn load(&self) -> Result<Durable, Infallible> {
        Ok(Durable::default())
    }

    fn commit(&mut self, _: &[Change]) -> Result<(), Infallible> {
        Ok(())
    }
}

/// A cross-connect of four ports, on a thread that ends with the process.
fn crossconnect() -> Control {
    let ports = (1..=4).map(|port| {
        let io: Box<dyn FrameIo> = Box::new(memory::pair().0);
        (format!("port{port}"), io)
    });
    let (plane, control) = Plane::new(Mirrors::new(4, Duration::ZERO), ports.collect());
    std::thread::spawn(move || plane.run(&AtomicBool::new(false)));
    control
}

/// Someone who may do everything, a tenant, someone who may only look, an agent.
fn grant(kind: usize) -> Grant {
    let tenant = || {
        Arc::new(Tenant {
            name: "blue".into(),
            jobs: Some(2),
            aggregators: Some(16),
            max_rate: NonZeroU64::new(1_000_000_000),
            max_preemption: NonZeroU64::new(1_000_000),
            max_priority: NonZeroU8::new(100),
            max_value: Some(2.0),
        })
    };
    match kind {
        0 => Grant::operator(),
        1 => Grant::new(Caller::Anyone, Role::Submit, Some(tenant())),
        2 => Grant::new(Caller::Anyone, Role::Observe, None),
        _ => Grant::new(Caller::Certified(Arc::new(["w1".into()])), Role::Agent, None),
    }
}

#[test]
fn requests() {
    let turn = Turn::wait();
    // A panic ends the test, so nobody sees what it left.
    let servers = AssertUnwindSafe(Servers::start());
    bolero::check!().for_each(|input: &[u8]| {
        let mut input = Reader::new(input);
        turn.bounded(MEMORY, || {
            servers.runtime.block_on(async {
                for _ in 0..REQUESTS {
                    if input.is_empty() {
                        break;
                    }
                    let method = METHODS[input.index(METHODS.len())];
                    let kind = input.byte();
                    let bytes = input.string();
                    // One in eight is no message, but what is where messages should be.
                    let body = match kind & 0x1c {
                        0x1c => bytes.to_vec(),
                        _ => [&[0], &(bytes.len() as u32).to_be_bytes()[..], bytes].concat(),
                    };
                    servers.call(method, grant(usize::from(kind % 4)), body).await;
                }
                servers.clear().await;
            });
        });
    });
}
