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
    /// Slots to bytes.
    fn emit(slots: &[u64], bytes: &mut [MaybeUninit<[u8; 4]>]) {
        for (slot, bytes) in slots.iter().zip(bytes) {
            bytes.write((*slot as u32).to_be_bytes());
        }
    }
}
