//! Interfaces that are down for a while.

use std::io;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::sys;

/// How often to look whether an interface is up again.
const LOOK: Duration = Duration::from_millis(10);

/// Turns the errors of an interface that is down into losses, as on a cable that is unplugged, until it
/// has been down for too long. Its socket works again by itself when the interface is up.
#[derive(Debug)]
pub(crate) struct Outage {
    interface: String,
    /// In the namespace of the interface, for questions about it.
    socket: Socket,
    patience: Duration,
    /// While it is down: since when, and when that was last looked at.
    down: Option<(Instant, Instant)>,
}

impl Outage {
    /// For an interface of the calling thread's network namespace.
    pub(crate) fn new(interface: &str, patience: Duration) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        Ok(Self { interface: interface.to_owned(), socket, patience, down: None })
    }

    /// The result of an operation, or `lost` if it failed because the interface is down.
    pub(crate) fn bear<T>(&mut self, result: io::Result<T>, lost: T) -> io::Result<T> {
        match (result, self.down) {
            (Err(error), known) if error.kind() == io::ErrorKind::NetworkDown => {
                let now = Instant::now();
                if known.is_none() {
                    tracing::warn!(%error, "frames are lost while the interface is down");
                }
                let (since, _) = *self.down.get_or_insert((now, now));
                if now - since < self.patience { Ok(lost) } else { Err(error) }
            }
            (Ok(value), Some((since, looked))) if looked.elapsed() >= LOOK => {
                if sys::is_up(&self.socket, &self.interface) {
                    tracing::info!("network interface `{}` is up again", self.interface);
                    self.down = None;
                } else if since.elapsed() >= self.patience {
                    // The kernel reports this to a socket that only receives once, when it happens.
                    return Err(self.over());
                } else {
                    self.down = Some((since, Instant::now()));
                }
                Ok(value)
            }
            (result, _) => result,
        }
    }

    fn over(&self) -> io::Error {
        let Self { interface, patience, .. } = self;
        let text = format!("network interface `{interface}` has been down for {patience:?}");
        io::Error::new(io::ErrorKind::NetworkDown, text)
    }
}
