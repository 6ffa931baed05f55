//! Reads an input as a sequence of choices.

/// The rest of an input. After its end, everything is zero.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(input: &'a [u8]) -> Self {
        Self(input)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// One of `0..count`.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count
    }

    /// At most this number of bytes.
    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A string of bytes: its length in two bytes, then the bytes.
    pub(crate) fn string(&mut self) -> &'a [u8] {
        let length = u16::from_be_bytes([self.byte(), self.byte()]);
        self.take(length.into())
    }

    /// The rest, without consuming it.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }
}
