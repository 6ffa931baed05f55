//! One connection to one switch: P4Runtime's calls with readable errors.
//!
//! A [`Client`] performs each call once. A [`Session`](crate::session::Session) keeps a switch in
//! the desired state.

use std::sync::Arc;
use std::time::Duration;

use prost::{Message, Name};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use tributary_access::{ClientKeys, Remote};
use tributary_p4runtime::google::rpc;
use tributary_p4runtime::p4::config::v1::P4Info;
use tributary_p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use tributary_p4runtime::p4::v1::{
    self as p4, Entity, ForwardingPipelineConfig, GetForwardingPipelineConfigRequest,
    MasterArbitrationUpdate, PacketOut, ReadRequest, SetForwardingPipelineConfigRequest,
    StreamMessageRequest, StreamMessageResponse, Uint128, Update, WriteRequest,
    get_forwarding_pipeline_config_request as get, set_forwarding_pipeline_config_request as set,
    stream_message_request, stream_message_response,
};

use crate::catalogue::Catalogue;
use crate::error::{Error, one_line};
use crate::programs::Pipeline;
use crate::reconcile::describe;

/// Largest message in bytes: pipelines contain their source.
const MAX_MESSAGE: usize = 256 << 20;
/// Updates per Write.
const BATCH: usize = 1000;
/// Largest status in bytes: it has an error for each update of a batch, about 100 bytes each
/// according to the specification.
const MAX_STATUS: u32 = (8 << 10) + 200 * BATCH as u32;
/// Requests that may wait in an open stream.
const STREAM_ROOM: usize = 256;

/// Address of a switch's P4Runtime server.
#[derive(Clone, Debug)]
pub enum Target {
    /// `HOST:PORT` or `unix:PATH`.
    Address(String),
    /// A channel made by the caller that reconnects by itself, for example to a server in this
    /// process.
    Channel(Channel),
}

/// A switch, and how to connect to it.
#[derive(Clone, Debug)]
pub struct SwitchConfig {
    /// Name in messages.
    pub name: String,
    /// Address of its P4Runtime server.
    pub target: Target,
    /// Encryption of the connection; `None` for a plaintext server.
    pub keys: Option<Arc<ClientKeys>>,
    /// The device behind that server.
    pub device_id: u64,
    /// Of several controllers, the one with the highest election ID may write.
    pub election_id: u128,
    /// The role of this controller; `None` for the default role, which may do everything.
    pub role: Option<String>,
    /// Timeout for connecting, and for each request.
    pub request_timeout: Duration,
    /// How long an operation waits for a lost connection to come back.
    pub patience: Duration,
    /// Interval between audits, which check that the switch answers and holds the desired state.
    pub audit: Duration,
}

impl SwitchConfig {
    /// A switch with device ID 1, election ID 1 and timeouts that fit a local network.
    #[must_use]
    pub fn new(name: impl Into<String>, target: Target) -> Self {
        Self {
            name: name.into(),
            target,
            keys: None,
            device_id: 1,
            election_id: 1,
            role: None,
            request_timeout: Duration::from_secs(10),
            patience: Duration::from_secs(10),
            audit: Duration::from_secs(5),
        }
    }

    /// The address, for messages.
    #[must_use]
    pub fn address(&self) -> &str {
        match &self.target {
            Target::Address(address) => address,
            Target::Channel(_) => "an in-process channel",
        }
    }

    /// An error for a lost connection.
    pub(crate) fn lost(&self, reason: impl Into<String>) -> Error {
        Error::Lost { switch: self.name.clone(), reason: reason.into() }
    }

    /// What the switch answered, or how the connection broke, perhaps with a hint.
    fn reason(&self, status: &Status) -> String {
        let plain = self.keys.is_none()
            && matches!(&self.target, Target::Address(address) if !address.starts_with("unix:"));
        match reason(status) {
            reason if plain && is_garbled(status) => {
                format!("{reason}; a switch with TLS needs --identity")
            }
            reason => reason,
        }
    }

