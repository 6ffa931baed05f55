//! Counters: arrays of packet and byte counts.

/// The value of a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CounterData {
    /// Packets.
    pub packets: u64,
    /// Bytes, with each packet's length on arrival.
    pub bytes: u64,
}

impl CounterData {
    /// Moves the counts of another counter to this one.
    pub(crate) fn absorb(&mut self, other: &mut Self) {
        let Self { packets, bytes } = std::mem::take(other);
        self.packets = self.packets.wrapping_add(packets);
        self.bytes = self.bytes.wrapping_add(bytes);
    }

    /// Counts a packet.
    #[inline]
    pub(crate) fn count(&mut self, bytes: u32) {
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(u64::from(bytes));
    }
}

/// A counter array. Both kinds of counts are always kept, as in BMv2.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    pub(crate) cells: Vec<CounterData>,
}

impl Counter {
    pub(crate) fn new(size: usize) -> Self {
        Self { cells: vec![CounterData::default(); size] }
    }

    /// Counts a packet; has no effect if the index is out of range.
    #[inline]
    pub(crate) fn count(&mut self, index: u64, bytes: u32) {
        if let Some(cell) = usize::try_from(index).ok().and_then(|i| self.cells.get_mut(i)) {
            cell.count(bytes);
        }
    }
}
