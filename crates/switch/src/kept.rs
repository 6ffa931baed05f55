//! Results that a process computes once, and keeps for all that need the same.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// A limited number of results, by key.
#[derive(Debug)]
pub struct Kept<K, V> {
    most: usize,
    all: Mutex<VecDeque<(K, Arc<V>)>>,
}

impl<K: PartialEq, V> Kept<K, V> {
    /// Keeps at most so many results. The oldest makes room for another.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { most, all: Mutex::new(VecDeque::new()) }
    }

    /// The result for a key. While one thread computes, all others wait, so that none computes the same
    /// again.
    ///
    /// # Errors
    /// Those of `compute`, which are not kept.
    pub fn get<E>(&self, key: K, compute: impl FnOnce() -> Result<V, E>) -> Result<Arc<V>, E> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = all.iter().find(|(known, _)| *known == key) {
            return Ok(Arc::clone(known));
        }
        let result = Arc::new(compute()?);
        if all.len() >= self.most {
            all.pop_front();
        }
        all.push_back((key, Arc::clone(&result)));
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn threads_that_need_the_same_compute_it_once() {
        let (kept, computed) = (Kept::new(2), AtomicU32::new(0));
        let get = |key: u32| {
            let compute = || Ok::<_, ()>(10 * key + computed.fetch_add(1, Ordering::Relaxed));
            *kept.get(key, compute).unwrap()
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| get(1))).collect();
            threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), 10));
        });
        assert_eq!([get(2), get(1), get(3)], [21, 10, 32]);
        // The first has made room.
        assert_eq!([get(2), get(1)], [21, 13]);
    }

    #[test]
    fn an_error_is_not_kept() {
        let kept = Kept::new(1);
        assert_eq!(kept.get(1, || Err::<u32, _>("no")), Err("no"));
        assert_eq!(kept.get(1, || Ok::<_, &str>(5)).as_deref(), Ok(&5));
    }
}
