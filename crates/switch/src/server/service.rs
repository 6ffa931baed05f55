//! The P4Runtime service.

use std::sync::{Arc, Mutex};

use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tracing::{Instrument as _, info_span};
use tributary_base::connections::ConnectionId;
use tributary_p4runtime::p4::v1::p4_runtime_server::P4Runtime;
use tributary_p4runtime::p4::v1::{
    CapabilitiesRequest, CapabilitiesResponse, DigestListAck, DigestListAckError, Entity,
    GetForwardingPipelineConfigRequest, GetForwardingPipelineConfigResponse,
    MasterArbitrationUpdate, PacketIn, PacketOut, PacketOutError, ReadRequest, ReadResponse,
    SetForwardingPipelineConfigRequest, SetForwardingPipelineConfigResponse, StreamMessageRequest,
    StreamMessageResponse, StreamOtherError, WriteRequest, WriteResponse, stream_error,
    stream_message_request, stream_message_response, write_request::Atomicity,
};
use tributary_p4runtime::server::BoxStream;

use super::arbitration::{Client, role_name};
use super::connections::{Connections, connection};
use super::pipeline;
use super::status::{batch, refused, stopped, stream_error};
use super::streams::{Opened, Streams};
use crate::entities::{PART_BYTES, ReadBatch, Refusal, WriteBatch};
use crate::roles::Access;
use crate::runtime::{Control, PacketsIn, Stopped, ToController};
use crate::switch::no_pipeline;

/// The implemented version of the P4Runtime specification.
const API_VERSION: &str = "1.4.1";

/// Updates made, or entities read, between two batches of frames.
const STEP: usize = 64;

/// Most queries per read.
const QUERIES: usize = 4096;

/// The P4Runtime service of one running switch. Clones share the switch.
#[derive(Clone, Debug)]
pub struct Service {
    control: Control,
    streams: Arc<Streams>,
    connections: Arc<Connections>,
    /// Held while a program is compiled: one at a time.
    compiler: Arc<tokio::sync::Mutex<()>>,
    /// Present until the first clone serves.
    packets_in: Arc<Mutex<Option<PacketsIn>>>,
}

impl Service {
    /// A service for a switch and the packets that its programs send to the controller.
    #[must_use]
    pub fn new(control: Control, packets_in: PacketsIn) -> Self {
        let streams = Arc::new(Streams::new(control.config().device_id));
        Self {
            control,
            streams,
            connections: Arc::default(),
            compiler: Arc::default(),
            packets_in: Arc::new(Mutex::new(Some(packets_in))),
        }
    }

