//! Ethernet II.

use crate::{Error, Mac};

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 14;

/// The ethertype of IPv4.
pub const TYPE_IPV4: u16 = 0x0800;

/// Offsets of the fields, in bytes from the start of the header.
pub mod field {
    use std::ops::Range;

    /// Destination address.
    pub const DESTINATION: Range<usize> = 0..6;
    /// Source address.
    pub const SOURCE: Range<usize> = 6..12;
    /// Ethertype.
    pub const TYPE: Range<usize> = 12..14;
}

/// Checks that the payload is IPv4.
#[inline]
pub(crate) fn check(header: &[u8; HEADER_LEN]) -> Result<(), Error> {
    match u16::from_be_bytes([header[12], header[13]]) {
        TYPE_IPV4 => Ok(()),
        other => Err(Error::EtherType(other)),
    }
}

/// Writes the header of a frame that carries IPv4.
#[inline]
pub(crate) fn emit(header: &mut [u8; HEADER_LEN], source: Mac, destination: Mac) {
    header[field::DESTINATION].copy_from_slice(&destination.0);
    header[field::SOURCE].copy_from_slice(&source.0);
    header[field::TYPE].copy_from_slice(&TYPE_IPV4.to_be_bytes());
}
