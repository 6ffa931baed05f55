//! The rings between this process and the kernel: one side produces, the other consumes.
//!
//! A ring has a power of two of entries, and two counters that only increase, modulo 2³². The
//! producer writes entries and then its counter; the consumer reads that counter and then the
//! entries. Room is signalled in the same way in the other direction. Each counter is stored with
//! release and read with acquire order, so that the entries before it are visible with it.
//!
//! The rules are separate from the memory ([`Shared`]). The memory mapped by the kernel is in
//! `sys`, and a model of it is in the tests, in which `loom` explores every interleaving of the two
//! sides.

/// One of the two counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    /// Number of entries ever produced.
    Produced,
    /// Number of entries ever consumed.
    Consumed,
}

/// The memory that both sides of a ring share.
pub(super) trait Shared {
    /// Type of the entries.
    type Entry: Copy;

    /// The number of entries, a power of two.
    fn size(&self) -> u32;

    /// Reads a counter, with acquire order.
    fn load(&self, counter: Counter) -> u32;

    /// Sets a counter, with release order. Only the side that owns the counter may call it.
    fn store(&self, counter: Counter, value: u32);

    /// Reads the entry at a position, modulo the size.
    fn read(&self, position: u32) -> Self::Entry;

    /// Replaces the entry at a position, modulo the size.
    fn write(&self, position: u32, entry: Self::Entry);
}

/// The producing end of a ring.
#[derive(Debug)]
pub(super) struct Producer<M> {
    memory: M,
    /// Number of entries ever written, including unpublished ones.
    written: u32,
    published: u32,
    /// The last known value of the other side's counter.
    consumed: u32,
}

impl<M: Shared> Producer<M> {
    pub(super) fn new(memory: M) -> Self {
        let written = memory.load(Counter::Produced);
        let consumed = memory.load(Counter::Consumed);
        Self { memory, written, published: written, consumed }
    }

    pub(super) fn memory(&self) -> &M {
        &self.memory
    }

    /// Whether `count` entries fit.
    pub(super) fn has_room(&mut self, count: u32) -> bool {
        let room = |consumed| self.memory.size() - self.written.wrapping_sub(consumed);
        if room(self.consumed) >= count {
            return true;
        }
        self.consumed = self.memory.load(Counter::Consumed);
        self.memory.size() - self.written.wrapping_sub(self.consumed) >= count
    }

    /// Writes an entry, which becomes visible to the other side after [`publish`](Self::publish).
    ///
    /// # Panics
    ///
    /// If there is no room.
    pub(super) fn push(&mut self, entry: M::Entry) {
        assert!(self.has_room(1), "the caller looks for room");
        self.memory.write(self.written, entry);
        self.written = self.written.wrapping_add(1);
    }

    /// Publishes the written entries. Returns whether there were any.
    pub(super) fn publish(&mut self) -> bool {
        if self.published == self.written {
            return false;
        }
        self.published = self.written;
        self.memory.store(Counter::Produced, self.written);
        true
    }

    /// Number of written entries that are not published.
    pub(super) fn unpublished(&self) -> u32 {
        self.written.wrapping_sub(self.published)
    }

    /// Number of published entries that the other side has not consumed.
    pub(super) fn unconsumed(&mut self) -> u32 {
        self.consumed = self.memory.load(Counter::Consumed);
        self.published.wrapping_sub(self.consumed)
    }
}

/// The consuming end of a ring.
#[derive(Debug)]
pub(super) struct Consumer<M> {
    memory: M,
    /// Number of entries ever read, including those not released.
    read: u32,
    released: u32,
    /// The last known value of the other side's counter.
    produced: u32,
}

impl<M: Shared> Consumer<M> {
    pub(super) fn new(memory: M) -> Self {
        let read = memory.load(Counter::Consumed);
        let produced = memory.load(Counter::Produced);
        Self { memory, read, released: read, produced }
    }

    /// Reads the next entry. Its place becomes free after [`release`](Self::release).
    pub(super) fn pop(&mut self) -> Option<M::Entry> {
        if self.read == self.produced {
            self.produced = self.memory.load(Counter::Produced);
            if self.read == self.produced {
                return None;
            }
        }
        let entry = self.memory.read(self.read);
        self.read = self.read.wrapping_add(1);
        Some(entry)
    }

    /// Releases the places of the entries that were read.
    pub(super) fn release(&mut self) {
        if self.released != self.read {
            self.released = self.read;
            self.memory.store(Counter::Consumed, self.read);
        }
    }
}