    /// Number of open stream channels: controllers that are connected.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.lock().count()
    }

    /// Reads as a client does, but without a connection. `part` gets the entities part by part.
    ///
    /// # Errors
    /// Those of P4Runtime.
    pub async fn read_parts(
        &self,
        entities: Vec<Entity>,
        mut part: impl FnMut(Vec<Entity>),
    ) -> Result<(), Status> {
        let device_id = self.control.config().device_id;
        let request = ReadRequest { device_id, entities, ..ReadRequest::default() };
        let mut answers = self.read(Request::new(request)).await?.into_inner();
        while let Some(answer) = answers.next().await {
            part(answer?.entities);
        }
        Ok(())
    }

    pub(super) fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    /// Whether a connection has the stream of the default role's primary controller.
    pub(super) fn is_controller(&self, connection: ConnectionId) -> bool {
        self.streams.lock().has_default_primary(connection)
    }

    /// Ends all streams and refuses new ones, so that a server can stop.
    pub fn close(&self) {
        self.streams.close();
    }

    /// Forwards packets and notices from the switch to the primary controllers, until the switch
    /// stops. Needs a tokio runtime; called when serving starts.
    pub(super) fn start_packets_in(&self) {
        let packets_in = self.packets_in.lock().map(|mut place| place.take());
        let Ok(Some(mut packets_in)) = packets_in else { return };
        let service = self.clone();
        tokio::spawn(async move {
            while let Some(message) = packets_in.next().await {
                let update = match message {
                    ToController::Notice(notice) => notice,
                    ToController::Packet(frame) => match service.unpack(frame).await {
                        Ok(packet) => stream_message_response::Update::Packet(packet),
                        Err(Stopped) => return,
                    },
                };
                service.streams.lock().tell_primaries(&update);
            }
        });
    }

    async fn unpack(&self, frame: Vec<u8>) -> Result<PacketIn, Stopped> {
        let unpack = |switch: &mut crate::Switch, _| match switch.forwarding() {
            Some(forwarding) => forwarding.packet_in(frame),
            None => PacketIn { payload: frame, metadata: Vec::new() },
        };
        self.control.run(unpack).await
    }

    /// Handles a controller's stream until it ends. Returns the error to end it with, if any.
    async fn listen(
        &self,
        client: Client,
        mut messages: Streaming<StreamMessageRequest>,
    ) -> Option<Status> {
        use stream_message_request::Update;
        loop {
            let update = match messages.message().await {
                Ok(Some(message)) => message.update,
                Ok(None) | Err(_) => return None,
            };
            match update {
                Some(Update::Arbitration(bid)) => {
                    if let Err(status) = self.arbitrate(client, &bid).await {
                        return Some(status);
                    }
                }
                Some(Update::Packet(packet)) => {
                    if let Err(status) = self.packet_out(client, packet).await {
                        return Some(status);
                    }
                }
                Some(Update::DigestAck(ack)) => {
                    if let Err(status) = self.acknowledge(client, ack).await {
                        return Some(status);
                    }
                }
                Some(Update::Other(other)) => {
                    let refusal = Refusal::unimplemented("this switch knows no such message");
                    let other = StreamOtherError { other: Some(other) };
                    self.complain(client, refusal, stream_error::Details::Other(other));
                }
                None => {
                    let refusal = Refusal::invalid("the message is not set");
                    let other = StreamOtherError::default();
                    self.complain(client, refusal, stream_error::Details::Other(other));
                }
            }
        }
    }

    /// Handles a bid. A new primary is notified after all writes of the previous one are done.
    async fn arbitrate(&self, client: Client, bid: &MasterArbitrationUpdate) -> Result<(), Status> {
        let (own, written) = {
            let mut state = self.streams.lock();
            let all = state.arbitration.bid(client, bid).map_err(|r| refused(&r))?;
            let (own, others) = all.into_iter().partition(|(to, _)| *to == client);
            state.notify(others);
            (own, self.control.submit(|_, _| ()))
        };
        written.await.map_err(|_| Status::unavailable("the switch has stopped"))?;
        self.streams.lock().notify(own);
        Ok(())
    }

    async fn packet_out(&self, client: Client, packet: PacketOut) -> Result<(), Status> {
        let sent = if self.streams.lock().arbitration.is_primary(client) {
            let packet = packet.clone();
            let send = move |switch: &mut crate::Switch, now_us| {
                let Some(forwarding) = switch.forwarding_mut() else {
                    return Err(Refusal::failed_precondition(
                        "no forwarding pipeline configuration is set",
                    ));
                };
                let frame = forwarding.packet_out(&packet)?;
                switch.packet_out(now_us, &frame);
                Ok(())
            };
            self.control.run(send).await.map_err(stopped)?
        } else {
            Err(Refusal::permission_denied("only the primary controller may send packets"))
        };
        if let Err(refusal) = sent {
            let packet = PacketOutError { packet_out: Some(packet) };
            self.complain(client, refusal, stream_error::Details::PacketOut(packet));
        }
        Ok(())
    }

    async fn acknowledge(&self, client: Client, ack: DigestListAck) -> Result<(), Status> {
        let known = if self.streams.lock().arbitration.is_primary(client) {
            let (digest_id, list_id) = (ack.digest_id, ack.list_id);
            let acknowledge = move |switch: &mut crate::Switch, _| {
                switch.first_mut().acknowledge(digest_id, list_id)
            };
            self.control.run(acknowledge).await.map_err(stopped)?
        } else {
            Err(Refusal::permission_denied("only the primary controller is sent digests"))
        };
        if let Err(refusal) = known {
            let ack = DigestListAckError { digest_list_ack: Some(ack) };
            self.complain(client, refusal, stream_error::Details::DigestListAck(ack));
        }
        Ok(())
    }

    /// Sends the parts of a read whenever there is room for one. A client that does not take them
    /// costs two parts: one being sent, one waiting.
    async fn answer(
        &self,
        mut batch: ReadBatch,
        access: &Access,
        answers: mpsc::Sender<Result<ReadResponse, Status>>,
    ) {
        loop {
            // If the client has dropped the stream, nothing more is read.
            let Ok(room) = answers.reserve().await else { return };
            let mut unread = Some(batch);
            let part = self.control.submit_steps(move |switch, now_us| {
                switch.set_time(now_us);
                if let Some(batch) = &unread {
                    switch.gather_some(&batch.reads());
                }
                let Some(control) = switch.control() else { return Some(Err(no_pipeline())) };
                let reading = unread.as_mut()?;
                match reading.step(control, STEP) {
                    Ok(done) if done || reading.bytes() >= PART_BYTES => {
                        unread.take().map(|mut batch| Ok((batch.take(), batch, done)))
                    }
                    Ok(_) => None,
                    Err(refusal) => Some(Err(refusal)),
                }
            });
            let part = part.await.map_err(|_| stopped(Stopped));
            let (mut entities, rest, done) =
                match part.and_then(|part| part.map_err(|r| refused(&r))) {
                    Ok(part) => part,
                    Err(status) => return room.send(Err(status)),
                };
            entities.retain(|entity| access.reads(entity));
            // What follows needs the room, also if nothing is sent.
            match entities.is_empty() {
                true => drop(room),
                false => room.send(Ok(ReadResponse { entities })),
            }
            if done {
                if let Err(status) = super::status::batch(&rest.outcomes(), "queries") {
                    drop(answers.send(Err(status)).await);
                }
                return;
            }
            batch = rest;
        }
    }

    fn complain(&self, client: Client, refusal: Refusal, details: stream_error::Details) {
        let error = stream_message_response::Update::Error(stream_error(refusal, details));
        self.streams.lock().send(client, error);
    }
}

