//! Counters: arrays of packet and byte counts.

/// What a counter counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CounterData {
    /// Packets.
    pub packets: u64,
    /// Their bytes, each packet as long as it was when it came in.
    pub bytes: u64,
}

impl CounterData {
    /// Counts a packet.
    #[inline]
    pub(crate) fn count(&mut self, bytes: u32) {
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(u64::from(bytes));
    }
}

/// A counter array. Both kinds of counts are kept whatever the program asked for, as BMv2 does.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    pub(crate) cells: Vec<CounterData>,
}

impl Counter {
    pub(crate) fn new(size: usize) -> Self {
        Self { cells: vec![CounterData::default(); size] }
    }

    /// Counts a packet; an index out of range counts nothing.
    #[inline]
    pub(crate) fn count(&mut self, index: u64, bytes: u32) {
        if let Some(cell) = usize::try_from(index).ok().and_then(|i| self.cells.get_mut(i)) {
            cell.count(bytes);
        }
    }
}