#[cfg(test)]
mod tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU32, Ordering};
    use proptest::prelude::*;

    use super::*;

    /// A ring in which `loom` detects conflicting accesses to an entry.
    #[derive(Clone)]
    struct Model(Arc<(AtomicU32, AtomicU32, Vec<UnsafeCell<u32>>)>);

    impl Model {
        /// A ring that has already been used for `past` entries.
        fn new(size: u32, past: u32) -> Self {
            let entries = (0..size).map(|_| UnsafeCell::new(0)).collect();
            Self(Arc::new((AtomicU32::new(past), AtomicU32::new(past), entries)))
        }

        fn counter(&self, counter: Counter) -> &AtomicU32 {
            match counter {
                Counter::Produced => &self.0.0,
                Counter::Consumed => &self.0.1,
            }
        }

        fn cell(&self, position: u32) -> &UnsafeCell<u32> {
            &self.0.2[(position & (self.size() - 1)) as usize]
        }
    }

    #[allow(unsafe_code)]
    impl Shared for Model {
        type Entry = u32;

        fn size(&self) -> u32 {
            self.0.2.len() as u32
        }

        fn load(&self, counter: Counter) -> u32 {
            self.counter(counter).load(Ordering::Acquire)
        }

        fn store(&self, counter: Counter, value: u32) {
            self.counter(counter).store(value, Ordering::Release);
        }

        fn read(&self, position: u32) -> u32 {
            // SAFETY: `loom` panics if the other side may write it at the same time, which the test
            // checks.
            self.cell(position).with(|entry| unsafe { *entry })
        }

        fn write(&self, position: u32, entry: u32) {
            // SAFETY: as above.
            self.cell(position).with_mut(|place| unsafe { *place = entry });
        }
    }

    /// In every interleaving all entries arrive, once, whole and in order, and none is overwritten
    /// before it was read. The counters wrap around at 2³².
    #[test]
    fn two_threads_pass_entries_in_order() {
        loom::model(|| {
            let memory = Model::new(2, u32::MAX - 1);
            let mut producer = Producer::new(memory.clone());
            let mut consumer = Consumer::new(memory);
            let sender = loom::thread::spawn(move || {
                for entry in 1..=3 {
                    while !producer.has_room(1) {
                        loom::thread::yield_now();
                    }
                    producer.push(entry);
                    producer.publish();
                }
            });
            for expected in 1..=3 {
                let entry = loop {
                    if let Some(entry) = consumer.pop() {
                        break entry;
                    }
                    loom::thread::yield_now();
                };
                assert_eq!(entry, expected);
                consumer.release();
            }
            sender.join().unwrap();
            assert_eq!(consumer.pop(), None);
        });
    }

    #[test]
    fn a_batch_is_visible_entirely_or_not_at_all() {
        loom::model(|| {
            let memory = Model::new(4, u32::MAX - 2);
            let mut producer = Producer::new(memory.clone());
            let mut consumer = Consumer::new(memory);
            let sender = loom::thread::spawn(move || {
                (1..=3).for_each(|entry| producer.push(entry));
                assert_eq!(producer.unpublished(), 3);
                assert!(producer.publish());
            });
            let mut seen = Vec::new();
            while let Some(entry) = consumer.pop() {
                seen.push(entry);
            }
            assert!(seen.is_empty() || seen == [1, 2, 3], "{seen:?}");
            sender.join().unwrap();
        });
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(u32),
        Publish,
        Pop(u32),
        Release,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (1_u32..6).prop_map(Step::Push),
            Just(Step::Publish),
            (1_u32..6).prop_map(Step::Pop),
            Just(Step::Release),
        ]
    }

    /// Compares the ring with a straightforward queue.
    fn compare(size: u32, past: u32, steps: &[Step]) {
        let memory = Model::new(size, past);
        let mut producer = Producer::new(memory.clone());
        let mut consumer = Consumer::new(memory);
        let mut next = 0;
        let (mut hidden, mut visible) = (Vec::new(), std::collections::VecDeque::new());
        // Occupied places: unpublished and published entries, and entries that were read but not
        // released.
        let mut unreleased = 0;
        for step in steps {
            match step {
                Step::Push(count) => {
                    let taken = hidden.len() + visible.len() + unreleased;
                    let fits = taken + *count as usize <= size as usize;
                    assert_eq!(producer.has_room(*count), fits);
                    for _ in 0..if fits { *count } else { 0 } {
                        producer.push(next);
                        hidden.push(next);
                        next += 1;
                    }
                    assert_eq!(producer.unpublished() as usize, hidden.len());
                }
                Step::Publish => {
                    assert_eq!(producer.publish(), !hidden.is_empty());
                    visible.extend(hidden.drain(..));
                }
                Step::Pop(count) => {
                    for _ in 0..*count {
                        let expected = visible.pop_front();
                        unreleased += usize::from(expected.is_some());
                        assert_eq!(consumer.pop(), expected);
                    }
                }
                Step::Release => {
                    consumer.release();
                    unreleased = 0;
                }
            }
            assert_eq!(producer.unconsumed() as usize, visible.len() + unreleased);
        }
    }

    proptest! {
        #[test]
        fn a_ring_is_a_bounded_queue(
            size in 0_u32..4,
            past in prop_oneof![Just(0), Just(u32::MAX - 3), any::<u32>()],
            steps in prop::collection::vec(step(), 0..60),
        ) {
            // The model's cells exist only inside a loom model. There is one thread, so one
            // interleaving.
            loom::model(move || compare(1 << size, past, &steps));
        }
    }
}