#[tonic::async_trait]
impl P4Runtime for Service {
    async fn write(
        &self,
        request: Request<WriteRequest>,
    ) -> Result<Response<WriteResponse>, Status> {
        let request = request.into_inner();
        let atomicity = Atomicity::try_from(request.atomicity)
            .map_err(|_| Status::invalid_argument("the request has an unknown atomicity"))?;
        let results = {
            // Checked and submitted under one lock, so that no other controller becomes primary in
            // between.
            let state = self.streams.lock();
            #[allow(deprecated, reason = "older controllers send it")]
            let role = role_name(&request.role, request.role_id);
            let device_id = request.device_id;
            let allowed = state.arbitration.check_writer(device_id, &role, request.election_id);
            allowed.map_err(|r| refused(&r))?;
            let batch = WriteBatch::new(request.updates, atomicity);
            let mut batch = Some(batch.with_access(state.arbitration.access(&role)));
            self.control.submit_steps(move |switch, now_us| {
                switch.set_time(now_us);
                match switch.step_write(batch.as_mut()?, STEP) {
                    Ok(false) => None,
                    Ok(true) => batch.take().map(|batch| Ok(batch.finish())),
                    Err(refusal) => Some(Err(refusal)),
                }
            })
        };
        let results = results.await.map_err(|_| Status::unavailable("the switch has stopped"))?;
        batch(&results.map_err(|r| refused(&r))?, "updates")?;
        Ok(Response::new(WriteResponse {}))
    }

    type ReadStream = BoxStream<ReadResponse>;

