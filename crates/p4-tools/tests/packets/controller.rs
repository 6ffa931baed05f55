//! A blocking P4Runtime client for one switch.

use std::sync::mpsc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use tributary_p4runtime::p4::v1::{
    Entity, ForwardingPipelineConfig, MasterArbitrationUpdate, PacketOut, ReadRequest,
    SetForwardingPipelineConfigRequest, StreamMessageRequest, Uint128, Update, WriteRequest,
    entity, field_match, set_forwarding_pipeline_config_request, stream_message_request,
    stream_message_response,
};
use tributary_p4runtime::text;
use tributary_run::testbed::Testbed;

use crate::bmv2::PATIENCE;
use crate::target::{Count, Counts, Evictions};
use crate::tools::Compiled;

const DEVICE: u64 = 1;
const ELECTION: Uint128 = Uint128 { high: 0, low: 1 };

/// Larger than any answer, including a read of all counters.
const MESSAGE: usize = 64 << 20;

pub(crate) struct Controller {
    client: P4RuntimeClient<Channel>,
    requests: tokio::sync::mpsc::UnboundedSender<StreamMessageRequest>,
    runtime: Runtime,
}

impl Controller {
    /// Connects from inside a node, as soon as a server listens there, and becomes the primary
    /// controller. The receiver gets the switch's packets.
    pub(crate) fn connect(
        testbed: &Testbed,
        node: &str,
        address: &str,
    ) -> (Self, mpsc::Receiver<Vec<u8>>) {
        // Threads inherit the namespace of their creator, and sockets that of a thread.
        let build =
            || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = testbed.run_in(node, build).expect("the node is there");
        let runtime = runtime.expect("threads can be started");
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        let deadline = Instant::now() + PATIENCE;
        let channel = loop {
            let attempt = endpoint.clone();
            match on(&runtime, async move { attempt.connect().await }) {
                Ok(channel) => break channel,
                Err(error) if Instant::now() > deadline => panic!("BMv2 does not listen: {error}"),
                Err(_) => sleep(Duration::from_millis(10)),
            }
        };
        let client = P4RuntimeClient::new(channel)
            .max_decoding_message_size(MESSAGE)
            .max_encoding_message_size(MESSAGE);
        let (requests, stream) = tokio::sync::mpsc::unbounded_channel();
        let (to_us, packets_in) = mpsc::channel();
        let (ready, elected) = mpsc::channel();
        let mut asking = client.clone();
        runtime.spawn(async move {
            let stream = UnboundedReceiverStream::new(stream);
            let mut answers = match asking.stream_channel(stream).await {
                Ok(answers) => answers.into_inner(),
                Err(status) => panic!("BMv2 opens no stream: {status}"),
            };
            while let Some(Ok(answer)) = answers.next().await {
                match answer.update {
                    Some(stream_message_response::Update::Arbitration(_)) => {
                        let _ = ready.send(());
                    }
                    Some(stream_message_response::Update::Packet(packet)) => {
                        let _ = to_us.send(packet.payload);
                    }
                    _ => {}
                }
            }
        });
        let controller = Self { client, requests, runtime };
        controller.send(stream_message_request::Update::Arbitration(MasterArbitrationUpdate {
            device_id: DEVICE,
            election_id: Some(ELECTION),
            ..MasterArbitrationUpdate::default()
        }));
        elected.recv_timeout(PATIENCE).expect("BMv2 answers the arbitration");
        (controller, packets_in)
    }

    fn send(&self, update: stream_message_request::Update) {
        let request = StreamMessageRequest { update: Some(update) };
        self.requests.send(request).expect("the stream is open");
    }

    /// Sets and starts the program. Returns its P4Info.
    pub(crate) fn set_pipeline(&mut self, compiled: &Compiled) -> P4Info {
        use set_forwarding_pipeline_config_request::Action;
        let info: P4Info = text::from_text(&compiled.p4info).expect("p4c writes P4Info");
        let request = SetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            election_id: Some(ELECTION),
            action: Action::VerifyAndCommit.into(),
            config: Some(ForwardingPipelineConfig {
                p4info: Some(info.clone()),
                p4_device_config: compiled.json.clone(),
                cookie: None,
            }),
            ..SetForwardingPipelineConfigRequest::default()
        };
        let mut client = self.client.clone();
        on(&self.runtime, async move { client.set_forwarding_pipeline_config(request).await })
            .expect("BMv2 takes the program");
        info
    }

    pub(crate) fn write(&mut self, updates: &[Update]) {
        let request = WriteRequest {
            device_id: DEVICE,
            election_id: Some(ELECTION),
            updates: updates.to_vec(),
            ..WriteRequest::default()
        };
        let mut client = self.client.clone();
        if let Err(status) = on(&self.runtime, async move { client.write(request).await }) {
            panic!("BMv2 refuses an update: {status:?}\n{updates:#?}");
        }
    }

    pub(crate) fn packet_out(&mut self, frame: &[u8]) {
        let packet = PacketOut { payload: frame.to_vec(), metadata: Vec::new() };
        self.send(stream_message_request::Update::Packet(packet));
    }

    /// The requested entities.
    pub(crate) fn read(&mut self, which: Vec<Entity>) -> Vec<Entity> {
        let request = ReadRequest { device_id: DEVICE, entities: which, ..ReadRequest::default() };
        let mut client = self.client.clone();
        let entities = on(&self.runtime, async move {
            let mut stream = client.read(request).await?.into_inner();
            let mut entities = Vec::new();
            while let Some(part) = stream.next().await {
                entities.extend(part?.entities);
            }
            Ok::<_, tonic::Status>(entities)
        });
        entities.expect("BMv2 tells what it has")
    }
}

/// Runs a request on the runtime's thread, which is in the right namespace.
fn on<T: Send + 'static>(runtime: &Runtime, work: impl Future<Output = T> + Send + 'static) -> T {
    runtime.block_on(runtime.spawn(work)).expect("the request does not panic")
}

/// Counter entries as numbers, without zeros.
pub(crate) fn to_counts(entities: &[Entity]) -> Counts {
    let count = |entity: &Entity| {
        let Some(entity::Entity::CounterEntry(entry)) = &entity.entity else {
            panic!("not a counter: {entity:?}");
        };
        let index = entry.index.as_ref().map_or(0, |index| index.index);
        let data = entry.data.unwrap_or_default();
        (index, Count { packets: data.packet_count, bytes: data.byte_count })
    };
    entities.iter().map(count).filter(|(_, count)| *count != Count::default()).collect()
}

/// Direct counters of the table of servers as numbers, by epoch, without zeros.
pub(crate) fn to_evictions(entities: &[Entity]) -> Evictions {
    let count = |entity: &Entity| {
        let Some(entity::Entity::DirectCounterEntry(counter)) = &entity.entity else {
            panic!("not a direct counter: {entity:?}");
        };
        let entry = counter.table_entry.as_ref().expect("it belongs to an entry");
        let key = entry.r#match.first().and_then(|key| key.field_match_type.as_ref());
        let Some(field_match::FieldMatchType::Exact(epoch)) = key else {
            panic!("not an exact key: {entry:?}");
        };
        let epoch = epoch.value.iter().fold(0, |epoch, &byte| epoch << 8 | u32::from(byte));
        let data = counter.data.unwrap_or_default();
        (epoch, Count { packets: data.packet_count, bytes: data.byte_count })
    };
    entities.iter().map(count).filter(|(_, count)| *count != Count::default()).collect()
}
