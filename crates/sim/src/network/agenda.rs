//! Events in the order of their times, and of their insertion at equal times.
//!
//! Most events of a network are microseconds ahead: a frame leaves, or arrives. These wait in a
//! ring with one list per nanosecond, so that neither inserting nor removing compares anything. The
//! others wait in a heap, and move to the ring when their time is near. They do so before any
//! event can be inserted for their time directly, which keeps the order of insertion.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nanoseconds that the ring covers: a power of two.
const SPAN: usize = 1 << 13;

/// Words of the ring's map of times with events.
const WORDS: usize = SPAN / 64;

/// The agenda.
#[derive(Debug)]
pub(super) struct Agenda<E> {
    /// No event is earlier.
    now: u64,
    /// Events from `now` on, for less than [`SPAN`], by time modulo `SPAN`. Times with events have a
    /// bit in `map`, and each word of it that is not zero has one in `words`.
    ring: Box<[List]>,
    map: [u64; WORDS],
    words: [u64; WORDS.div_ceil(64)],
    /// The nodes of all lists. Those without an event are in `free`, the last one used on top: few
    /// are in use, so they stay in the processor's cache.
    nodes: Vec<Node<E>>,
    free: Vec<u32>,
    /// Later events, with numbers in the order of insertion.
    later: BinaryHeap<Reverse<(u64, u64, E)>>,
    serial: u64,
}

/// A list of events at one time: numbers of its first and last node, if it has any.
#[derive(Clone, Copy, Debug, Default)]
struct List {
    first: u32,
    last: u32,
}

/// An event in a list, and the number of the node after it, if it is not the last one.
#[derive(Clone, Copy, Debug)]
struct Node<E> {
    event: E,
    next: u32,
}

impl<E: Copy + Ord> Agenda<E> {
    pub(super) fn new() -> Self {
        Self {
            now: 0,
            ring: vec![List::default(); SPAN].into(),
            map: [0; WORDS],
            words: [0; WORDS.div_ceil(64)],
            nodes: Vec::new(),
            free: Vec::new(),
            later: BinaryHeap::new(),
            serial: 0,
        }
    }

    /// Inserts an event, not earlier than the last one that was removed.
    pub(super) fn insert(&mut self, time: u64, event: E) {
        assert!(time >= self.now, "time never goes back");
        if time - self.now < SPAN as u64 {
            self.put(time, event);
        } else {
            self.serial += 1;
            self.later.push(Reverse((time, self.serial, event)));
        }
    }

    fn put(&mut self, time: u64, event: E) {
        let node = Node { event, next: 0 };
        let number = match self.free.pop() {
            Some(number) => {
                self.nodes[number as usize] = node;
                number
            }
            None => {
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).expect("memory for fewer events")
            }
        };
        let at = time as usize % SPAN;
        let list = &mut self.ring[at];
        if self.map[at / 64] >> (at % 64) & 1 == 1 {
            self.nodes[list.last as usize].next = number;
            list.last = number;
        } else {
            *list = List { first: number, last: number };
            self.map[at / 64] |= 1 << (at % 64);
            self.words[at / 4096] |= 1 << (at / 64 % 64);
        }
    }

    /// The time of the next event.
    pub(super) fn next_time(&self) -> Option<u64> {
        let from = self.now as usize % SPAN;
        let near = self.find(from, SPAN).or_else(|| self.find(0, from));
        let near = near.map(|at| self.now + ((at + SPAN - from) % SPAN) as u64);
        near.or_else(|| self.later.peek().map(|&Reverse((time, ..))| time))
    }

    /// The first time in `from..to` of the ring with an event.
    fn find(&self, from: usize, to: usize) -> Option<usize> {
        let mut word = from / 64;
        let rest = self.map.get(word)? & !0 << (from % 64);
        let at = if rest != 0 {
            64 * word + rest.trailing_zeros() as usize
        } else {
            word += 1;
            let mut high = word / 64;
            let mut rest = self.words.get(high)? & !0 << (word % 64);
            while rest == 0 {
                high += 1;
                rest = *self.words.get(high)?;
            }
            word = 64 * high + rest.trailing_zeros() as usize;
            64 * word + self.map[word].trailing_zeros() as usize
        };
        (at < to).then_some(at)
    }

    /// Removes the next event if it is not later than `until`.
    pub(super) fn take(&mut self, until: u64) -> Option<(u64, E)> {
        let time = self.next_time().filter(|time| *time <= until)?;
        if time > self.now {
            self.now = time;
            while let Some(&Reverse((at, _, event))) = self.later.peek()
                && at - time < SPAN as u64
            {
                self.later.pop();
                self.put(at, event);
            }
        }
        let at = time as usize % SPAN;
        let List { first, last } = self.ring[at];
        let Node { event, next } = self.nodes[first as usize];
        self.free.push(first);
        if first == last {
            self.map[at / 64] &= !(1 << (at % 64));
            if self.map[at / 64] == 0 {
                self.words[at / 4096] &= !(1 << (at / 64 % 64));
            }
        } else {
            self.ring[at].first = next;
        }
        Some((time, event))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{RngCore, SeedableRng};

    use super::*;

    /// Random insertions at distances of every magnitude, and removals, beside an ordered set.
    #[test]
    fn order_is_that_of_times_and_insertions() {
        for seed in 0..50 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut agenda = Agenda::new();
            let mut expected = BTreeSet::new();
            let mut now = 0;
            for number in 0..20_000_u32 {
                let distance = random.next_u64() >> (random.next_u32() % 48 + 16);
                if random.next_u32() % 5 < 3 {
                    agenda.insert(now + distance, number);
                    expected.insert((now + distance, number));
                }
                assert_eq!(agenda.next_time(), expected.first().map(|(time, _)| *time));
                if random.next_u32() % 5 < 3 {
                    let until = now + distance;
                    let next = expected.first().copied().filter(|(time, _)| *time <= until);
                    assert_eq!(agenda.take(until), next, "seed {seed}");
                    if let Some((time, number)) = next {
                        expected.remove(&(time, number));
                        now = time;
                    }
                }
            }
        }
    }
}
