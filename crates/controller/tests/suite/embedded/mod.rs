//! The controller against the embedded switch.

mod going_on;
mod journal;
mod leases;
mod many;
mod moves;
mod runs;
mod scheduler;
mod taking;
mod tenants;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::support::{self, Kit, free_port, gradient};
use tonic::transport::Endpoint;
use tributary_controller::client::{SwitchConfig, Target};
use tributary_controller::jobs::Controller;
use tributary_controller::outcomes::Outcome;
use tributary_controller::programs::{Pipeline, Source, compile, defines};
use tributary_controller::session::Session;
use tributary_model::jobfile::parse;
use tributary_model::{SwitchId, plan::Placement};
use tributary_netio::FrameIo;
use tributary_netio::memory::{self, MemoryPort};
use tributary_switch::runtime::{Runtime, SwitchHandle};
use tributary_switch::server::{self, Listen, ServerHandle};
use tributary_wire::agg::Packet;
use tributary_wire::{Bitmap, Kind};

struct Embedded {
    pipeline: Pipeline,
}

/// Fields are dropped in order: the server before its switch.
struct Running {
    _server: ServerHandle,
    _switch: SwitchHandle,
}

/// The far ends of the switch's cables, from port 1 up.
type Cables = Vec<MemoryPort>;

fn runtime() -> (Runtime, Cables) {
    runtime_with(8)
}

fn runtime_with(ports: u16) -> (Runtime, Cables) {
    let mut runtime = Runtime::new(tributary_switch::SwitchConfig::default());
    let cables = (1..=ports).map(|port| {
        let (near, far) = memory::pair();
        runtime.add_port(port, Box::new(near), None);
        far
    });
    let cables = cables.collect();
    (runtime, cables)
}

fn serve(runtime: Runtime, listen: Listen) -> Running {
    let (switch, packets_in) = runtime.start().unwrap();
    let service = server::Service::new(switch.control().clone(), packets_in);
    // The server creates a tokio runtime, which is not allowed inside the test's.
    let server = std::thread::spawn(|| ServerHandle::start(service, listen).unwrap());
    let server = server.join().unwrap();
    Running { _server: server, _switch: switch }
}

impl Kit for Embedded {
    type Switch = (Running, Cables);

    fn pipeline(&self) -> Pipeline {
        self.pipeline.clone()
    }

    fn start(&self, port: u16) -> (Running, Cables) {
        let (runtime, cables) = runtime();
        (serve(runtime, Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], port)))), cables)
    }
}

fn embedded() -> Embedded {
    running("atp")
}

fn kit(program: &str) -> Option<Embedded> {
    Some(running(program))
}

fn running(program: &str) -> Embedded {
    let defines = defines(&support::scenario().network.switch);
    let compiled = compile(&Source::built_in(program).unwrap(), &defines);
    Embedded { pipeline: compiled.unwrap_or_else(|error| panic!("{error}")).pipeline }
}

support::cases!(kit);

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_behind_a_unix_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s1.sock");
    let (runtime, _cables) = runtime();
    let _switch = serve(runtime, Listen::Unix(path.clone()));
    let config = SwitchConfig::new("s1", Target::Address(format!("unix:{}", path.display())));
    let session = Session::connect(config, embedded().pipeline, &[]).await.unwrap();
    assert!(session.health().is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_behind_a_channel_of_the_caller() {
    let port = free_port();
    let _switch = embedded().start(port);
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}")).unwrap();
    let config = SwitchConfig::new("s1", Target::Channel(endpoint.connect_lazy()));
    let session = Session::connect(config, embedded().pipeline, &[]).await.unwrap();
    assert!(session.health().is_ok());
}

/// After its removal, a job's aggregators are free and were counted; completed tasks were summed.
#[tokio::test(flavor = "multi_thread")]
async fn a_removed_job_leaves_no_aggregator() {
    let scenario = parse("[switch]\npool = 64\n[[job]]\nworkers = 2\n", "test").unwrap();
    let port = free_port();
    let (_switch, mut cables) = embedded().start(port);
    let kit = embedded();
    let config = vec![support::config("s1", port)];
    let controller =
        Controller::connect(&scenario.network.topology, config, &kit.pipeline).await.unwrap();
    let placement = Placement::unassigned(&scenario.jobs[0]);
    controller.admit(&placement).await.unwrap();

    // Task 0 is completed; tasks 1 to 5 have one contribution each and stay in the switch.
    let mut sum = Vec::new();
    for (worker, sequences) in [(0_u8, 0..6_u32), (1, 0..1)] {
        for sequence in sequences {
            let frame = gradient(&scenario, worker, sequence, sequence);
            assert!(cables[usize::from(worker)].send(&frame).unwrap());
        }
        cables[usize::from(worker)].flush().unwrap();
    }
    let start = Instant::now();
    while sum.is_empty() {
        assert!(start.elapsed() < Duration::from_secs(10), "the sum never comes");
        cables[2].wait(Some(Duration::from_millis(10))).unwrap();
        cables[2].receive(8, &mut |frame| sum.push(frame.to_vec())).unwrap();
    }
    let packet = Packet::new_checked(&sum[0]).unwrap();
    assert_eq!((packet.kind(), packet.bitmap()), (Kind::Gradient, Bitmap(3)));
    assert!(packet.values_i32().all(|value| value == 1 + 2));

    let switch = SwitchId(0);
    let outcomes = controller.outcomes(placement.job).await.unwrap()[&switch];
    assert_eq!(outcomes[Outcome::Absorbed].packets, 6);
    assert_eq!(outcomes[Outcome::Completed].packets, 1);
    assert_eq!(outcomes[Outcome::Completed].bytes, sum[0].len() as u64);
    // Task 0's aggregator waits for a result that never came.
    assert_eq!(controller.remove(placement.job).await.unwrap()[&switch], 6);

    // After admission under the same ID, no state of the removed job is left.
    controller.admit(&placement).await.unwrap();
    let outcomes = controller.outcomes(placement.job).await.unwrap()[&switch];
    assert!(outcomes.iter().all(|(_, count)| count.packets == 0));
    assert_eq!(controller.remove(placement.job).await.unwrap()[&switch], 0);
}

/// A server that accepts connections and never answers times out and is named.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let config = SwitchConfig {
        request_timeout: Duration::from_millis(300),
        ..SwitchConfig::new("s1", Target::Address(address.to_string()))
    };
    let start = Instant::now();
    let connected = Session::connect(config, embedded().pipeline, &[]).await;
    let error = connected.unwrap_err().to_string();
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert!(error.starts_with("switch s1: ") && error.contains("300ms"), "{error}");
}
