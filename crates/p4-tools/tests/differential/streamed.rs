//! BMv2 with packets over gRPC, so that any port can be used, nothing needs privileges, and programs
//! need no markers.
//!
//! `simple_switch_grpc --dp-grpc-server-addr` takes packets on a stream. When the client has sent its
//! last one, the switch ends the stream only after it has finished all packets, copies included. So
//! each packet has a stream of its own, whose end says that all output has arrived.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Status;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tributary_controller::p4c;
use tributary_controller::programs::Pipeline;
use tributary_p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use tributary_p4runtime::p4::v1::{
    DigestList, Entity, ForwardingPipelineConfig, MasterArbitrationUpdate, ReadRequest,
    SetForwardingPipelineConfigRequest, StreamMessageRequest, Uint128, Update, WriteRequest,
    set_forwarding_pipeline_config_request, stream_message_request, stream_message_response,
};

use crate::switches::Outputs;

const DEVICE: u64 = 1;
const ELECTION: Uint128 = Uint128 { high: 0, low: 1 };

/// Time limit for BMv2 to start, and to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long to wait for a digest that the other switch has sent.
const SILENCE: Duration = Duration::from_millis(500);

/// Larger than any answer.
const MESSAGE: usize = 64 << 20;

/// A packet in either direction: BMv2's `p4.bm.PacketStreamRequest` and `PacketStreamResponse`, whose
/// fields are the same.
#[derive(Clone, PartialEq, prost::Message)]
struct Frame {
    #[prost(uint64, tag = "2")]
    device: u64,
    #[prost(uint32, tag = "3")]
    port: u32,
    #[prost(bytes = "vec", tag = "4")]
    data: Vec<u8>,
}

/// Running BMv2, with a program.
pub(crate) struct Streamed {
    client: P4RuntimeClient<Channel>,
    frames: Channel,
    digests: mpsc::UnboundedReceiver<DigestList>,
    /// Held open, because it makes this client the primary controller.
    _requests: mpsc::UnboundedSender<StreamMessageRequest>,
    process: Process,
    runtime: Runtime,
    directory: TempDir,
}

/// Killed when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may be over already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Streamed {
    /// Starts BMv2 with a program; the error is BMv2's.
    pub(crate) fn start(pipeline: &Pipeline) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let at = |name: &str| directory.path().join(name);
        let switch = p4c::find("simple_switch_grpc", "").map_err(|error| error.to_string())?;
        let log = File::create(at("log")).map_err(|error| error.to_string())?;
        let mut command = Command::new(switch);
        command.args(["--no-p4", "--device-id", "1", "--log-level", "off", "--"]);
        command.arg("--grpc-server-addr").arg(format!("unix:{}", at("p4runtime").display()));
        command.arg("--dp-grpc-server-addr").arg(format!("unix:{}", at("frames").display()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let process = Process(command.spawn().map_err(|error| error.to_string())?);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        let control = runtime.block_on(connect(&at("p4runtime")))?;
        let frames = runtime.block_on(connect(&at("frames")))?;
        let client = P4RuntimeClient::new(control)
            .max_decoding_message_size(MESSAGE)
            .max_encoding_message_size(MESSAGE);
        let (requests, digests) = runtime.block_on(arbitrate(client.clone()))?;
        let mut bmv2 =
            Self { client, frames, digests, _requests: requests, process, runtime, directory };
        bmv2.set_pipeline(pipeline)?;
        Ok(bmv2)
    }

    fn set_pipeline(&mut self, pipeline: &Pipeline) -> Result<(), String> {
        use set_forwarding_pipeline_config_request::Action;
        let request = SetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            election_id: Some(ELECTION),
            action: Action::VerifyAndCommit.into(),
            config: Some(ForwardingPipelineConfig {
                p4info: Some(pipeline.p4info.clone()),
                p4_device_config: pipeline.device_config.clone(),
                cookie: None,
            }),
            ..SetForwardingPipelineConfigRequest::default()
        };
        let set = self.client.set_forwarding_pipeline_config(request);
        let set = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, set).await });
        answer(set).map(drop).map_err(|why| self.explain(why))
    }

    /// Makes an update, or returns the refusal.
    pub(crate) fn write(&mut self, update: &Update) -> Result<(), String> {
        let request = WriteRequest {
            device_id: DEVICE,
            election_id: Some(ELECTION),
            updates: vec![update.clone()],
            ..WriteRequest::default()
        };
        let write = self.client.write(request);
        let write = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, write).await });
        answer(write).map(drop).map_err(|why| self.explain(why))
    }

    /// Reads entities.
    pub(crate) fn read(&mut self, which: &[Entity]) -> Result<Vec<Entity>, String> {
        let request =
            ReadRequest { device_id: DEVICE, entities: which.to_vec(), ..ReadRequest::default() };
        let client = &mut self.client;
        let read = self.runtime.block_on(async {
            let mut stream = client.read(request).await?.into_inner();
            let mut entities = Vec::new();
            while let Some(part) = stream.next().await {
                entities.extend(part?.entities);
            }
            Ok::<_, Status>(entities)
        });
        read.map_err(|status| self.explain(reason(&status)))
    }

    /// Sends a packet into a port, and returns all of its output.
    pub(crate) fn pass(&mut self, port: u16, data: &[u8]) -> Result<Outputs, String> {
        let frame = Frame { device: DEVICE, port: port.into(), data: data.to_vec() };
        let channel = &self.frames;
        let exchange = async {
            loop {
                match exchange(channel.clone(), frame.clone()).await {
                    // It listens a moment before it takes packets.
                    Err(status) if status.message() == "not ready" => {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    other => return other,
                }
            }
        };
        let exchanged =
            self.runtime.block_on(async { tokio::time::timeout(PATIENCE, exchange).await });
        let frames = answer(exchanged).map_err(|why| self.explain(why))?.into_iter();
        let at = |frame: Frame| (u16::try_from(frame.port).unwrap_or(u16::MAX), frame.data);
        Ok(frames.map(at).collect())
    }

    /// The next list of digests; `None` if there is none for some time.
    pub(crate) fn digest(&mut self) -> Option<DigestList> {
        let next = self.digests.recv();
        self.runtime.block_on(async { tokio::time::timeout(SILENCE, next).await }).ok()?
    }

    /// The digests that have arrived already.
    pub(crate) fn arrived_digest(&mut self) -> Option<DigestList> {
        self.digests.try_recv().ok()
    }

    /// Adds how the process ended, if it did, and what it wrote last.
    fn explain(&mut self, why: String) -> String {
        // A process that dies breaks the connection before it can be waited for.
        let deadline = Instant::now() + SILENCE;
        let broken = why.contains("transport") || why.contains("h2") || why.contains("broken");
        let mut status: Option<ExitStatus> = None;
        while broken && status.is_none() && Instant::now() < deadline {
            status = self.process.0.try_wait().ok().flatten();
            std::thread::sleep(Duration::from_millis(5));
        }
        let Some(status) = status else { return why };
        let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        let last = log.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        format!("BMv2 ended ({status}) {last}")
    }
}

