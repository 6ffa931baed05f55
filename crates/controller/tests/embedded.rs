//! The controller against the embedded switch.

mod support;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use support::{Kit, free_port, gradient};
use tonic::transport::Endpoint;
use tributary_controller::client::{SwitchConfig, Target};
use tributary_controller::jobs::Controller;
use tributary_controller::outcomes::Outcome;
use tributary_controller::plan::Placement;
use tributary_controller::programs::{Pipeline, Source, compile, defines};
use tributary_controller::session::Session;
use tributary_jobfile::{Aggregation, Scenario, SwitchId, parse};
use tributary_netio::FrameIo;
use tributary_netio::memory::{self, MemoryPort};
use tributary_protocol::{Assignment, Mode};
use tributary_switch::runtime::{Runtime, SwitchHandle};
use tributary_switch::server::{self, Listen, ServerHandle};
use tributary_wire::agg::{OFFSET, Packet, field};
use tributary_wire::{Bitmap, Kind, Protocol, Round, Service};

struct Embedded {
    pipeline: Pipeline,
}

/// The server goes before the switch that it serves.
struct Running {
    _server: ServerHandle,
    _switch: SwitchHandle,
}

/// The far ends of the cables in a switch's ports, from port 1 up.
type Cables = Vec<MemoryPort>;

