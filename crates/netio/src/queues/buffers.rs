//! Memory that the sockets of a thread use one after the other.
//!
//! A switch's thread receives from each of its ports in turn, and then sends to each. With buffers of their
//! own, the ports would need a multiple of what the processor's second-level cache holds, and each copy would go to
//! memory. So a socket has buffers only while there are frames in them, and takes those that were used last.

use std::cell::RefCell;

thread_local! {
    /// What no socket of the thread uses, the last used at the end.
    static FREE: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// Memory of a fixed size, with any content.
#[derive(Debug)]
pub(super) struct Buffers {
    size: usize,
    memory: Option<Box<[u8]>>,
}

impl Buffers {
    pub(super) const fn new(size: usize) -> Self {
        Self { size, memory: None }
    }

    /// The memory.
    #[inline]
    pub(super) fn get(&mut self) -> &mut [u8] {
        let size = self.size;
        self.memory.get_or_insert_with(|| take(size))
    }

    /// Leaves the memory to other sockets: nothing in it is needed any more.
    #[inline]
    pub(super) fn give_back(&mut self) {
        if let Some(memory) = self.memory.take() {
            // Without thread-local storage, which is so when the thread ends, it is freed.
            let _ = FREE.try_with(|free| free.borrow_mut().push(memory));
        }
    }
}

fn take(size: usize) -> Box<[u8]> {
    let reused = FREE.try_with(|free| {
        let mut free = free.borrow_mut();
        let at = free.iter().rposition(|memory| memory.len() == size)?;
        Some(free.remove(at))
    });
    reused.ok().flatten().unwrap_or_else(|| vec![0; size].into())
}
