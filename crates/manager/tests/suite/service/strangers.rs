//! The manager's client against the real controller with an embedded switch: jobs that the
//! scheduler serves and the manager has not recorded.

use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::Request;
use tributary_access::Grant;
use tributary_api::jobs::v1::jobs_server::JobsServer;
use tributary_api::jobs::v1::{self, AdmitRequest};
use tributary_controller::client::{SwitchConfig, Target};
use tributary_controller::jobs::Controller;
use tributary_controller::programs::{Source, compile, defines};
use tributary_controller::service::Jobs;
use tributary_manager::database::Redb;
use tributary_manager::manager::Settings;
use tributary_manager::shell::{Input, Shell, View};
use tributary_manager::site::Site;
use tributary_model::Deployment;
use tributary_netio::memory::{self, MemoryPort};
use tributary_switch::runtime::{self, SwitchHandle};
use tributary_switch::server::{Listen, ServerHandle, Service};

use crate::first_fit::FirstFit;
use crate::service::{DEADLINE, NETWORK, SITE};

/// Time in which a loop between manager and scheduler would make thousands of calls.
const WHILE: Duration = Duration::from_secs(3);

/// Maximum number of calls in that time: one list per second, and one call per request.
const CALLS: usize = 12;

/// A manager without agents, and its controller. Fields are dropped in this order.
struct Setting {
    inputs: Sender<Input>,
    manager: Option<JoinHandle<()>>,
    jobs: Jobs,
    /// Number of calls so far.
    calls: Arc<Mutex<usize>>,
    runtime: Runtime,
    _server: ServerHandle,
    _switch: SwitchHandle,
    _cables: Vec<MemoryPort>,
    _directory: TempDir,
}

impl Setting {
    /// Admits `admitted` before the manager starts, as if by a manager that lost its database.
    fn start(admitted: &[u32]) -> Self {
        let runtime = crate::service::runtime();
        let directory = tempfile::tempdir().unwrap();
        let mut switch = runtime::Runtime::new(tributary_switch::SwitchConfig::default());
        let cables = (1..=3).map(|port| {
            let (near, far) = memory::pair();
            switch.add_port(port, Box::new(near), None);
            far
        });
        let cables = cables.collect();
        let (switch, packets_in) = switch.start().unwrap();
        let socket = directory.path().join("s1.sock");
        let service = Service::new(switch.control().clone(), packets_in);
        let server = ServerHandle::start(service, Listen::Unix(socket.clone())).unwrap();
        let target = Target::Address(format!("unix:{}", socket.display()));
        let network =
            tributary_model::jobfile::parse(&format!("{NETWORK}[[job]]\n"), "n.toml").unwrap();
        let source = Source::built_in("atp").unwrap();
        let pipeline = compile(&source, &defines(&network.network.switch)).unwrap().pipeline;
        let calls = Arc::<Mutex<usize>>::default();
        let counted = Arc::clone(&calls);
        let (jobs, address) = runtime.block_on(async {
            let configs = vec![SwitchConfig::new("s1", target)];
            let controller = Controller::connect(&network.network.topology, configs, &pipeline);
            let deployment = Deployment::unassigned(network.clone());
            let jobs = Jobs::new(controller.await.unwrap(), deployment);
            for &job in admitted {
                admit(&jobs, job).await;
            }
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let count = move |mut request: Request<()>| {
                request.extensions_mut().insert(Grant::operator());
                *counted.lock().unwrap() += 1;
                Ok(request)
            };
            let service = JobsServer::with_interceptor(jobs.clone(), count);
            let serving = tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(TcpListenerStream::new(listener));
            tokio::spawn(serving);
            (jobs, address)
        });
        let (inputs, manager) = manager(&runtime, &directory, address);
        Self {
            inputs,
            manager: Some(manager),
            jobs,
            calls,
            runtime,
            _server: server,
            _switch: switch,
            _cables: cables,
            _directory: directory,
        }
    }

    fn serving(&self) -> Vec<u16> {
        self.jobs.list().iter().map(|listed| listed.placement.job.get()).collect()
    }

    fn until(&self, serving: &[u16]) {
        let deadline = Instant::now() + DEADLINE;
        while self.serving() != serving {
            assert!(Instant::now() < deadline, "{:?}, not {serving:?}", self.serving());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Number of calls within [`WHILE`] from now.
    fn count(&self) -> usize {
        let before = *self.calls.lock().unwrap();
        std::thread::sleep(WHILE);
        *self.calls.lock().unwrap() - before
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        self.inputs.send(Input::End).unwrap();
        let ended = self.manager.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

/// Starts a manager with an empty database.
fn manager(
    runtime: &Runtime,
    directory: &TempDir,
    scheduler: SocketAddr,
) -> (Sender<Input>, JoinHandle<()>) {
    let store = Redb::open(&directory.path().join("m.redb")).unwrap();
    let (view, _) = watch::channel(View::default());
    let (wishes, wanted) = tokio::sync::mpsc::unbounded_channel();
    let (inputs, incoming) = channel();
    let thread = std::thread::spawn(move || {
        let site = Site::parse(SITE, NETWORK).unwrap();
        let policy = Box::new(FirstFit);
        let settings = Settings::default();
        let mut shell = Shell::start(site, settings, policy, store, view, wishes).unwrap();
        shell.run(&incoming).unwrap();
    });
    let controller = super::remote(&scheduler.to_string());
    runtime.spawn(tributary_manager::switches::follow(controller, wanted, inputs.clone()));
    (inputs, thread)
}

async fn admit(jobs: &Jobs, job_id: u32) {
    let request = AdmitRequest {
        job_id,
        workers: vec!["w1".into(), "w2".into()],
        parameter_server: "ps".into(),
        aggregation: v1::Aggregation::Network.into(),
        size: 1,
        ..AdmitRequest::default()
    };
    let mut request = Request::new(request);
    request.extensions_mut().insert(Grant::operator());
    v1::jobs_server::Jobs::admit(jobs, request).await.unwrap();
}

#[test]
fn jobs_of_a_lost_database_are_released_once() {
    let setting = Setting::start(&[1, 9]);
    setting.until(&[]);
    let calls = setting.count();
    assert!(calls <= CALLS, "{calls} calls in {WHILE:?}");
}

#[test]
fn a_job_readmitted_by_another_client_is_left_alone() {
    let setting = Setting::start(&[9]);
    setting.until(&[]);
    setting.runtime.block_on(admit(&setting.jobs, 9));
    let calls = setting.count();
    assert!(calls <= CALLS, "{calls} calls in {WHILE:?}");
    assert_eq!(setting.serving(), [9]);
}
