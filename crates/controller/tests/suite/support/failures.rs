//! Switches that stop answering, disconnect or are changed by another client, at any moment: in the
//! end a switch holds its whole desired state, or nothing of a job.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tributary_controller::Error;
use tributary_controller::client::{SwitchConfig, Target};
use tributary_controller::jobs::Controller;
use tributary_controller::programs::Pipeline;
use tributary_model::plan::Placement;
use tributary_p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use tributary_p4runtime::p4::v1::{
    self as p4, ForwardingPipelineConfig, SetForwardingPipelineConfigRequest, Uint128, Update,
    WriteRequest, set_forwarding_pipeline_config_request::Action, update,
};

use super::{Kit, config, contents, free_port, scenario, wait_until};

/// A link between controller and switch that can be cut or held.
pub(crate) struct Wire {
    address: SocketAddr,
    state: Arc<State>,
    listener: JoinHandle<()>,
}

struct State {
    /// No bytes pass, and neither end is notified.
    held: AtomicBool,
    /// Bytes that may still pass towards the switch before everything is cut.
    budget: AtomicI64,
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Wire {
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state =
            Arc::new(State { held: AtomicBool::new(false), budget: AtomicI64::new(i64::MAX) });
        let shared = state.clone();
        let listener = tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let state = shared.clone();
                tokio::spawn(async move {
                    if let Ok(far) = TcpStream::connect(("127.0.0.1", port)).await {
                        carry(near, far, &state).await;
                    }
                });
            }
        });
        Self { address, state, listener }
    }

    pub(crate) fn config(&self, name: &str) -> SwitchConfig {
        SwitchConfig {
            request_timeout: Duration::from_millis(1000),
            patience: Duration::from_millis(1500),
            ..SwitchConfig::new(name, Target::Address(self.address.to_string()))
        }
    }

    pub(crate) fn hold(&self, held: bool) {
        self.state.held.store(held, Ordering::SeqCst);
    }

    /// Cuts the link after `bytes` more bytes towards the switch, and keeps it cut.
    fn cut_after(&self, bytes: i64) {
        self.state.budget.store(bytes, Ordering::SeqCst);
    }

    fn fix(&self) {
        self.state.budget.store(i64::MAX, Ordering::SeqCst);
    }
}