    /// An error for a failed request. [`Error::Lost`] is separate because connections may come
    /// back.
    fn failed(&self, what: &'static str, status: &Status) -> Error {
        match is_lost(status) {
            true => self.lost(self.reason(status)),
            false => Error::Request {
                switch: self.name.clone(),
                what,
                code: status.code(),
                reason: reason(status),
            },
        }
    }
}

fn is_lost(status: &Status) -> bool {
    let transport = std::error::Error::source(status).is_some();
    matches!(status.code(), Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded)
        || (status.code() == Code::Unknown && transport)
}

/// Whether the connection broke because of invalid bytes, as if only one side uses encryption.
fn is_garbled(status: &Status) -> bool {
    let mut cause = std::error::Error::source(status);
    while let Some(inner) = cause.and_then(std::error::Error::source) {
        cause = Some(inner);
    }
    cause.is_some_and(|cause| !cause.is::<std::io::Error>())
}

/// What the switch answered, or how the connection broke.
fn reason(status: &Status) -> String {
    if let Some(source) = std::error::Error::source(status) {
        return root_cause(source);
    }
    match one_line(status.message()) {
        text if text.is_empty() => format!("{:?}", status.code()),
        text => text,
    }
}

/// The primary controller of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mastership {
    /// The controller with this election ID is primary.
    Held(u128),
    /// There is no primary controller.
    Vacant,
}

/// What a switch reports to run.
#[derive(Clone, PartialEq, Debug)]
pub struct Running {
    /// The cookie that was pushed with the pipeline; 0 if none.
    pub cookie: u64,
    /// The P4Info, which names the tables, actions and counters.
    pub p4info: Option<P4Info>,
}

impl Running {
    /// Whether the switch runs this pipeline, as far as the controller uses it.
    #[must_use]
    pub fn is(&self, pipeline: &Pipeline, catalogue: &Catalogue) -> bool {
        let same = |info: &P4Info| Catalogue::new(info).is_ok_and(|found| found == *catalogue);
        self.cookie == pipeline.cookie() && self.p4info.as_ref().is_none_or(same)
    }
}

/// A connection to a switch. Clones share it.
#[derive(Clone, Debug)]
pub struct Client {
    config: Arc<SwitchConfig>,
    rpc: P4RuntimeClient<Channel>,
    /// The election ID that won arbitration: the configured ID, or a higher one.
    election_id: u128,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// [`Error::Address`], [`Error::Unreachable`].
    pub async fn connect(config: Arc<SwitchConfig>) -> Result<Self, Error> {
        let channel = match &config.target {
            Target::Channel(channel) => channel.clone(),
            Target::Address(address) => {
                let switch = || config.name.clone();
                let remote = Remote::new(address, config.keys.clone()).map_err(|error| {
                    Error::Certificates(format!("switch {}: {}", config.name, error.0))
                })?;
                let remote = remote
                    .ok_or_else(|| Error::Address { switch: switch(), address: address.clone() })?;
                let remote = remote.with_patience(config.request_timeout).with_header(MAX_STATUS);
                remote.connect().await.map_err(|error| Error::Unreachable {
                    switch: switch(),
                    address: address.clone(),
                    reason: root_cause(&error),
                })?
            }
        };
        let rpc = P4RuntimeClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        let election_id = config.election_id;
        Ok(Self { config, rpc, election_id })
    }

