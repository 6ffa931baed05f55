//! How far the entries of a table were read.

use tributary_p4runtime::p4::v1::Entity;

/// Position and limits of reading a table.
#[derive(Debug)]
pub(super) struct Cursor {
    /// The first position to examine; afterwards the next one.
    pub(super) place: usize,
    /// Entries that may still be examined, and bytes that may still be read.
    pub(super) left: usize,
    pub(super) bytes: usize,
    /// Whether entries remain.
    pub(super) more: bool,
}

/// Approximate size of an entity in memory, which is usually far larger than encoded.
pub(super) fn size(message: &impl prost::Message) -> usize {
    message.encoded_len() + size_of::<Entity>()
}
