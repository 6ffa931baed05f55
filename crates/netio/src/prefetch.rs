//! Hints to the processor to fetch memory before it is needed. Without them, each frame of a memory link costs the
//! time of its transfer between two caches, and each one of a simulation the time of a miss: all other links have
//! been used since it entered.

#![allow(unsafe_code)]

/// Bytes of a cache line.
const LINE: usize = 64;

/// The most lines per frame. Beyond, the processor itself recognizes the sequence.
const MOST: usize = 8;

/// For bytes that will soon be read.
#[inline]
pub(crate) fn to_read(bytes: &[u8]) {
    bytes.chunks(LINE).take(MOST).for_each(|line| value(&line[0]));
}

/// For a value that is not longer than a line, and will soon be read.
#[inline]
pub(crate) fn value<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect that a program can observe.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// For an empty buffer to which `length` bytes will soon be appended.
#[inline]
pub(crate) fn to_append(buffer: &Vec<u8>, length: usize) {
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
