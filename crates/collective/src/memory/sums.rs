//! Sums over the buffers of all ranks.

#![allow(unsafe_code)]

use std::ops::Range;
use std::slice;

use half::slice::{HalfBitsSliceExt as _, HalfFloatSliceExt as _};
use half::{bf16, f16};
use multiversion::multiversion;

use super::segment::{BUFFER, Segment};
use crate::ElementType;

/// Elements that are added at a time: their sums stay in the innermost cache.
const PART: usize = 1024;

/// Bytes of a line of the cache. Ranks do not write to the same one.
const LINE: usize = 64;

/// An element of a tensor.
pub(super) trait Element: Copy {
    fn widen(values: &[Self], wide: &mut [f32], element: ElementType);
    fn narrow(wide: &[f32], values: &mut [Self], element: ElementType);
}

impl Element for f32 {
    fn widen(values: &[Self], wide: &mut [f32], _: ElementType) {
        wide.copy_from_slice(values);
    }

    fn narrow(wide: &[f32], values: &mut [Self], _: ElementType) {
        values.copy_from_slice(wide);
    }
}

impl Element for u16 {
    fn widen(values: &[Self], wide: &mut [f32], element: ElementType) {
        match element {
            ElementType::F16 => values.reinterpret_cast::<f16>().convert_to_f32_slice(wide),
            ElementType::Bf16 => values.reinterpret_cast::<bf16>().convert_to_f32_slice(wide),
            ElementType::F32 => unreachable!("not a 16-bit type"),
        }
    }

    fn narrow(wide: &[f32], values: &mut [Self], element: ElementType) {
        match element {
            ElementType::F16 => values.reinterpret_cast_mut::<f16>().convert_from_f32_slice(wide),
            ElementType::Bf16 => values.reinterpret_cast_mut::<bf16>().convert_from_f32_slice(wide),
            ElementType::F32 => unreachable!("not a 16-bit type"),
        }
    }
}

/// A number that is added in its own type.
pub(super) trait Number: Copy {
    fn plus(self, other: Self) -> Self;
}

impl Number for f64 {
    fn plus(self, other: Self) -> Self {
        self + other
    }
}

impl Number for i64 {
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}

impl Number for i32 {
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}

/// The most elements of a buffer.
pub(super) const fn capacity<T>() -> usize {
    BUFFER / size_of::<T>()
}

/// The part of so many elements that a rank adds up.
pub(super) fn share<T>(elements: usize, rank: usize, ranks: usize) -> Range<usize> {
    let per_line = LINE / size_of::<T>();
    let lines = elements.div_ceil(per_line);
    let start = |rank: usize| elements.min(lines * rank / ranks * per_line);
    start(rank)..start(rank + 1)
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn add(totals: &mut [f64], values: &[f32]) {
    totals.iter_mut().zip(values).for_each(|(total, value)| *total += f64::from(*value));
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn round(totals: &[f64], sums: &mut [f32]) {
    sums.iter_mut().zip(totals).for_each(|(sum, total)| *sum = *total as f32);
}

/// How elements are added.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub(super) element: ElementType,
    /// By what sums are divided.
    pub(super) divisor: Option<f64>,
}

/// The ranks' buffers of one number, where each has written its values and taken a step since.
pub(super) struct Buffers<'s> {
    pub(super) segment: &'s Segment,
    pub(super) which: usize,
    pub(super) ranks: usize,
}

impl Buffers<'_> {
    /// Writes a rank's own values.
    pub(super) fn write<T: Copy>(&self, rank: usize, values: &[T]) {
        self.write_at(rank, 0, values);
    }

    /// Writes to a part of a rank's own buffer.
    pub(super) fn write_at<T: Copy>(&self, rank: usize, at: usize, values: &[T]) {
        assert!(at + values.len() <= capacity::<T>(), "they fit the buffer");
        let start = self.segment.buffer(rank, self.which).cast::<T>();
        // SAFETY: within the buffer, which is this rank's, or that of the results, which only the first rank writes: no
        // other rank reads or writes it before the next step of its lane.
        let own = unsafe { slice::from_raw_parts_mut(start.add(at).as_ptr(), values.len()) };
        own.copy_from_slice(values);
    }

    /// Writes a rank's own values of 16 bits as wide ones.
    pub(super) fn write_wide(&self, rank: usize, values: &[u16], element: ElementType) {
        let mut wide = [0.0; PART];
        for (at, part) in values.chunks(PART).enumerate() {
            let wide = &mut wide[..part.len()];
            u16::widen(part, wide, element);
            self.write_at(rank, at * PART, wide);
        }
    }

    /// Elements of a rank's buffer, which no one writes.
    pub(super) fn read<T: Copy>(&self, rank: usize, place: Range<usize>) -> &[T] {
        assert!(place.end <= capacity::<T>(), "a part of a buffer");
        let start = self.segment.buffer(rank, self.which).cast::<T>();
        // SAFETY: within the buffer. Between two steps a rank writes nothing but its own share, which no one else
        // reads, and its loops below end before it does.
        unsafe { slice::from_raw_parts(start.add(place.start).as_ptr(), place.len()) }
    }

    /// The sums of all ranks' elements of a place, in the order of the ranks.
    pub(super) fn add_up<T: Element>(&self, place: Range<usize>, how: How, sums: &mut [T]) {
        let (mut totals, mut wide) = ([0.0_f64; PART], [0.0_f32; PART]);
        for (part, sums) in place.clone().step_by(PART).zip(sums.chunks_mut(PART)) {
            let place = part..part + sums.len();
            let (totals, wide) = (&mut totals[..sums.len()], &mut wide[..sums.len()]);
            // Added to any value, -0.0 included, it changes nothing.
            totals.fill(-0.0);
            for rank in 0..self.ranks {
                T::widen(self.read(rank, place.clone()), wide, how.element);
                add(totals, wide);
            }
            if let Some(divisor) = how.divisor {
                totals.iter_mut().for_each(|sum| *sum /= divisor);
            }
            round(totals, wide);
            T::narrow(wide, sums, how.element);
        }
    }

    /// The sums of all ranks' numbers, in the order of the ranks.
    pub(super) fn add_numbers<T: Number>(&self, sums: &mut [T]) {
        sums.copy_from_slice(self.read(0, 0..sums.len()));
        for rank in 1..self.ranks {
            let numbers = self.read::<T>(rank, 0..sums.len());
            sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum = sum.plus(*number));
        }
    }

    /// Replaces the share of a rank's buffer by the sums of all ranks' elements there.
    pub(super) fn add_up_share<T: Element + Default>(
        &self,
        rank: usize,
        elements: usize,
        how: How,
    ) {
        let own = share::<T>(elements, rank, self.ranks);
        let mut sums = [T::default(); PART];
        for start in own.clone().step_by(PART) {
            let place = start..own.end.min(start + PART);
            let sums = &mut sums[..place.len()];
            self.add_up(place.clone(), how, sums);
            let target = self.segment.buffer(rank, self.which).cast::<T>();
            // SAFETY: within the buffer of this rank, in the share that only this rank reads before the next step.
            unsafe { slice::from_raw_parts_mut(target.add(start).as_ptr(), place.len()) }
                .copy_from_slice(sums);
        }
    }

    /// Reads the sums of all ranks' shares.
    pub(super) fn gather<T: Element>(&self, sums: &mut [T]) {
        for rank in 0..self.ranks {
            let place = share::<T>(sums.len(), rank, self.ranks);
            sums[place.clone()].copy_from_slice(self.read(rank, place));
        }
    }
}
