//! Every state of a part, every packet and every message exists once and has a number, and every
//! step of a part is taken once.
//!
//! A state of the whole is then a handful of numbers, and a step of the whole is, but for the first
//! time, a look into a table. (Spin calls that collapse compression; here it also keeps the
//! number of times that the real code must run small.)

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, RwLock};

/// Numbers by name, things by number.
type Named<T> = (HashMap<String, u32>, Vec<Arc<T>>);

/// Things with numbers.
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
    /// The number of a thing, and whether it was not there before. Things with the same name are
    /// the same.
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

/// What was found out once.
#[derive(Debug)]
pub(crate) struct Memo<K, V> {
    shards: Vec<RwLock<HashMap<K, V>>>,
}

impl<K: Hash + Eq + Copy, V: Clone> Memo<K, V> {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| RwLock::default()).collect() }
    }

    /// Finds out, unless that was done before. Two threads may both do it: they find the same.
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
