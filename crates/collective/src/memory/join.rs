//! How ranks come by the memory that they share, and notice when another one is gone.
//!
//! The first rank listens at an abstract Unix socket, which processes of the same network namespace can reach, and
//! hands the memory to each rank that connects and has the same user. The connections stay open: one ends with the
//! process at its other end.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rand::RngCore as _;
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::geteuid;

use super::segment::Segment;

/// Bytes of the name of a socket, which are chosen at random.
const NAME: usize = 12;

/// Time for a rank to say which one it is.
const PATIENCE: Duration = Duration::from_secs(5);

/// The shortest time for the first rank to hand out the memory.
const SHORTEST: Duration = Duration::from_secs(1);

/// The first rank's way in for the others.
pub(super) struct Entrance {
    name: String,
    listener: UnixListener,
    file: OwnedFd,
}

/// The connections of a rank: one to the first rank, or that of the first one to each other.
pub(super) struct Connections {
    entrance: Option<Entrance>,
    /// Each with the rank at its other end.
    streams: Vec<(usize, UnixStream)>,
    ranks: usize,
}

/// What the watch over connections finds.
pub(super) enum Found {
    /// A rank's connection has ended.
    Gone(usize),
    /// This rank's own end was closed.
    Closed,
}

fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}

impl Entrance {
    pub(super) fn open(ranks: usize) -> Result<(Self, Segment)> {
        let (segment, file) = Segment::create(ranks).context("cannot make memory to share")?;
        let mut random = [0; NAME];
        rand::rng().fill_bytes(&mut random);
        let name = random.iter().map(|byte| format!("{byte:02x}"));
        let name = format!("tributary-{}", name.collect::<String>());
        let listener = UnixListener::bind_addr(&address(&name)?);
        let listener = listener.context("cannot listen at a Unix socket")?;
        Ok((Self { name, listener, file }, segment))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Lets a rank in.
    fn admit(&self, mut stream: UnixStream, ranks: usize) -> Result<(usize, UnixStream)> {
        check_user(&stream)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut rank = [0; 2];
        stream.read_exact(&mut rank)?;
        let rank = usize::from(u16::from_le_bytes(rank));
        ensure!(rank > 0 && rank < ranks, "there is no rank {rank}");
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [self.file.as_fd()];
        control.push(SendAncillaryMessage::ScmRights(&files));
        sendmsg(&stream, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
        Ok((rank, stream))
    }
}

fn check_user(stream: &UnixStream) -> Result<()> {
    let user = socket_peercred(stream)?.uid;
    ensure!(user == geteuid(), "the process at the other end is another user's");
    Ok(())
}

/// Joins the group of the first rank whose socket has this name.
pub(super) fn join(
    name: &str,
    rank: usize,
    ranks: usize,
    timeout: Duration,
) -> Result<(Connections, Segment)> {
    let connect = || -> Result<_> {
        let mut stream = UnixStream::connect_addr(&address(name)?)?;
        check_user(&stream)?;
        stream.write_all(&u16::try_from(rank)?.to_le_bytes())?;
        stream.set_read_timeout(Some(timeout.max(SHORTEST)))?;
        let segment = Segment::open(receive_file(&stream)?, ranks)?;
        Ok((Connections { entrance: None, streams: vec![(0, stream)], ranks }, segment))
    };
    connect().context("cannot share memory with the first rank")
}

fn receive_file(stream: &UnixStream) -> Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    loop {
        let mut bytes = [IoSliceMut::new(&mut byte)];
        match recvmsg(stream, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC) {
            // The process has handled a signal.
            Err(Errno::INTR) => {}
            received => {
                received?;
                break;
            }
        };
    }
    let files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    files.into_iter().next().context("it has handed out no memory")
}

impl Connections {
    pub(super) fn of_first(entrance: Entrance, ranks: usize) -> Self {
        Self { entrance: Some(entrance), streams: Vec::new(), ranks }
    }

    /// Waits for a connection to end, or for `closing` to be readable. The first rank lets the others in meanwhile.
    pub(super) fn watch(&mut self, closing: &UnixStream) -> io::Result<Found> {
        loop {
            if self.streams.len() + 1 == self.ranks {
                // No one else comes.
                self.entrance = None;
            }
            let [mut closed, mut someone] = [false; 2];
            let gone = {
                let mut watched = vec![PollFd::new(closing, PollFlags::IN)];
                watched.extend(self.streams.iter().map(|(_, io)| PollFd::new(io, PollFlags::IN)));
                watched.extend(
                    self.entrance.iter().map(|at| PollFd::new(&at.listener, PollFlags::IN)),
                );
                match poll(&mut watched, None) {
                    Err(Errno::INTR) => continue,
                    result => result?,
                };
                let ready = |at: usize| watched.get(at).is_some_and(|fd| !fd.revents().is_empty());
                closed |= ready(0);
                someone |= ready(1 + self.streams.len());
                (0..self.streams.len()).find(|at| ready(1 + at))
            };
            if closed {
                return Ok(Found::Closed);
            }
            if let Some(gone) = gone {
                return Ok(Found::Gone(self.streams.swap_remove(gone).0));
            }
            if let Some(entrance) = self.entrance.as_ref().filter(|_| someone) {
                // If there are too many files, for instance, no other rank can join.
                let (stream, _) = entrance.listener.accept()?;
                match entrance.admit(stream, self.ranks) {
                    Ok((rank, _)) if self.streams.iter().any(|(other, _)| *other == rank) => {
                        tracing::warn!("a second process claims to be rank {rank}");
                    }
                    Ok(rank) => self.streams.push(rank),
                    Err(error) => tracing::warn!("a process was not let in: {error:#}"),
                }
            }
        }
    }

    /// Ends all connections.
    pub(super) fn shut_down(&self) {
        for (_, stream) in &self.streams {
            // The other end may be gone.
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}
