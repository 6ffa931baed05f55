//! Tight loops over neighbouring values of a packet of in-network aggregation.
//!
//! On x86-64 each loop is also compiled for processors with AVX2 and with AVX-512. The version is
//! chosen per call, by comparing a constant word.

use std::mem::MaybeUninit;

/// Defines a loop with a version for each kind of processor.
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
                    // SAFETY: the processor supports the features of the function.
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
    /// Adds slots to registers; both get the sums.
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
    /// Bytes to slots, while prefetching the words from `row` on that the slots will be combined
    /// with.
    fn extract_ahead(bytes: &[[u8; 4]], slots: &mut [u64], row: *const u32) {
        let (lines, rest) = slots.as_chunks_mut::<LINE>();
        let (line_bytes, rest_bytes) = bytes.as_chunks::<LINE>();
        // Registers with control data often precede those of the values.
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

/// Registers per cache line.
const LINE: usize = 16;

/// Prefetches a cache line into the second-level cache only: the first level has few fill buffers,
/// which the loops need for their own accesses.
#[inline(always)]
fn fetch(line: *const u32) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint: for any address, nothing is read and nothing traps.
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