/// Copies until either end closes, or the link is cut.
async fn carry(near: TcpStream, far: TcpStream, state: &State) {
    let (mut near_in, mut near_out) = near.into_split();
    let (mut far_in, mut far_out) = far.into_split();
    let out = async {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = near_in.read(&mut buffer).await {
            while state.held.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let left = state.budget.fetch_sub(length as i64, Ordering::SeqCst);
            let passes = usize::try_from(left.clamp(0, length as i64)).unwrap();
            if far_out.write_all(&buffer[..passes]).await.is_err() || passes < length {
                return;
            }
        }
    };
    let back = async {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = far_in.read(&mut buffer).await {
            while state.held.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            if near_out.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = out => {}
        () = back => {}
    }
}

/// The connection to one of two switches breaks after any number of bytes of a job's admission: the
/// job is in both switches, or in none.
pub(crate) async fn an_admission_is_whole_wherever_it_breaks(kit: &impl Kit) {
    let scenario = scenario();
    let ports = [free_port(), free_port()];
    let _switches = ports.map(|port| kit.start(port));
    let wire = Wire::to(ports[1]).await;
    let configs = vec![config("rack1", ports[0]), wire.config("rack2")];
    let pipeline = kit.pipeline();
    let controller =
        Controller::connect(&scenario.network.topology, configs, &pipeline).await.unwrap();
    let sessions = controller.switches();
    let both =
        async || [contents(&sessions[0], &pipeline).await, contents(&sessions[1], &pipeline).await];
    let clean = both().await;
    let placement = Placement::unassigned(&scenario.jobs[0]);
    controller.admit(&placement).await.unwrap();
    let admitted = both().await;
    controller.remove(placement.job).await.unwrap();

    let (mut failed, mut done) = (0, 0);
    for bytes in [0, 40, 300, 700, 1000, 1200, 1400, 1700, 2500, 100_000] {
        wire.cut_after(bytes);
        let outcome = controller.admit(&placement).await;
        wire.fix();
        wait_until(async || sessions[1].health().is_ok()).await;
        match outcome {
            Ok(_) => {
                done += 1;
                assert_eq!(both().await, admitted, "cut after {bytes} bytes");
                controller.remove(placement.job).await.unwrap();
            }
            Err(error) => {
                failed += 1;
                assert!(matches!(error, Error::Lost { .. } | Error::Unreachable { .. }), "{error}");
                assert_eq!(both().await, clean, "cut after {bytes} bytes: {error}");
            }
        }
    }
    assert!(failed >= 3 && done >= 1, "{failed} failed, {done} did not");
}

/// A switch accepts requests and stops answering: the caller gets an error in time, and any change
/// that the switch made is undone when it answers again.
pub(crate) async fn a_switch_that_falls_silent(kit: &impl Kit) {
    let scenario = scenario();
    let ports = [free_port(), free_port()];
    let _switches = ports.map(|port| kit.start(port));
    let wire = Wire::to(ports[1]).await;
    let configs = vec![config("rack1", ports[0]), wire.config("rack2")];
    let pipeline = kit.pipeline();
    let controller =
        Controller::connect(&scenario.network.topology, configs, &pipeline).await.unwrap();
    let session = &controller.switches()[1];
    let clean = contents(session, &pipeline).await;
    wire.hold(true);
    let start = Instant::now();
    let placement = Placement::unassigned(&scenario.jobs[0]);
    let error = controller.admit(&placement).await.unwrap_err();
    // The updates and their removal: one timeout each, and one wait for an answer.
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    assert!(error.to_string().starts_with("switch rack2: "), "{error}");
    wait_until(async || session.health().is_err()).await;
    wire.hold(false);
    wait_until(async || session.health().is_ok()).await;
    assert_eq!(contents(session, &pipeline).await, clean);
    controller.admit(&placement).await.unwrap();
    controller.remove(placement.job).await.unwrap();
    assert_eq!(contents(session, &pipeline).await, clean);
}

/// A client that knows the primary's election ID can write: its changes are undone.
pub(crate) async fn a_stray_hand_is_undone(kit: &impl Kit) {
    let scenario = scenario();
    let ports = [free_port(), free_port()];
    let _switches = ports.map(|port| kit.start(port));
    let configs = ["rack1", "rack2"].into_iter().zip(ports).map(|(name, port)| SwitchConfig {
        audit: Duration::from_millis(200),
        ..config(name, port)
    });
    let pipeline = kit.pipeline();
    let controller = Controller::connect(&scenario.network.topology, configs.collect(), &pipeline)
        .await
        .unwrap();
    let session = &controller.switches()[0];
    let before = contents(session, &pipeline).await;
    let catalogue = session.catalogue();
    let plan = &tributary_model::plan::forwarding(&scenario.network.topology)[0];
    let some = tributary_controller::entries::forwarding(catalogue, plan)[..3].to_vec();
    let updates = some
        .into_iter()
        .rev()
        .map(|entity| Update { r#type: update::Type::Delete.into(), entity: Some(entity) });
    let request = WriteRequest {
        device_id: 1,
        election_id: Some(Uint128 { high: 0, low: 1 }),
        updates: updates.collect(),
        ..WriteRequest::default()
    };
    raw(ports[0]).await.write(request).await.unwrap();
    assert_ne!(contents(session, &pipeline).await, before);
    let same = async || contents(session, &pipeline).await == before;
    wait_until(same).await;
    // No new connection was needed.
    assert_eq!(session.connections(), 1);
}

/// A switch that runs another program under our pipeline's cookie is recognised by its P4Info, and
/// its program is replaced.
pub(crate) async fn another_program_under_our_cookie(kit: &impl Kit, other: Pipeline) {
    let scenario = scenario();
    let ports = [free_port(), free_port()];
    let _switches = ports.map(|port| kit.start(port));
    let pipeline = kit.pipeline();
    let configs = || vec![config("rack1", ports[0]), config("rack2", ports[1])];
    let controller =
        Controller::connect(&scenario.network.topology, configs(), &pipeline).await.unwrap();
    let before = contents(&controller.switches()[0], &pipeline).await;
    let cookie = p4::forwarding_pipeline_config::Cookie { cookie: pipeline.cookie() };
    let request = SetForwardingPipelineConfigRequest {
        device_id: 1,
        election_id: Some(Uint128 { high: 0, low: 1 }),
        action: Action::VerifyAndCommit.into(),
        config: Some(ForwardingPipelineConfig {
            p4info: Some(other.p4info.clone()),
            p4_device_config: other.device_config.clone(),
            cookie: Some(cookie),
        }),
        ..SetForwardingPipelineConfigRequest::default()
    };
    raw(ports[0]).await.set_forwarding_pipeline_config(request).await.unwrap();
    drop(controller);
    let controller =
        Controller::connect(&scenario.network.topology, configs(), &pipeline).await.unwrap();
    let [first, second] = controller.switches() else { panic!("two switches") };
    assert_eq!(first.found().before, Some(pipeline.cookie()));
    assert!(!first.found().running, "it must be told apart");
    assert!(second.found().running && second.found().updates == 0, "{:?}", second.found());
    assert_eq!(contents(first, &pipeline).await, before);
}

async fn raw(port: u16) -> P4RuntimeClient<tonic::transport::Channel> {
    let client = P4RuntimeClient::connect(format!("http://127.0.0.1:{port}")).await.unwrap();
    client.max_encoding_message_size(64 << 20)
}
