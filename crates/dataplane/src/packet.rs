//! One packet's state.

/// Storage for the state of one packet: headers, metadata, locals and payload.
///
/// Made by [`crate::Pipeline::new_packet`] and usable with that pipeline only.
#[derive(Debug)]
pub struct Packet {}

impl Packet {
    /// Becomes a copy of another packet of the same pipeline: a multicast replica.
    pub fn copy_from(&mut self, other: &Packet) {
        let _ = other;
    }

    /// Saves the fields of an `@field_list`, for the next pass with
    /// [`crate::IngressInput::preserved`]. A list that the program does not declare is empty.
    pub fn preserve(&mut self, list: u32) {
        let _ = list;
    }

    /// Length in bytes as BMv2 counts it: of the frame that came in, plus headers made valid, minus
    /// headers made invalid since.
    #[must_use]
    pub fn length(&self) -> u32 {
        0
    }
}
