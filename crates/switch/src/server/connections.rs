//! Limits of connections, and of the work in progress on each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tonic::Status;
use tonic::codegen::http;
use tributary_access::connection::Peer;
use tributary_base::connections::ConnectionId;

/// Reads in progress per connection: those whose answers were not all taken yet.
const READS_PER_CONNECTION: usize = 16;

/// Reads in progress on all connections together.
const READS: usize = 64;

/// Additional reads for a connection with a primary controller's stream, so that others cannot keep
/// the controller from reading.
const READS_OF_PRIMARY: usize = 4;

/// Bytes of incomplete messages, per connection and in total. Messages below [`SMALL`] are not
/// counted: the calls of a connection are bounded.
const UNFINISHED_PER_CONNECTION: usize = 32 << 20;
const UNFINISHED: usize = 64 << 20;
const SMALL: usize = 64 << 10;

/// The connection that a request came on.
pub(super) fn connection(extensions: &http::Extensions) -> ConnectionId {
    extensions.get::<Peer>().map(|peer| peer.connection).unwrap_or_default()
}

/// Counters over all connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    reads: Mutex<Reads>,
    unfinished: Mutex<Unfinished>,
}

#[derive(Debug, Default)]
struct Unfinished {
    /// Total of all connections but the controller's.
    shared: usize,
    of: HashMap<ConnectionId, usize>,
}

#[derive(Debug, Default)]
struct Reads {
    shared: usize,
    of: HashMap<ConnectionId, usize>,
}

impl Connections {
    fn reads(&self) -> MutexGuard<'_, Reads> {
        // A panic elsewhere leaves correct counts.
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to count the bytes held by a call.
    pub(super) fn hold(self: &Arc<Self>, connection: ConnectionId) -> Held {
        Held { connections: self.clone(), connection, bytes: 0, shared: 0 }
    }

    /// Begins a read, unless too many are in progress on the connection or in total.
    pub(super) fn read(
        self: &Arc<Self>,
        connection: ConnectionId,
        primary: bool,
    ) -> Result<Reading, Status> {
        let mut reads = self.reads();
        let own = reads.of.get(&connection).copied().unwrap_or(0);
        if own >= READS_PER_CONNECTION {
            let message = format!(
                "{own} reads of this connection are under way: take their answers, or cancel them"
            );
            return Err(Status::resource_exhausted(message));
        }
        let shared = !(primary && own < READS_OF_PRIMARY);
        if shared && reads.shared >= READS {
            let message =
                format!("{READS} reads of all connections are under way: try again later");
            return Err(Status::resource_exhausted(message));
        }
        reads.shared += usize::from(shared);
        *reads.of.entry(connection).or_default() += 1;
        drop(reads);
        Ok(Reading { connections: self.clone(), connection, shared })
    }
}

/// A read in progress.
#[derive(Debug)]
pub(super) struct Reading {
    connections: Arc<Connections>,
    connection: ConnectionId,
    shared: bool,
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut reads = self.connections.reads();
        reads.shared -= usize::from(self.shared);
        if let Some(own) = reads.of.get_mut(&self.connection) {
            *own -= 1;
            if *own == 0 {
                reads.of.remove(&self.connection);
            }
        }
    }
}

/// The bytes held by an incomplete message.
#[derive(Debug)]
pub(super) struct Held {
    connections: Arc<Connections>,
    connection: ConnectionId,
    bytes: usize,
    /// The part that counts towards the total.
    shared: usize,
}

impl Held {
    /// Sets the number of bytes held. The controller's connection has separate room.
    pub(super) fn set(
        &mut self,
        bytes: usize,
        is_controller: impl FnOnce(ConnectionId) -> bool,
    ) -> Result<(), Status> {
        let bytes = bytes.saturating_sub(SMALL);
        if bytes == self.bytes {
            return Ok(());
        }
        let shared = if bytes > 0 && is_controller(self.connection) { 0 } else { bytes };
        let unfinished = &self.connections.unfinished;
        let mut all = unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.of.get(&self.connection).copied().unwrap_or(0) - self.bytes + bytes;
        let total = all.shared - self.shared + shared;
        let grows = bytes > self.bytes;
        if grows && (own > UNFINISHED_PER_CONNECTION || (shared > 0 && total > UNFINISHED)) {
            let message = "too many large messages are under way: send them one after another";
            return Err(Status::resource_exhausted(message));
        }
        all.shared = total;
        match own {
            0 => drop(all.of.remove(&self.connection)),
            own => drop(all.of.insert(self.connection, own)),
        }
        (self.bytes, self.shared) = (bytes, shared);
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Holding nothing is never refused.
        drop(self.set(0, |_| false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(of: &Arc<Connections>, connection: u64, primary: bool) -> bool {
        let read = of.read(ConnectionId(connection), primary);
        read.is_err_and(|status| status.code() == tonic::Code::ResourceExhausted)
    }

    #[test]
    fn reads_are_bounded_by_connection_and_in_total() {
        let all = Arc::new(Connections::default());
        let take = |connection| all.read(ConnectionId(connection), false).unwrap();
        let mut first: Vec<Reading> = (0..READS_PER_CONNECTION).map(|_| take(1)).collect();
        assert!(refused(&all, 1, false) && refused(&all, 1, true));
        let others: Vec<Reading> =
            (READS_PER_CONNECTION..READS).map(|i| take(2 + i as u64 / 16)).collect();
        assert!(refused(&all, 100, false));
        // The controller has additional ones.
        let own: Vec<Reading> =
            (0..READS_OF_PRIMARY).map(|_| all.read(ConnectionId(100), true).unwrap()).collect();
        assert!(refused(&all, 100, true));
        first.pop();
        drop(take(1));
        drop((first, others, own));
        assert!(all.reads().of.is_empty() && all.reads().shared == 0);
    }

    #[test]
    fn unfinished_messages_are_bounded_by_connection_and_in_total() {
        let all = Arc::new(Connections::default());
        let large = 16 << 20;
        let hold = |connection: u64, controller: bool| {
            let mut held = all.hold(ConnectionId(connection));
            let taken = held.set(large + SMALL, |_| controller);
            (held, taken.map_err(|status| status.code()))
        };
        let full = Err(tonic::Code::ResourceExhausted);
        let first: Vec<_> = (0..3).map(|_| hold(1, false)).collect();
        assert_eq!(first.iter().map(|held| held.1).collect::<Vec<_>>(), [Ok(()), Ok(()), full]);
        let second: Vec<_> = (0..2).map(|_| hold(2, false)).collect();
        assert!(second.iter().all(|held| held.1.is_ok()));
        assert_eq!(hold(3, false).1, full);
        assert_eq!(hold(3, true).1, Ok(()), "the controller has room of its own");
        let mut small = all.hold(ConnectionId(3));
        small.set(SMALL, |_| false).unwrap();
        drop((first, second, small));
        let left = all.unfinished.lock().unwrap();
        assert!(left.of.is_empty() && left.shared == 0);
    }
}