    /// Adds the timeout of all requests.
    fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        request.set_timeout(self.config.request_timeout);
        request
    }

    fn election_id(&self) -> Option<Uint128> {
        Some(Uint128 { high: (self.election_id >> 64) as u64, low: self.election_id as u64 })
    }

    fn role(&self) -> String {
        self.config.role.clone().unwrap_or_default()
    }

    fn stream_role(&self) -> Option<p4::Role> {
        self.config.role.clone().map(|name| p4::Role { name, ..p4::Role::default() })
    }

    fn arbitration(&self) -> StreamMessageRequest {
        let arbitration = MasterArbitrationUpdate {
            device_id: self.config.device_id,
            election_id: self.election_id(),
            role: self.stream_role(),
            ..MasterArbitrationUpdate::default()
        };
        let update = stream_message_request::Update::Arbitration(arbitration);
        StreamMessageRequest { update: Some(update) }
    }

    /// Opens the stream and becomes the primary controller.
    ///
    /// A switch remembers the highest election ID that it has seen. If that controller has left and
    /// there is no primary, this call bids a higher ID. It never replaces a primary.
    ///
    /// # Errors
    /// [`Error::NotPrimary`] if another controller is primary, [`Error::Device`] if the device does
    /// not exist, [`Error::Lost`] and [`Error::Unreachable`] if no server answers.
    pub async fn arbitrate(&mut self) -> Result<Stream, Error> {
        let limit = self.config.request_timeout;
        match tokio::time::timeout(limit, self.win_arbitration()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.config.lost(format!("no answer to arbitration in {limit:?}"))),
        }
    }

    async fn win_arbitration(&mut self) -> Result<Stream, Error> {
        let (requests, receiver) = mpsc::channel(STREAM_ROOM);
        let closed = |_| self.config.lost("the stream closed");
        // Some switches open the stream only after the first message.
        requests.send(self.arbitration()).await.map_err(closed)?;
        let responses = self.rpc.stream_channel(ReceiverStream::new(receiver)).await;
        let responses = responses.map_err(|status| self.refused(&status))?.into_inner();
        let mut stream = self.stream(requests, responses);
        loop {
            match stream.next().await? {
                Event::Primary => return Ok(stream),
                Event::Vacant(highest) => {
                    self.election_id = highest.saturating_add(1);
                    stream.election_id = self.election_id;
                    let closed = |_| self.config.lost("the stream closed");
                    stream.requests.send(self.arbitration()).await.map_err(closed)?;
                }
                Event::PacketIn(_) | Event::Complaint(_) => {}
            }
        }
    }

    fn stream(
        &self,
        requests: mpsc::Sender<StreamMessageRequest>,
        responses: Streaming<StreamMessageResponse>,
    ) -> Stream {
        Stream { config: self.config.clone(), election_id: self.election_id, requests, responses }
    }

    /// Returns the primary controller of the switch, without bidding for it.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Unreachable`], [`Error::Lost`].
    pub async fn mastership(&self) -> Result<Mastership, Error> {
        let limit = self.config.request_timeout;
        match tokio::time::timeout(limit, self.look_for_primary()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.config.lost(format!("no answer to arbitration in {limit:?}"))),
        }
    }

    async fn look_for_primary(&self) -> Result<Mastership, Error> {
        let (requests, receiver) = mpsc::channel(STREAM_ROOM);
        let arbitration = MasterArbitrationUpdate {
            device_id: self.config.device_id,
            role: self.stream_role(),
            ..MasterArbitrationUpdate::default()
        };
        let update = stream_message_request::Update::Arbitration(arbitration);
        let closed = |_| self.config.lost("the stream closed");
        requests.send(StreamMessageRequest { update: Some(update) }).await.map_err(closed)?;
        let responses = self.rpc.clone().stream_channel(ReceiverStream::new(receiver)).await;
        let responses = responses.map_err(|status| self.refused(&status))?.into_inner();
        let mut stream = self.stream(requests, responses);
        loop {
            match stream.next().await {
                Ok(Event::Vacant(_)) => return Ok(Mastership::Vacant),
                Err(Error::NotPrimary { primary, .. }) => return Ok(Mastership::Held(primary)),
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
    }

    /// The reason why the stream did not open.
    fn refused(&self, status: &Status) -> Error {
        if is_lost(status) {
            return Error::Unreachable {
                switch: self.config.name.clone(),
                address: self.config.address().to_owned(),
                reason: self.config.reason(status),
            };
        }
        stream_error(&self.config, self.election_id, status)
    }

    /// Returns what the switch runs; `None` if it runs nothing. Works without being primary.
    ///
    /// # Errors
    /// [`Error::Request`], [`Error::Lost`].
    pub async fn running(&self) -> Result<Option<Running>, Error> {
        Ok(self.fetch(get::ResponseType::P4infoAndCookie).await?.map(|config| Running {
            cookie: config.cookie.map_or(0, |cookie| cookie.cookie),
            p4info: config.p4info,
        }))
    }

    /// Returns the whole pipeline with its device configuration; `None` if the switch runs nothing. Works without
    /// being primary.
    ///
    /// # Errors
    /// [`Error::Request`], [`Error::Lost`].
    pub async fn pipeline(&self) -> Result<Option<ForwardingPipelineConfig>, Error> {
        self.fetch(get::ResponseType::All).await
    }

    async fn fetch(
        &self,
        parts: get::ResponseType,
    ) -> Result<Option<ForwardingPipelineConfig>, Error> {
        let request = self.request(GetForwardingPipelineConfigRequest {
            device_id: self.config.device_id,
            response_type: parts.into(),
        });
        match self.rpc.clone().get_forwarding_pipeline_config(request).await {
            // Some switches answer with an empty configuration.
            Ok(response) => Ok(response.into_inner().config.filter(|config| {
                config.cookie.is_some_and(|cookie| cookie.cookie != 0) || config.p4info.is_some()
            })),
            // Switches without a pipeline answer with these codes.
            Err(status) if matches!(status.code(), Code::FailedPrecondition | Code::NotFound) => {
                Ok(None)
            }
            Err(status) => Err(self.config.failed("reading what runs", &status)),
        }
    }

    /// Pushes a pipeline. Tables, groups and registers are empty afterwards.
    ///
    /// # Errors
    /// [`Error::PipelineRefused`] with the switch's reasons, [`Error::Lost`].
    pub async fn set_pipeline(&self, pipeline: &Pipeline) -> Result<(), Error> {
        // Compiling a large program takes a switch longer than any other request.
        let mut request = tonic::Request::new(SetForwardingPipelineConfigRequest {
            device_id: self.config.device_id,
            election_id: self.election_id(),
            role: self.role(),
            action: set::Action::VerifyAndCommit.into(),
            config: Some(ForwardingPipelineConfig {
                p4info: Some(pipeline.p4info.clone()),
                p4_device_config: pipeline.device_config.clone(),
                cookie: Some(p4::forwarding_pipeline_config::Cookie { cookie: pipeline.cookie() }),
            }),
            ..SetForwardingPipelineConfigRequest::default()
        });
        request.set_timeout(6 * self.config.request_timeout);
        match self.rpc.clone().set_forwarding_pipeline_config(request).await {
            Ok(_) => Ok(()),
            Err(status) if is_lost(&status) => Err(self.config.lost(self.config.reason(&status))),
            Err(status) if status.code() == Code::PermissionDenied => Err(Error::NotPrimary {
                switch: self.config.name.clone(),
                primary: 0,
                own: self.election_id,
            }),
            Err(status) => Err(Error::PipelineRefused {
                switch: self.config.name.clone(),
                diagnostics: reason(&status),
            }),
        }
    }

    /// Writes updates, in batches.
    ///
    /// # Errors
    /// [`Error::Write`] about the first update that failed (others may have taken effect),
    /// [`Error::NotPrimary`], [`Error::Lost`].
    pub async fn write(&self, updates: &[Update]) -> Result<(), Error> {
        for batch in updates.chunks(BATCH) {
            let failures = self.try_write(batch).await?;
            if let Some(first) = failures.first() {
                return Err(self.write_error(batch, &failures, first));
            }
        }
        Ok(())
    }

    /// Writes updates in one batch, and returns those that failed, in their order. The others have taken effect.
    ///
    /// # Errors
    /// [`Error::Request`] if the whole batch was refused, [`Error::NotPrimary`], [`Error::Lost`].
    pub async fn try_write(&self, updates: &[Update]) -> Result<Vec<Failure>, Error> {
        let request = self.request(WriteRequest {
            device_id: self.config.device_id,
            election_id: self.election_id(),
            role: self.role(),
            updates: updates.to_vec(),
            ..WriteRequest::default()
        });
        let Err(status) = self.rpc.clone().write(request).await else { return Ok(Vec::new()) };
        if is_lost(&status) {
            return Err(self.config.lost(self.config.reason(&status)));
        }
        let failures = failures(&status);
        match failures.is_empty() {
            false => Ok(failures),
            true if status.code() == Code::PermissionDenied => Err(Error::NotPrimary {
                switch: self.config.name.clone(),
                primary: 0,
                own: self.election_id,
            }),
            true => Err(self.config.failed("writing entries", &status)),
        }
    }

    fn write_error(&self, batch: &[Update], failures: &[Failure], first: &Failure) -> Error {
        Error::Write {
            switch: self.config.name.clone(),
            failed: failures.len(),
            all: batch.len(),
            what: batch.get(first.index).map_or_else(|| "an update".to_owned(), describe),
            reason: first.reason.clone(),
            fix: match first.code {
                Code::AlreadyExists => "another controller writes to the switch: stop it",
                Code::InvalidArgument | Code::OutOfRange => {
                    "see whether the switch has the ports of the topology"
                }
                Code::ResourceExhausted => "the table is full: remove jobs or hosts",
                _ => "see the switch's log",
            },
            code: first.code,
        }
    }

    /// Reads the entities that match the given ones.
    ///
    /// # Errors
    /// [`Error::Request`], [`Error::Lost`].
    pub async fn read(&self, entities: Vec<Entity>) -> Result<Vec<Entity>, Error> {
        let failed = |status: Status| self.config.failed("reading entries", &status);
        let request = self.request(ReadRequest {
            device_id: self.config.device_id,
            role: self.role(),
            entities,
        });
        let mut responses = self.rpc.clone().read(request).await.map_err(failed)?.into_inner();
        let mut found = Vec::new();
        let limit = self.config.request_timeout;
        let late = |_| self.config.lost(format!("no answer to a read in {limit:?}"));
        loop {
            let response = tokio::time::timeout(limit, responses.message()).await.map_err(late)?;
            let Some(response) = response.map_err(failed)? else { break };
            found.extend(response.entities);
        }
        Ok(found)
    }
}

/// The innermost cause: "Connection refused" rather than "transport error".
#[must_use]
pub fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    one_line(&cause.to_string())
}

