//! Detection of peers that vanish without closing: a host that lost power, a cable that was cut.
//!
//! Channels are idle most of the time, so their messages do not detect this. The operating system
//! probes the peer after a period of silence (TCP keepalive). It also breaks the connection after
//! the same time if data is not acknowledged, instead of after the usual quarter of an hour.

use std::io;
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{
    KeepAlive, TcpKeepCount, TcpKeepIdle, TcpKeepInterval, TcpUserTimeout,
};
use tokio::net::TcpStream;

use crate::channel::Limits;

/// Interval between unanswered probes.
pub(crate) const INTERVAL: Duration = Duration::from_secs(5);

/// Unanswered probes before the connection is broken.
pub(crate) const PROBES: u32 = 3;

/// Makes the operating system break a connection whose peer has vanished.
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
