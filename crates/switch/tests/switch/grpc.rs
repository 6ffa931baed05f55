//! Controllers over gRPC, for the tests of the server.

use std::io;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Status, Streaming};
use tower::service_fn;
use tributary_netio::memory;
use tributary_p4runtime::google::rpc;
use tributary_p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use tributary_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
use tributary_p4runtime::p4::v1::{
    self as p4, Entity, ForwardingPipelineConfig, MasterArbitrationUpdate, ReadRequest,
    SetForwardingPipelineConfigRequest, StreamMessageRequest, StreamMessageResponse, Uint128,
    Update, WriteRequest, forwarding_pipeline_config::Cookie, stream_message_request,
    stream_message_response,
};
use tributary_switch::SwitchConfig;
use tributary_switch::runtime::{Runtime, SwitchHandle};
use tributary_switch::server::Service;

use crate::common::*;

pub(crate) const DEVICE: u64 = 3;

/// A running switch with memory ports 1 and 2, whose far ends are in `ports`, and its service.
pub(crate) struct Device {
    pub(crate) service: Service,
    pub(crate) ports: Vec<memory::MemoryPort>,
    pub(crate) _switch: SwitchHandle,
}

pub(crate) fn device() -> Device {
    let mut runtime = Runtime::new(SwitchConfig { device_id: DEVICE, ..Default::default() });
    let mut ports = Vec::new();
    for port in 1..=2 {
        let (near, far) = memory::link(64, runtime.waker(), &Default::default());
        runtime.add_port(port, Box::new(near), None);
        ports.push(far);
    }
    let (handle, packets_in) = runtime.start().unwrap();
    let service = Service::new(handle.control().clone(), packets_in);
    Device { service, ports, _switch: handle }
}

/// A client over in-memory streams.
pub(crate) async fn connect(service: &Service) -> P4RuntimeClient<Channel> {
    let (streams, incoming) = mpsc::channel::<io::Result<tokio::io::DuplexStream>>(4);
    tokio::spawn(service.clone().serve(ReceiverStream::new(incoming), std::future::pending()));
    let connector = service_fn(move |_: Uri| {
        let streams = streams.clone();
        async move {
            let (near, far) = tokio::io::duplex(1 << 16);
            streams.send(Ok(far)).await.map_err(io::Error::other)?;
            Ok::<_, io::Error>(TokioIo::new(near))
        }
    });
    // The errors of large batches are long.
    let endpoint = Endpoint::from_static("http://switch").http2_max_header_list_size(4 << 20);
    let channel = endpoint.connect_with_connector(connector).await;
    P4RuntimeClient::new(channel.unwrap())
}

/// A controller's stream.
pub(crate) struct Controller {
    pub(crate) send: mpsc::Sender<StreamMessageRequest>,
    pub(crate) receive: Streaming<StreamMessageResponse>,
}

impl Controller {
    pub(crate) async fn open(client: &mut P4RuntimeClient<Channel>) -> Self {
        let (send, messages) = mpsc::channel(16);
        let receive = client.stream_channel(ReceiverStream::new(messages)).await.unwrap();
        Self { send, receive: receive.into_inner() }
    }

    pub(crate) async fn say(&self, update: stream_message_request::Update) {
        self.send.send(StreamMessageRequest { update: Some(update) }).await.unwrap();
    }

    pub(crate) async fn bid(&self, id: u64) {
        self.say(stream_message_request::Update::Arbitration(MasterArbitrationUpdate {
            device_id: DEVICE,
            election_id: Some(election(id)),
            ..Default::default()
        }))
        .await;
    }

    pub(crate) async fn hear(&mut self) -> Result<stream_message_response::Update, Status> {
        let message = tokio::time::timeout(Duration::from_secs(10), self.receive.next());
        message.await.expect("no message").expect("the stream ended").map(|m| m.update.unwrap())
    }

    /// The next message, which must be an arbitration: its code and the highest election id.
    pub(crate) async fn verdict(&mut self) -> (rpc::Code, u64) {
        match self.hear().await.unwrap() {
            stream_message_response::Update::Arbitration(update) => {
                let code = rpc::Code::try_from(update.status.unwrap().code).unwrap();
                (code, update.election_id.unwrap().low)
            }
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn election(low: u64) -> Uint128 {
    Uint128 { high: 0, low }
}

/// A controller that is primary with election id 1.
pub(crate) async fn primary(client: &mut P4RuntimeClient<Channel>) -> Controller {
    let mut controller = Controller::open(client).await;
    controller.bid(1).await;
    assert_eq!(controller.verdict().await, (rpc::Code::Ok, 1));
    controller
}

pub(crate) fn config(source: &str) -> ForwardingPipelineConfig {
    ForwardingPipelineConfig {
        cookie: Some(Cookie { cookie: 0xc0ffee }),
        ..forwarding(source).config().clone()
    }
}

pub(crate) fn set(
    action: Action,
    config: Option<ForwardingPipelineConfig>,
) -> SetForwardingPipelineConfigRequest {
    SetForwardingPipelineConfigRequest {
        device_id: DEVICE,
        election_id: Some(election(1)),
        action: action.into(),
        config,
        ..Default::default()
    }
}

pub(crate) fn writing(updates: Vec<Update>) -> WriteRequest {
    WriteRequest {
        device_id: DEVICE,
        election_id: Some(election(1)),
        updates,
        ..Default::default()
    }
}

pub(crate) async fn push(client: &mut P4RuntimeClient<Channel>, source: &str) {
    let request = set(Action::VerifyAndCommit, Some(config(source)));
    client.set_forwarding_pipeline_config(request).await.unwrap();
}

pub(crate) async fn query(
    client: &mut P4RuntimeClient<Channel>,
    entities: Vec<Entity>,
) -> Result<Vec<Entity>, Status> {
    let request = ReadRequest { device_id: DEVICE, entities, ..Default::default() };
    let mut parts = client.read(request).await?.into_inner();
    let mut all = Vec::new();
    while let Some(part) = parts.next().await {
        all.extend(part?.entities);
    }
    Ok(all)
}

pub(crate) fn names(source: &str) -> Names {
    Names(config(source).p4info.unwrap())
}

/// The canonical codes in the details of a refused batch.
pub(crate) fn codes(status: &Status) -> Vec<rpc::Code> {
    use prost::Message as _;
    let details = rpc::Status::decode(status.details()).unwrap().details;
    let code = |any: &prost_types::Any| {
        p4::Error::decode(&any.value[..]).unwrap().canonical_code.try_into().unwrap()
    };
    details.iter().map(code).collect()
}