/// An update that a switch refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Its place in the batch.
    pub index: usize,
    /// Its code.
    pub code: Code,
    /// The code and the switch's message, in one line.
    pub reason: String,
}

/// The updates that failed, according to a status.
fn failures(status: &Status) -> Vec<Failure> {
    let failed = details(status).into_iter().enumerate();
    let failed = failed.filter(|(_, error)| error.canonical_code != 0);
    let failure = |(index, error): (usize, p4::Error)| {
        let code = Code::from(error.canonical_code);
        let reason = match one_line(&error.message) {
            text if text.is_empty() => format!("{code:?}"),
            text => format!("{code:?}: {text}"),
        };
        Failure { index, code, reason }
    };
    failed.map(failure).collect()
}

/// The errors of single updates in a status.
fn details(status: &Status) -> Vec<p4::Error> {
    let Ok(status) = rpc::Status::decode(status.details()) else { return Vec::new() };
    let own = |any: &&prost_types::Any| any.type_url.ends_with(&p4::Error::full_name());
    let errors = status.details.iter().filter(own);
    errors.filter_map(|any| p4::Error::decode(any.value.as_slice()).ok()).collect()
}

/// The open stream of a primary controller.
#[derive(Debug)]
pub struct Stream {
    config: Arc<SwitchConfig>,
    /// The client's election ID.
    election_id: u128,
    requests: mpsc::Sender<StreamMessageRequest>,
    responses: Streaming<StreamMessageResponse>,
}

