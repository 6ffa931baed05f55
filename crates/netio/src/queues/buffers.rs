//! Memory that the sockets of a thread use one after the other.
//!
//! A switch's thread receives from each of its ports in turn, and then sends to each. With buffers of their
//! own, the ports would need a multiple of what the processor's second-level cache holds, and each copy would go to
//! memory. So a socket has buffers only while there are frames in them, and takes those that were used last. A
//! thread keeps a limited number of them until it ends.

use std::cell::RefCell;

/// Most buffers that a thread keeps. Without a limit, a thread that empties sockets which another thread fills would
/// keep more and more of them.
const MOST: usize = 32;

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
            // A thread that is ending has no list any more: the memory is freed.
            let _ = FREE.try_with(|free| {
                let mut free = free.borrow_mut();
                if free.len() < MOST {
                    free.push(memory);
                }
            });
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

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Vec<usize> {
        FREE.with_borrow(|free| free.iter().map(|memory| memory.len()).collect())
    }

    /// In a thread of its own, because of what other tests leave behind.
    #[test]
    fn what_was_used_last_is_used_next_by_those_of_its_size() {
        let test = || {
            let [mut one, mut two] = [Buffers::new(100), Buffers::new(100)];
            let mut other = Buffers::new(200);
            let [first, second] = [one.get().as_ptr(), two.get().as_ptr()];
            assert!(first != second, "both are in use");
            assert_eq!(one.get().as_ptr(), first, "until it is given back");
            one.get()[7] = 9;
            one.give_back();
            one.give_back();
            assert_eq!(kept(), [100], "once");
            assert_eq!(other.get().len(), 200);
            two.give_back();
            other.give_back();
            assert_eq!(one.get().as_ptr(), second);
            assert_eq!((two.get().as_ptr(), two.get()[7]), (first, 9));
            assert_eq!(kept(), [200]);
            // A closed socket's memory is freed.
            drop((one, two));
            assert_eq!(kept(), [200]);
        };
        std::thread::spawn(test).join().unwrap();
    }

    #[test]
    fn a_thread_keeps_a_limited_number() {
        let test = || {
            let mut many: Vec<Buffers> = (0..2 * MOST).map(|_| Buffers::new(10)).collect();
            for buffers in &mut many {
                buffers.get();
            }
            many.iter_mut().for_each(Buffers::give_back);
            assert_eq!(kept().len(), MOST);
        };
        std::thread::spawn(test).join().unwrap();
    }
}
