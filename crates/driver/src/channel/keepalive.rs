//! Noticing peers that are gone without a word: a host that lost its power, a cable that was cut.
//!
//! Most of the time nothing goes over a channel, and its peers say nothing to each other that would
//! show that they are still there. So the operating system asks, after a while of silence and then
//! some times more. It gives up data that nobody acknowledges after the same time, instead of after
//! the quarter of an hour that is usual.

use std::io;
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{
    KeepAlive, TcpKeepCount, TcpKeepIdle, TcpKeepInterval, TcpUserTimeout,
};
use tokio::net::TcpStream;

use crate::channel::Limits;

/// Between two questions that are not answered.
pub(crate) const INTERVAL: Duration = Duration::from_secs(5);

/// Questions that go without an answer before the connection is broken.
pub(crate) const PROBES: u32 = 3;

/// Has the operating system break a connection whose peer is gone for long.
pub(crate) fn watch(stream: &TcpStream, limits: &Limits) -> io::Result<()> {
    let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX).max(1);
    let (idle, interval) = (seconds(limits.idle), seconds(INTERVAL));
    let gone = Duration::from_secs(idle.into()) + PROBES * INTERVAL;
    setsockopt(stream, TcpKeepIdle, &idle)?;
    setsockopt(stream, TcpKeepInterval, &interval)?;
    setsockopt(stream, TcpKeepCount, &PROBES)?;
    setsockopt(stream, TcpUserTimeout, &u32::try_from(gone.as_millis()).unwrap_or(u32::MAX))?;
    setsockopt(stream, KeepAlive, &true)?;
    Ok(())
}