/// An event of the stream.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// This controller is primary.
    Primary,
    /// There is no primary; contains the highest election ID that the switch has seen.
    Vacant(u128),
    /// A frame for the controller's port.
    PacketIn(Vec<u8>),
    /// An error that the switch reports.
    Complaint(String),
}

impl Stream {
    /// The next event.
    ///
    /// # Errors
    /// [`Error::NotPrimary`] once another controller is primary, [`Error::Lost`] at the end.
    pub async fn next(&mut self) -> Result<Event, Error> {
        use stream_message_response::Update;
        loop {
            match self.message().await? {
                Update::Arbitration(update) => return self.arbitrated(&update),
                Update::Packet(packet) => return Ok(Event::PacketIn(packet.payload)),
                Update::Error(error) => return Ok(Event::Complaint(one_line(&error.message))),
                _ => {}
            }
        }
    }

    /// The next message, whatever it is about.
    ///
    /// # Errors
    /// [`Error::NotPrimary`] once another controller is primary, [`Error::Lost`] at the end.
    pub async fn message(&mut self) -> Result<stream_message_response::Update, Error> {
        use stream_message_response::Update;
        loop {
            match self.responses.message().await {
                Ok(Some(response)) => match response.update {
                    Some(Update::Arbitration(update)) => {
                        self.arbitrated(&update)?;
                        return Ok(Update::Arbitration(update));
                    }
                    Some(update) => return Ok(update),
                    None => {}
                },
                Ok(None) => return Err(self.config.lost("the switch closed the stream")),
                Err(status) => return Err(stream_error(&self.config, self.election_id, &status)),
            }
        }
    }