    async fn read(
        &self,
        request: Request<ReadRequest>,
    ) -> Result<Response<Self::ReadStream>, Status> {
        let connection = connection(request.extensions());
        let request = request.into_inner();
        let (primary, access) = {
            let state = self.streams.lock();
            let known = state.arbitration.check_device(request.device_id);
            known.map_err(|r| refused(&r))?;
            (state.has_primary(connection), state.arbitration.access(&request.role))
        };
        if request.entities.len() > QUERIES {
            let message = format!("a read has at most {QUERIES} queries: make several of it");
            return Err(Status::resource_exhausted(message));
        }
        let reading = self.connections.read(connection, primary)?;
        let start = move |switch: &mut crate::Switch, _| {
            let control = switch.control().ok_or_else(no_pipeline)?;
            Ok(ReadBatch::new(control, &request.entities))
        };
        let batch = self.control.run(start).await.map_err(stopped)?.map_err(|r| refused(&r))?;
        let (sender, answers) = mpsc::channel(1);
        let service = self.clone();
        tokio::spawn(async move {
            let _reading = reading;
            service.answer(batch, &access, sender).await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(answers))))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<SetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        #[allow(deprecated, reason = "older controllers send it")]
        let role = role_name(&request.role, request.role_id);
        let device_id = request.device_id;
        let election_id = request.election_id;
        let check = || {
            let state = self.streams.lock();
            let allowed = state.arbitration.check_writer(device_id, &role, election_id);
            let allowed = allowed.and_then(|()| state.arbitration.check_pusher(&role));
            allowed.map(|()| state).map_err(|r| refused(&r))
        };
        drop(check()?);
        let control = self.control.clone();
        let turn = self.compiler.clone().lock_owned().await;
        let (prepared, step) = oneshot::channel();
        // A detached thread, so that the switch can end while a program is compiled.
        let prepare = move || {
            drop(prepared.send(pipeline::prepare(request, control.config())));
            drop(turn);
        };
        let thread = std::thread::Builder::new().name("p4-push".into()).spawn(prepare);
        thread.map_err(|error| Status::internal(format!("cannot start a thread: {error}")))?;
        let step = step.await.map_err(|_| Status::internal("the compiler panicked"))?;
        let step = step.map_err(|r| refused(&r))?;
        let done = {
            let _still_primary = check()?;
            self.control.submit(|switch, _| pipeline::apply(switch, step))
        };
        let done = done.await.map_err(|_| Status::unavailable("the switch has stopped"))?;
        done.map_err(|r| refused(&r))?;
        Ok(Response::new(SetForwardingPipelineConfigResponse {}))
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<GetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        let known = self.streams.lock().arbitration.check_device(request.device_id);
        known.map_err(|r| refused(&r))?;
        let config = self.control.run(move |switch, _| pipeline::get(switch, &request)).await;
        let config = config.map_err(stopped)?.map_err(|r| refused(&r))?;
        Ok(Response::new(GetForwardingPipelineConfigResponse { config }))
    }

    type StreamChannelStream = BoxStream<StreamMessageResponse>;

    async fn stream_channel(
        &self,
        request: Request<Streaming<StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let connection = connection(request.extensions());
        let Opened { client, messages: outgoing, closed } = self.streams.open(connection)?;
        let service = self.clone();
        let incoming = request.into_inner();
        let serving = async move {
            let error = tokio::select! {
                error = service.listen(client, incoming) => error,
                _ = closed => None,
            };
            service.streams.lock().end(client, error);
        };
        tokio::spawn(serving.instrument(info_span!(parent: None, "stream", client)));
        Ok(Response::new(Box::pin(outgoing)))
    }

    async fn capabilities(
        &self,
        request: Request<CapabilitiesRequest>,
    ) -> Result<Response<CapabilitiesResponse>, Status> {
        // Before 1.5 the request had no device id.
        let device_id = request.into_inner().device_id;
        if device_id != 0 {
            let known = self.streams.lock().arbitration.check_device(device_id);
            known.map_err(|r| refused(&r))?;
        }
        let p4runtime_api_version = API_VERSION.to_owned();
        Ok(Response::new(CapabilitiesResponse { p4runtime_api_version, experimental: None }))
    }
}
