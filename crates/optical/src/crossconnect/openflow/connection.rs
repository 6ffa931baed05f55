//! A connection to a device: numbers its requests, pairs them with answers, and keeps it alive.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, WriteHalf};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;

use super::wire::{self, Body, Flow, HEADER, Message, Part, Request, Xid};

/// A stream of bytes to a device.
pub(super) trait Stream: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin> Stream for T {}

/// Changes of flows between two barriers.
const BATCH: usize = 64;

/// Answers that may wait to be read: an error for each change of a batch, and more.
const ANSWERS: usize = 2 * BATCH;

/// Limit of the length of an answer in parts. Flows of circuits between 65535 ports take 14 MB.
const BYTES: usize = 64 << 20;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The connection is lost.
    #[error("{0}")]
    Lost(String),
    /// The device refuses.
    #[error("{0}")]
    Refused(String),
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Lost(error.to_string())
    }
}

/// An open connection. Dropping it closes it.
#[derive(Debug)]
pub(super) struct Connection {
    writer: Arc<Mutex<WriteHalf<Box<dyn Stream>>>>,
    answers: mpsc::Receiver<Message>,
    reader: JoinHandle<Failure>,
    last: Xid,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Connection {
    /// Agrees on the version, and checks that the device is a switch.
    pub(super) async fn open(stream: Box<dyn Stream>) -> Result<Self, Failure> {
        let (reader, writer) = tokio::io::split(stream);
        let writer = Arc::new(Mutex::new(writer));
        let (sender, answers) = mpsc::channel(ANSWERS);
        let reader = tokio::spawn(follow(reader, Arc::clone(&writer), sender));
        let mut connection = Self { writer, answers, reader, last: 0 };
        connection.send(&[Request::Hello]).await?;
        loop {
            match connection.next().await?.body {
                Body::Hello { compatible: true } => break,
                Body::Hello { compatible: false } => {
                    connection.send(&[Request::Incompatible]).await?;
                    return Err(Failure::Refused("it does not support OpenFlow 1.3".into()));
                }
                Body::Error { kind, code } => return Err(refusal(kind, code)),
                _ => {}
            }
        }
        let asked = connection.send(&[Request::Features]).await?;
        loop {
            if let Body::Features { datapath } = connection.answer(&asked).await? {
                tracing::info!("connected with OpenFlow datapath {datapath:#018x}");
                return Ok(connection);
            }
        }
    }

    /// Whether the device or the network has closed it.
    pub(super) fn is_closed(&self) -> bool {
        self.reader.is_finished()
    }

    /// Carries out changes of flows in order.
    pub(super) async fn modify(&mut self, changes: &[Request]) -> Result<(), Failure> {
        for batch in changes.chunks(BATCH) {
            let mut batch = batch.to_vec();
            batch.push(Request::Barrier);
            let asked = self.send(&batch).await?;
            while self.answer(&asked).await? != Body::Barrier {}
        }
        Ok(())
    }

    /// All flows of all tables.
    pub(super) async fn flows(&mut self) -> Result<Vec<Flow>, Failure> {
        let part = |body| if let Body::Flows(part) = body { Some(part) } else { None };
        self.collect(Request::Flows, part).await
    }

    /// The numbers of all ports.
    pub(super) async fn ports(&mut self) -> Result<Vec<u32>, Failure> {
        let part = |body| if let Body::Ports(part) = body { Some(part) } else { None };
        self.collect(Request::Ports, part).await
    }

    async fn collect<T>(
        &mut self,
        request: Request,
        part: impl Fn(Body) -> Option<Part<T>>,
    ) -> Result<Vec<T>, Failure> {
        let asked = self.send(&[request]).await?;
        let (mut all, mut bytes) = (Vec::new(), 0);
        loop {
            let Some(mut part) = part(self.answer(&asked).await?) else { continue };
            all.append(&mut part.items);
            bytes += part.bytes;
            if bytes > BYTES {
                let reason = format!("it lists its flows or ports with more than {BYTES} bytes");
                return Err(Failure::Refused(reason));
            }
            if !part.more {
                return Ok(all);
            }
        }
    }

    /// Sends requests. Returns their numbers.
    async fn send(&mut self, requests: &[Request]) -> Result<RangeInclusive<Xid>, Failure> {
        let first = self.last.wrapping_add(1);
        let mut bytes = Vec::new();
        for request in requests {
            self.last = self.last.wrapping_add(1);
            bytes.append(&mut request.bytes(self.last));
        }
        let written = self.writer.lock().await.write_all(&bytes).await;
        match written {
            Ok(()) => Ok(first..=self.last),
            Err(error) => Err(self.lost(error.into()).await),
        }
    }

    /// The next answer to one of these requests. An error is a refusal.
    async fn answer(&mut self, asked: &RangeInclusive<Xid>) -> Result<Body, Failure> {
        loop {
            let message = self.next().await?;
            match message.body {
                _ if !asked.contains(&message.xid) => {}
                Body::Error { kind, code } => return Err(refusal(kind, code)),
                body => return Ok(body),
            }
        }
    }

    async fn next(&mut self) -> Result<Message, Failure> {
        match self.answers.recv().await {
            Some(message) => Ok(message),
            None => Err(self.lost(Failure::Lost("the connection is closed".into())).await),
        }
    }

    /// The reason why the reader has ended, which knows more than others.
    async fn lost(&mut self, otherwise: Failure) -> Failure {
        if !self.reader.is_finished() && !self.answers.is_closed() {
            return otherwise;
        }
        (&mut self.reader).await.unwrap_or(otherwise)
    }
}

/// Reads messages until the connection ends. Answers the device's signs of life at once, even while no
/// request is under way: without answers, devices close the connection.
async fn follow(
    mut reader: impl AsyncRead + Unpin,
    writer: Arc<Mutex<WriteHalf<Box<dyn Stream>>>>,
    answers: mpsc::Sender<Message>,
) -> Failure {
    loop {
        let message = match receive(&mut reader).await {
            Ok(message) => message,
            Err(failure) => return failure,
        };
        match message.body {
            Body::EchoRequest(data) => {
                let reply = Request::EchoReply(data).bytes(message.xid);
                if let Err(error) = writer.lock().await.write_all(&reply).await {
                    return error.into();
                }
            }
            Body::Other(kind) => tracing::debug!("OpenFlow message of type {kind} is ignored"),
            _ => {
                if answers.send(message).await.is_err() {
                    return Failure::Lost("the connection was closed here".into());
                }
            }
        }
    }
}

async fn receive(reader: &mut (impl AsyncRead + Unpin)) -> Result<Message, Failure> {
    let malformed = |error: wire::Malformed| Failure::Refused(error.to_string());
    let mut header = [0; HEADER];
    match reader.read_exact(&mut header).await {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            return Err(Failure::Lost("the device closed the connection".into()));
        }
        result => result?,
    };
    let mut bytes = vec![0; wire::length(header).map_err(malformed)?];
    bytes[..HEADER].copy_from_slice(&header);
    reader.read_exact(&mut bytes[HEADER..]).await?;
    wire::read(&bytes).map_err(malformed)
}

fn refusal(kind: u16, code: u16) -> Failure {
    Failure::Refused(format!("OpenFlow error of type {kind}, code {code}"))
}