fn runtime() -> (Runtime, Cables) {
    let mut runtime = Runtime::new(tributary_switch::SwitchConfig::default());
    let cables = (1..=5).map(|port| {
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
    // The server brings a tokio runtime of its own, which cannot start within the test's.
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

fn running(program: &str) -> Embedded {
    let defines = defines(&support::scenario().switch);
    let compiled = compile(&Source::built_in(program).unwrap(), &defines);
    Embedded { pipeline: compiled.unwrap_or_else(|error| panic!("{error}")).pipeline }
}

macro_rules! cases {
    ($($case:ident),* $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $case() {
            support::$case(&embedded()).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn an_esa_job_comes_and_goes() {
    support::an_esa_job_comes_and_goes(&running("esa")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p4inc_jobs_come_move_and_go() {
    support::p4inc_jobs_come_move_and_go(&running("p4inc")).await;
}

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

/// What a job has taken is free when it has gone, and counted; what it has finished was summed.
#[tokio::test(flavor = "multi_thread")]
async fn a_removed_job_leaves_no_aggregator() {
    let scenario = parse("[switch]\npool = 64\n[[job]]\nworkers = 2\n", "test").unwrap();
    let port = free_port();
    let (_switch, mut cables) = embedded().start(port);
    let kit = embedded();
    let config = vec![support::config("s1", port)];
    let controller = Controller::connect(&scenario.topology, config, &kit.pipeline).await.unwrap();
    let placement = Placement::from(&scenario.jobs[0]);
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

    // Admitted again under the same ID, it finds nothing of its former life.
    controller.admit(&placement).await.unwrap();
    let outcomes = controller.outcomes(placement.job).await.unwrap()[&switch];
    assert!(outcomes.iter().all(|(_, count)| count.packets == 0));
    assert_eq!(controller.remove(placement.job).await.unwrap()[&switch], 0);
}

/// A gradient of the first job with P4INC, for its parameter server if it goes that far.
fn p4inc_gradient(scenario: &Scenario, by: Assignment, worker: u8, fragment: u32) -> Vec<u8> {
    let index = by.segment.offset.0 + fragment % 8;
    let mut frame = gradient(scenario, worker, Round::first(fragment).sequence().0, index);
    let header = &mut frame[OFFSET..];
    header[field::PROTOCOL] = Protocol::P4inc as u8;
    header[field::PRIORITY] = by.service.get();
    frame
}

/// The next frame that comes out of a cable: what it is, of which service and round, for whom, and the
/// first of its values, which must all be the same.
fn received(cable: &mut MemoryPort) -> (Kind, Service, Round, Bitmap, i32) {
    let start = Instant::now();
    let mut frames: Vec<Vec<u8>> = Vec::new();
    while frames.is_empty() {
        assert!(start.elapsed() < Duration::from_secs(10), "it never comes");
        cable.wait(Some(Duration::from_millis(10))).unwrap();
        cable.receive(1, &mut |frame| frames.push(frame.to_vec())).unwrap();
    }
    let packet = Packet::new_checked(&frames[0]).unwrap();
    let first = packet.values_i32().next().unwrap();
    assert!(packet.values_i32().all(|value| value == first));
    (packet.kind(), packet.service(), packet.round(), packet.bitmap(), first)
}

fn is_silent(cable: &mut MemoryPort) -> bool {
    cable.wait(Some(Duration::from_millis(50))).unwrap();
    cable.receive(1, &mut |_| {}).unwrap() == 0
}

fn send(cable: &mut MemoryPort, frame: &[u8]) {
    assert!(cable.send(frame).unwrap());
    cable.flush().unwrap();
}

/// A job is moved to and fro while late packets of its former lives arrive all the time. Every
/// iteration's sums hold each worker once, as the network or the server makes them.
#[tokio::test(flavor = "multi_thread")]
async fn no_sum_of_a_moved_job_holds_what_was_late() {
    let scenario = parse("[switch]\npool = 64\n[[job]]\nworkers = 3\n", "test").unwrap();
    let kit = running("p4inc");
    let port = free_port();
    let (_switch, mut cables) = kit.start(port);
    let config = vec![support::config("s1", port)];
    let controller = Controller::connect(&scenario.topology, config, &kit.pipeline).await.unwrap();
    let placement = Placement::from(&scenario.jobs[0]);
    let job = placement.job;
    let everyone = Bitmap::first(3);
    let first = controller.admit_sized(placement, Aggregation::Network, 8).await.unwrap();

    let mut server = cables.remove(3);
    let mut late_port = cables.remove(2);
    // One contribution is left behind in the switch: its worker stopped half-way.
    send(&mut cables[0], &p4inc_gradient(&scenario, first, 0, 5));

    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let scene = scenario.clone();
    // The third worker's port: what it has to say now, and in between what it has said long ago.
    let (tell, told) = mpsc::channel::<(Assignment, u32)>();
    let straggler = std::thread::spawn(move || {
        let mut results = Vec::new();
        let mut late: Vec<Vec<u8>> = Vec::new();
        let mut current: Vec<Vec<u8>> = Vec::new();
        let mut by = first;
        let mut sent = 0;
        while !stopped.load(Ordering::Relaxed) {
            if let Ok((new, fragment)) = told.try_recv() {
                if new != by {
                    // Those of the server's are not told apart by their service.
                    let over = std::mem::take(&mut current);
                    late.extend(over.into_iter().filter(|_| by.service.is_aggregated()));
                    by = new;
                }
                current.push(p4inc_gradient(&scene, by, 2, fragment));
                send(&mut late_port, current.last().unwrap());
            }
            if !late.is_empty() {
                send(&mut late_port, &late[sent % late.len()]);
                sent += 1;
            }
            late_port.wait(Some(Duration::from_micros(200))).unwrap();
            late_port
                .receive(8, &mut |frame| {
                    let packet = Packet::new_checked(frame).unwrap();
                    results.push((packet.service(), packet.round(), packet.values_i32().next()));
                })
                .unwrap();
        }
        (results, sent as u64)
    });

    let mut assignment = first;
    let mut expected = Vec::new();
    for iteration in 0..12_u32 {
        // Fragments whose indices are those that the late packets name.
        for fragment in 8 * iteration..8 * iteration + 8 {
            if iteration == 0 && fragment == 5 {
                continue;
            }
            let service = assignment.service;
            for worker in 0..2 {
                let frame = p4inc_gradient(&scenario, assignment, worker, fragment);
                send(&mut cables[usize::from(worker)], &frame);
            }
            tell.send((assignment, fragment)).unwrap();
            let round = Round::first(fragment);
            if assignment.mode == Mode::Local {
                for cable in &mut cables[..2] {
                    let result = (Kind::Parameter, service, round, everyone, 1 + 2 + 3);
                    assert_eq!(received(cable), result);
                }
                expected.push((service, round, Some(1 + 2 + 3)));
            } else {
                // The server adds: here, whatever comes of this round.
                let mut sum = 0;
                let mut seen = Bitmap::EMPTY;
                while seen != everyone {
                    let (kind, from, at, bitmap, value) = received(&mut server);
                    assert_eq!((kind, from, at), (Kind::Gradient, service, round));
                    assert!(seen.is_disjoint(bitmap), "nobody is counted twice");
                    seen |= bitmap;
                    sum += value;
                }
                assert_eq!(sum, 1 + 2 + 3);
            }
        }
        let (wish, size) = match assignment.mode {
            Mode::Local if iteration % 3 == 0 => {
                (Aggregation::Network, assignment.segment.size ^ 1)
            }
            Mode::Local => (Aggregation::Server, 0),
            _ => (Aggregation::Network, 8),
        };
        assignment = controller.relocate(job, wish, size).await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    let (results, sent) = straggler.join().unwrap();
    assert_eq!(results, expected, "the third worker had each result once");
    assert!(is_silent(&mut server) && cables[..2].iter_mut().all(is_silent));
    let outcomes = controller.outcomes(job).await.unwrap()[&SwitchId(0)];
    let traffic = controller.traffic().await.unwrap()[&SwitchId(0)];
    let refused = outcomes[Outcome::Rejected].packets + traffic[Outcome::Rejected].packets;
    assert!(sent > 100, "{sent} late packets");
    assert_eq!(refused, sent, "every late packet was counted");
}