async fn connect(socket: &Path) -> Result<Channel, String> {
    let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display()));
    let endpoint = endpoint.map_err(|error| error.to_string())?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match endpoint.connect().await {
            Ok(channel) => return Ok(channel),
            Err(error) if Instant::now() > deadline => {
                return Err(format!("BMv2 does not listen: {error}"));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

type Controller =
    (mpsc::UnboundedSender<StreamMessageRequest>, mpsc::UnboundedReceiver<DigestList>);

/// Becomes the primary controller. The receiver gets the switch's digests.
async fn arbitrate(mut client: P4RuntimeClient<Channel>) -> Result<Controller, String> {
    use stream_message_response::Update;
    let (requests, stream) = mpsc::unbounded_channel();
    let bid = stream_message_request::Update::Arbitration(MasterArbitrationUpdate {
        device_id: DEVICE,
        election_id: Some(ELECTION),
        ..MasterArbitrationUpdate::default()
    });
    let bid = requests.send(StreamMessageRequest { update: Some(bid) });
    bid.map_err(|_| "the stream is closed".to_owned())?;
    let opened = client.stream_channel(UnboundedReceiverStream::new(stream)).await;
    let mut answers = opened.map_err(|status| reason(&status))?.into_inner();
    match answers.next().await {
        Some(Ok(first)) if matches!(first.update, Some(Update::Arbitration(_))) => {}
        other => return Err(format!("BMv2 does not answer the arbitration: {other:?}")),
    }
    let (to_us, digests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(answer)) = answers.next().await {
            if let Some(Update::Digest(list)) = answer.update {
                // The test may have ended.
                let _ = to_us.send(list);
            }
        }
    });
    Ok((requests, digests))
}

async fn exchange(channel: Channel, frame: Frame) -> Result<Vec<Frame>, Status> {
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.map_err(|error| Status::unavailable(format!("transport: {error}")))?;
    let codec = tonic_prost::ProstCodec::<Frame, Frame>::default();
    let path = PathAndQuery::from_static("/p4.bm.DataplaneInterface/PacketStream");
    let request = tonic::Request::new(tokio_stream::once(frame));
    let mut stream = grpc.streaming(request, path, codec).await?.into_inner();
    let mut frames = Vec::new();
    while let Some(frame) = stream.next().await {
        frames.push(frame?);
    }
    Ok(frames)
}

fn answer<T>(outcome: Result<Result<T, Status>, tokio::time::error::Elapsed>) -> Result<T, String> {
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(status)) => Err(reason(&status)),
        Err(_) => Err(format!("BMv2 does not answer within {PATIENCE:?}")),
    }
}

/// What BMv2 says about the first update that it refuses, or how the connection broke.
fn reason(status: &Status) -> String {
    use prost::Message as _;
    use tributary_p4runtime::google::rpc;
    use tributary_p4runtime::p4::v1::Error;
    let details = rpc::Status::decode(status.details()).unwrap_or_default().details;
    let errors = details.iter().filter_map(|any| Error::decode(any.value.as_slice()).ok());
    let mut refusals = errors.filter(|error| error.canonical_code != 0);
    match refusals.next() {
        Some(error) => format!("code {}: {}", error.canonical_code, error.message),
        None => format!("{:?}: {}", status.code(), status.message()),
    }
}
