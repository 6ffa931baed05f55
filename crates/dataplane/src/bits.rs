//! Bits of bytes and of limbs.

/// The lowest `width` bits set (`width` at most 64).
pub(crate) const fn mask(width: u32) -> u64 {
    if width == 0 { 0 } else { u64::MAX >> (64 - width) }
}
