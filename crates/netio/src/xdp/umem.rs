//! The memory for frames of the sockets of a switch, or of a single socket.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::sys::memory::{Area, Chunk};

/// An area, and its chunks that no socket holds.
#[derive(Debug)]
pub(super) struct Umem {
    pub(super) area: Area,
    free: Mutex<Vec<Chunk>>,
}

impl Umem {
    /// Allocates `count` chunks of `chunk_size` bytes.
    pub(super) fn new(count: usize, chunk_size: usize) -> io::Result<Self> {
        let (area, free) = Area::new(count, chunk_size)?;
        Ok(Self { area, free: Mutex::new(free) })
    }

    /// Moves up to `count` chunks to the end of `into`.
    pub(super) fn take(&self, count: usize, into: &mut Vec<Chunk>) {
        let mut free = self.lock();
        let rest = free.len().saturating_sub(count);
        into.extend(free.drain(rest..));
    }

    /// Takes back the chunks of `from` after the first `keep`.
    pub(super) fn give(&self, keep: usize, from: &mut Vec<Chunk>) {
        if from.len() > keep {
            self.lock().extend(from.drain(keep..));
        }
    }

    /// The sockets of one switch are used by one thread, so the lock is rarely contended.
    fn lock(&self) -> MutexGuard<'_, Vec<Chunk>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_lent_to_sockets_and_come_back() {
        let umem = Umem::new(10, 2048).unwrap();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        umem.take(6, &mut first);
        umem.take(6, &mut second);
        assert_eq!((first.len(), second.len()), (6, 4), "no more than there are");
        umem.give(4, &mut first);
        assert_eq!(first.len(), 4);
        umem.take(6, &mut second);
        assert_eq!(second.len(), 6);
        let mut addresses: Vec<u64> =
            first.into_iter().chain(second).map(|chunk| umem.area.lend(chunk)).collect();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 10, "each once");
    }
}