    /// Who is primary, according to the switch.
    fn arbitrated(&self, update: &MasterArbitrationUpdate) -> Result<Event, Error> {
        let code = update.status.as_ref().map_or(0, |status| status.code);
        let id = update.election_id.unwrap_or_default();
        let highest = (u128::from(id.high) << 64) | u128::from(id.low);
        match Code::from(code) {
            Code::Ok => Ok(Event::Primary),
            Code::NotFound => Ok(Event::Vacant(highest)),
            _ => Err(Error::NotPrimary {
                switch: self.config.name.clone(),
                primary: highest,
                own: self.election_id,
            }),
        }
    }

    /// Sends a message to the switch.
    ///
    /// # Errors
    /// [`Error::Lost`] if the stream is closed.
    pub async fn send(&self, update: stream_message_request::Update) -> Result<(), Error> {
        let sent = self.requests.send(StreamMessageRequest { update: Some(update) }).await;
        sent.map_err(|_| self.config.lost("the stream closed"))
    }

    /// A sender for frames into the switch at the controller's port.
    #[must_use]
    pub fn packets(&self) -> PacketSender {
        PacketSender { config: self.config.clone(), requests: self.requests.clone() }
    }
}

/// Sends frames into a switch at the controller's port.
#[derive(Clone, Debug)]
pub struct PacketSender {
    config: Arc<SwitchConfig>,
    requests: mpsc::Sender<StreamMessageRequest>,
}

impl PacketSender {
    /// Sends a frame.
    ///
    /// # Errors
    /// [`Error::Lost`] if the stream is closed.
    pub async fn send(&self, frame: Vec<u8>) -> Result<(), Error> {
        let packet = PacketOut { payload: frame, ..PacketOut::default() };
        let update = Some(stream_message_request::Update::Packet(packet));
        let sent = self.requests.send(StreamMessageRequest { update }).await;
        sent.map_err(|_| self.config.lost("the stream closed"))
    }
}

fn stream_error(config: &SwitchConfig, own: u128, status: &Status) -> Error {
    let switch = config.name.clone();
    match status.code() {
        // Switches use these codes if another controller has the election ID.
        Code::InvalidArgument | Code::AlreadyExists | Code::PermissionDenied => {
            Error::NotPrimary { switch, primary: own, own }
        }
        Code::NotFound => {
            Error::Device { switch, device: config.device_id, reason: reason(status) }
        }
        _ => config.lost(config.reason(status)),
    }
}
