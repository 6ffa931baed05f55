//! Reading messages from a connection.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout_at};
use tributary_wire::channel::{self, split_frame};

/// Why no message came.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The peer closed the connection between two messages.
    #[error("it closed the connection")]
    Closed,
    /// The connection broke, or was closed in the middle of a message.
    #[error("the connection broke: {0}")]
    Broken(io::Error),
    /// A message was not completed in time.
    #[error("it began a message and did not end it within {0:?}")]
    Stalled(Duration),
    /// The bytes are not a valid message.
    #[error("it sent garbage: {0}")]
    Garbage(#[from] channel::Error),
}

/// Splits a stream into the bodies of messages.
#[derive(Debug)]
pub(crate) struct Bodies<S> {
    stream: S,
    received: BytesMut,
}

impl<S: AsyncRead + Unpin> Bodies<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, received: BytesMut::new() }
    }

    /// The next body, of at most `longest` bytes. Waits for its first byte without limit, then at
    /// most `patience` for the rest.
    pub(crate) async fn next(
        &mut self,
        longest: usize,
        patience: Duration,
    ) -> Result<Bytes, ReadError> {
        let mut deadline = None;
        loop {
            if let Some(body) = split_frame(&mut self.received, longest)? {
                return Ok(body);
            }
            if deadline.is_none() && !self.received.is_empty() {
                deadline = Some(Instant::now() + patience);
            }
            self.received.reserve(8 << 10);
            let read = self.stream.read_buf(&mut self.received);
            let read = match deadline {
                None => read.await,
                Some(at) => timeout_at(at, read).await.map_err(|_| ReadError::Stalled(patience))?,
            };
            let read = match read {
                // Without a farewell in TLS.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
                read => read.map_err(ReadError::Broken)?,
            };
            match read {
                0 if self.received.is_empty() => return Err(ReadError::Closed),
                0 => return Err(ReadError::Broken(io::ErrorKind::UnexpectedEof.into())),
                _ => {}
            }
        }
    }
}
