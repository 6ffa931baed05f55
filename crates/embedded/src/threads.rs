//! How frames are shared out among the threads of a switch: by the row of aggregators.

use tributary_dataplane::ROW_BITS;
use tributary_netio::packet::Share;
use tributary_wire::agg::{self, field};
use tributary_wire::{PORT, ethernet, ipv4};

/// Offset of the aggregator in a frame.
const INDEX: usize = agg::OFFSET + field::INDEX.start;

/// The same for the kernel: how it shares out the frames of a switch's port.
#[must_use]
pub fn share() -> Share {
    let offset = u32::try_from(INDEX).expect("a header is short");
    Share { port: PORT, offset, shift: ROW_BITS }
}

/// The number of a switch's thread that a frame is for, modulo the number of threads: the frame's
/// aggregator without the bits that do not matter; 0 for traffic of others. A wrong answer costs time
/// only: the thread that gets the frame hands it over.
#[must_use]
pub fn row(frame: &[u8]) -> usize {
    let port = ethernet::HEADER_LEN + ipv4::HEADER_LEN + 2;
    let ours = frame.get(port..port + 2) == Some(&PORT.to_be_bytes());
    let index = frame.get(INDEX..).and_then(|rest| rest.first_chunk());
    index.filter(|_| ours).map_or(0, |index| (u32::from_be_bytes(*index) >> ROW_BITS) as usize)
}
