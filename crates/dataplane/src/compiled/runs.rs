//! Tight loops over neighbours: the values of a packet of in-network aggregation.
//!
//! On x86-64 each loop is compiled once more for processors with AVX2 and with AVX-512, and which
//! one runs is chosen when it is called: a comparison with a word that is always the same.

use std::mem::MaybeUninit;

/// A loop in a version for every processor.
macro_rules! versions {
    ($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) $body:block) => {
        $(#[$doc])*
        #[inline]
        pub(super) fn $name($($arg: $ty),*) {
            #[inline(always)]
            fn body($($arg: $ty),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
                fn avx512($($arg: $ty),*) {
                    body($($arg),*);
                }
                #[target_feature(enable = "avx2")]
                fn avx2($($arg: $ty),*) {
                    body($($arg),*);
                }
                if std::arch::is_x86_feature_detected!("avx512bw")
                    && std::arch::is_x86_feature_detected!("avx512vl")
                    && std::arch::is_x86_feature_detected!("avx512dq")
                {
                    // SAFETY: the processor has what the function is compiled for.
                    return unsafe { avx512($($arg),*) };
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: as above.
                    return unsafe { avx2($($arg),*) };
                }
            }
            body($($arg),*);
        }
    };
}

versions! {
    /// Registers to slots.
    fn read(row: &[u32], slots: &mut [u64]) {
        for (slot, element) in slots.iter_mut().zip(row) {
            *slot = u64::from(*element);
        }
    }
}

versions! {
    /// Slots to registers.
    fn write(row: &mut [u32], slots: &[u64]) {
        for (slot, element) in slots.iter().zip(row) {
            *element = *slot as u32;
        }
    }
}

versions! {
    /// Adds slots to registers; both have the sums.
    fn add(row: &mut [u32], slots: &mut [u64]) {
        for (slot, element) in slots.iter_mut().zip(row) {
            *element = element.wrapping_add(*slot as u32);
            *slot = u64::from(*element);
        }
    }
}

versions! {
    /// Bytes to slots.
    fn extract(bytes: &[[u8; 4]], slots: &mut [u64]) {
        for (slot, bytes) in slots.iter_mut().zip(bytes) {
            *slot = u64::from(u32::from_be_bytes(*bytes));
        }
    }
}

versions! {
    /// Bytes to slots, while the words that the slots will meet, from `row` on, come nearer.
    fn extract_ahead(bytes: &[[u8; 4]], slots: &mut [u64], row: *const u32) {
        let (lines, rest) = slots.as_chunks_mut::<LINE>();
        let (line_bytes, rest_bytes) = bytes.as_chunks::<LINE>();
        // What decides about values is in registers too, often in those just before theirs.
        fetch(row.wrapping_sub(LINE));
        let mut row = row;
        for (slots, bytes) in lines.iter_mut().zip(line_bytes) {
            fetch(row);
            row = row.wrapping_add(LINE);
            for (slot, bytes) in slots.iter_mut().zip(bytes) {
                *slot = u64::from(u32::from_be_bytes(*bytes));
            }
        }
        fetch(row);
        for (slot, bytes) in rest.iter_mut().zip(rest_bytes) {
            *slot = u64::from(u32::from_be_bytes(*bytes));
        }
    }
}

/// Registers that a line of the cache has.
const LINE: usize = 16;

/// Asks for a line of memory, and does not wait for it. It comes into the second cache only: the first
/// has few buffers for lines on their way, and what the loops read and write meanwhile needs them.
#[inline(always)]
fn fetch(line: *const u32) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint: whatever the address is, nothing is read and nothing traps.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

versions! {
    /// Slots to bytes.
    fn emit(slots: &[u64], bytes: &mut [MaybeUninit<[u8; 4]>]) {
        for (slot, bytes) in slots.iter().zip(bytes) {
            bytes.write((*slot as u32).to_be_bytes());
        }
    }
}
