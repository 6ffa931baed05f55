//! Limits on the connections of a server: their number, and the time to the first message.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{self, AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::server::Connected;

/// Time for a client to send the HTTP/2 preface and an empty SETTINGS frame (RFC 9113 §3.4). After
/// that the server's keepalive detects clients that are gone.
const GREETING: Duration = Duration::from_secs(10);
const GREETING_BYTES: usize = 24 + 9;

/// Pause after a failure to accept a connection, which mostly means that too many files are open.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections while fewer than `most` are open, and closes any other at once.
///
/// Failures to accept are logged, not returned. They end when other connections close, whereas
/// ending the server would disconnect all clients.
pub fn bounded<IO>(
    streams: impl Stream<Item = io::Result<IO>>,
    most: usize,
) -> impl Stream<Item = io::Result<Connection<IO>>> {
    let places = Arc::new(Semaphore::new(most));
    let streams = streams.then(async |stream: io::Result<IO>| {
        if let Err(error) = &stream {
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(PAUSE).await;
        }
        stream
    });
    streams.filter_map(move |stream| {
        let io = stream.ok()?;
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::warn!("too many connections: one is closed");
            return None;
        };
        let mut connection = Connection::new(io, ConnectionId::next());
        connection.occupy(place);
        Some(Ok(connection))
    })
}

/// The number of a connection, in the order in which this process accepted them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A stream, and information about its client. Reading fails if the client's greeting does not come in time.
#[derive(Debug)]
pub struct Connection<IO, Info = ConnectionId> {
    io: IO,
    info: Info,
    /// Deadline of the greeting; `None` once it has arrived.
    deadline: Option<Pin<Box<Sleep>>>,
    heard: usize,
    /// Permits that it holds until it ends.
    places: Vec<OwnedSemaphorePermit>,
}

impl<IO, Info> Connection<IO, Info> {
    /// The time begins now, in the calling Tokio runtime.
    pub fn new(io: IO, info: Info) -> Self {
        let deadline = Some(Box::pin(tokio::time::sleep(GREETING)));
        Self { io, info, deadline, heard: 0, places: Vec::new() }
    }

    /// The information about its client.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// What is below.
    pub fn get_ref(&self) -> &IO {
        &self.io
    }

    /// The same connection with its stream wrapped, and with other information about its client.
    pub fn map<Outer, Other>(
        self,
        wrap: impl FnOnce(IO) -> Outer,
        info: Other,
    ) -> Connection<Outer, Other> {
        let Self { io, deadline, heard, places, .. } = self;
        Connection { io: wrap(io), info, deadline, heard, places }
    }

    /// Keeps a place until the connection ends.
    pub fn occupy(&mut self, place: OwnedSemaphorePermit) {
        self.places.push(place);
    }
}

impl<IO, Info: Clone + Send + Sync + 'static> Connected for Connection<IO, Info> {
    type ConnectInfo = Info;

    fn connect_info(&self) -> Info {
        self.info.clone()
    }
}

impl<IO: AsyncRead + Unpin, Info: Unpin> AsyncRead for Connection<IO, Info> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.io).poll_read(context, buffer);
        if let Some(deadline) = &mut this.deadline {
            this.heard += buffer.filled().len() - before;
            if this.heard >= GREETING_BYTES {
                this.deadline = None;
            } else if deadline.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        read
    }
}

impl<IO: AsyncWrite + Unpin, Info: Unpin> AsyncWrite for Connection<IO, Info> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    fn pairs(count: usize) -> (Vec<DuplexStream>, Vec<io::Result<DuplexStream>>) {
        (0..count).map(|_| duplex(64)).map(|(near, far)| (near, Ok(far))).unzip()
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_say_too_little_are_given_up_and_make_room() {
        let (mut clients, mut accepted) = pairs(4);
        accepted.insert(1, Err(io::Error::other("too many open files")));
        let mut streams = std::pin::pin!(bounded(tokio_stream::iter(accepted), 2));
        let mut first = streams.next().await.unwrap().unwrap();
        let mut second = streams.next().await.unwrap().unwrap();
        clients[0].write_all(&[1; GREETING_BYTES]).await.unwrap();
        clients[1].write_all(&[1; GREETING_BYTES - 1]).await.unwrap();
        let mut buffer = [0; GREETING_BYTES];
        first.read_exact(&mut buffer).await.unwrap();
        second.read_exact(&mut buffer[1..]).await.unwrap();
        let silent = second.read_u8().await.unwrap_err();
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
        drop(second);
        // Another connection was closed, so there is room for this one.
        let third = streams.next().await.unwrap().unwrap();
        assert!(streams.next().await.is_none(), "the fourth is closed");
        drop(third);
        tokio::time::sleep(10 * GREETING).await;
        clients[0].write_u8(7).await.unwrap();
        assert_eq!(first.read_u8().await.unwrap(), 7, "who has greeted may be silent");
    }
}
