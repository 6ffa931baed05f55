//! Peers that vanish without closing their connections.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

/// Interval between unanswered probes of a host.
const INTERVAL: Duration = Duration::from_secs(1);

/// When a peer that is silent counts as gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Silence {
    /// When its process answers no ping of HTTP/2 for this long.
    OfProcess(Duration),
    /// When its host acknowledges nothing at a TCP connection for this long, in whole seconds. The kernel answers for
    /// a process that is stopped, which can then be silent without limit.
    OfHost(Duration),
}

/// Makes the operating system break a connection whose peer's host is silent for `patience`.
pub(crate) fn watch_host(stream: &TcpStream, patience: Duration) -> io::Result<()> {
    // TCP_USER_TIMEOUT ends both unanswered probes and retransmissions. Probes begin early enough that several fit.
    let idle = (patience / 2).max(INTERVAL);
    let socket = SockRef::from(stream);
    socket.set_tcp_user_timeout(Some(patience))?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(idle).with_interval(INTERVAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn hosts_are_probed_before_their_time_is_over() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        for patience in [1, 2, 10].map(Duration::from_secs) {
            watch_host(&stream, patience).unwrap();
            let socket = SockRef::from(&stream);
            assert!(socket.keepalive().unwrap());
            assert_eq!(socket.tcp_user_timeout().unwrap(), Some(patience));
            let (idle, interval) =
                (socket.tcp_keepalive_time().unwrap(), socket.tcp_keepalive_interval().unwrap());
            assert_eq!((idle <= patience, interval), (true, INTERVAL), "{idle:?} of {patience:?}");
        }
    }
}
