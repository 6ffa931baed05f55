//! Stores every state of a part, every packet and every message once under a number, and computes
//! every step of a part once.
//!
//! A state of the whole system is then a few numbers, and a repeated step is a table lookup. (Spin
//! calls that collapse compression; here it also reduces the number of executions of the real
//! code.)

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, RwLock};

/// Numbers by name, items by number.
type Named<T> = (HashMap<String, u32>, Vec<Arc<T>>);

/// Numbered items.
#[derive(Debug)]
pub(crate) struct Store<T> {
    inner: RwLock<Named<T>>,
}

impl<T> Default for Store<T> {
    fn default() -> Self {
        Self { inner: RwLock::new((HashMap::new(), Vec::new())) }
    }
}

impl<T> Store<T> {
    /// The number of an item, and whether it is new. Items with the same name are equal.
    pub(crate) fn put(&self, name: String, thing: T) -> (u32, bool) {
        if let Some(&number) = self.inner.read().unwrap().0.get(&name) {
            return (number, false);
        }
        let (names, things) = &mut *self.inner.write().unwrap();
        let mut new = false;
        let number = *names.entry(name).or_insert_with(|| {
            new = true;
            things.push(Arc::new(thing));
            things.len() as u32 - 1
        });
        (number, new)
    }

    pub(crate) fn get(&self, number: u32) -> Arc<T> {
        Arc::clone(&self.inner.read().unwrap().1[number as usize])
    }

    pub(crate) fn len(&self) -> usize {
        self.inner.read().unwrap().1.len()
    }
}

const SHARDS: usize = 64;

/// Cached results.
#[derive(Debug)]
pub(crate) struct Memo<K, V> {
    shards: Vec<RwLock<HashMap<K, V>>>,
}

impl<K: Hash + Eq + Copy, V: Clone> Memo<K, V> {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| RwLock::default()).collect() }
    }

    /// Returns the cached result, or computes it. Two threads may both compute it, with the same
    /// result.
    pub(crate) fn get(&self, key: K, shard: u64, find_out: impl FnOnce() -> V) -> V {
        let shard = &self.shards[shard as usize % SHARDS];
        if let Some(value) = shard.read().unwrap().get(&key) {
            return value.clone();
        }
        let value = find_out();
        shard.write().unwrap().entry(key).or_insert(value).clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().unwrap().len()).sum()
    }
}
