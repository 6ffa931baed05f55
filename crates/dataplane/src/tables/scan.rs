//! Ternary, range and optional matching: entries in order of priority, the first match wins.

/// Entries whose keys fit into one word.
#[derive(Debug, Default)]
pub(super) struct PackedScan {
    rows: Vec<PackedRow>,
    ranks: Vec<i32>,
}

#[derive(Clone, Copy, Debug)]
struct PackedRow {
    value: u64,
    mask: u64,
    number: u32,
}

impl PackedScan {
    pub(super) fn insert(&mut self, value: u64, mask: u64, priority: i32, number: u32) {
        let at = self.ranks.partition_point(|&rank| rank >= priority);
        self.ranks.insert(at, priority);
        self.rows.insert(at, PackedRow { value, mask, number });
    }

    pub(super) fn remove(&mut self, number: u32) {
        if let Some(at) = self.rows.iter().position(|row| row.number == number) {
            self.rows.remove(at);
            self.ranks.remove(at);
        }
    }

    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<u32> {
        self.rows.iter().find(|row| key & row.mask == row.value).map(|row| row.number)
    }
}

/// Entries with keys of any width and ranges.
#[derive(Debug, Default)]
pub(super) struct WordScan {
    rows: Vec<Row>,
}

/// A range that a key must lie in.
#[derive(Debug)]
pub(super) struct Bounds {
    /// The key's first word.
    pub(super) first: u32,
    pub(super) low: Box<[u64]>,
    pub(super) high: Box<[u64]>,
}

impl Bounds {
    fn contains(&self, key: &[u64]) -> bool {
        let value = key[self.first as usize..][..self.low.len()].iter().rev();
        value.clone().ge(self.low.iter().rev()) && value.le(self.high.iter().rev())
    }
}

#[derive(Debug)]
struct Row {
    values: Box<[u64]>,
    masks: Box<[u64]>,
    ranges: Vec<Bounds>,
    priority: i32,
    number: u32,
}

impl Row {
    fn matches(&self, key: &[u64]) -> bool {
        let equal = key
            .iter()
            .zip(self.values.iter().zip(&self.masks))
            .all(|(word, (value, mask))| word & mask == *value);
        equal && self.ranges.iter().all(|range| range.contains(key))
    }
}

impl WordScan {
    pub(super) fn insert(
        &mut self,
        values: &[u64],
        masks: &[u64],
        ranges: Vec<Bounds>,
        priority: i32,
        number: u32,
    ) {
        let at = self.rows.partition_point(|row| row.priority >= priority);
        let row = Row { values: values.into(), masks: masks.into(), ranges, priority, number };
        self.rows.insert(at, row);
    }

    pub(super) fn remove(&mut self, number: u32) {
        self.rows.retain(|row| row.number != number);
    }

    pub(super) fn find(&self, key: &[u64]) -> Option<u32> {
        self.rows.iter().find(|row| row.matches(key)).map(|row| row.number)
    }
}
