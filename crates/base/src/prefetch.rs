//! Hints to the processor to fetch memory before it is needed. They have no effect that a program can observe.
//!
//! They pay where what comes next is known, but a cache no longer has it: another core used it last, or a
//! simulation has touched the state of all other hosts since.

#![allow(unsafe_code)]

/// Bytes of a cache line.
const LINE: usize = 64;

/// The most lines at a time. Beyond, the processor itself recognizes the sequence.
const MOST: usize = 8;

/// For a value that will soon be read.
#[inline]
pub fn to_read<T: ?Sized>(value: &T) {
    let first = std::ptr::from_ref(value).cast::<u8>();
    for offset in (0..size_of_val(value)).step_by(LINE).take(MOST) {
        let line = first.wrapping_add(offset);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch has no effect that a program can observe.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(line.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
}

/// For an empty buffer to which `length` bytes will soon be appended.
#[inline]
pub fn to_append(buffer: &Vec<u8>, length: usize) {
    for offset in (0..length.min(buffer.capacity())).step_by(LINE).take(MOST) {
        let line = buffer.as_ptr().wrapping_add(offset);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above. All processors that Rust supports execute or ignore it.
        unsafe {
            std::arch::asm!(
                "prefetchw [{line}]",
                line = in(reg) line,
                options(nostack, preserves_flags, readonly)
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
}
