//! Detection of peers that vanish without closing: a host that lost power, a cable that was cut.
//!
//! Channels are idle most of the time, so their messages do not detect this. The operating system
//! probes the peer after a period of silence (TCP keepalive). It also breaks the connection after
//! the same time if data is not acknowledged, instead of after the usual quarter of an hour.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

use crate::driver::channel::Limits;

/// Interval between unanswered probes.
pub(crate) const INTERVAL: Duration = Duration::from_secs(5);

/// Unanswered probes before the connection is broken.
pub(crate) const PROBES: u32 = 3;

/// Makes the operating system break a connection whose peer has vanished.
pub(crate) fn watch(stream: &TcpStream, limits: &Limits) -> io::Result<()> {
    let idle = Duration::from_secs(limits.idle.as_secs().max(1));
    let probes = TcpKeepalive::new().with_time(idle).with_interval(INTERVAL).with_retries(PROBES);
    let socket = SockRef::from(stream);
    socket.set_tcp_user_timeout(Some(idle + PROBES * INTERVAL))?;
    socket.set_tcp_keepalive(&probes)
}
