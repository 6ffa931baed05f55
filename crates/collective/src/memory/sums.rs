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
pub(super) trait Element: Copy + Default {
    /// Adds values to totals.
    fn add(totals: &mut [f64], values: &[Self], element: ElementType);
    /// Rounds totals.
    fn round(totals: &[f64], sums: &mut [Self], element: ElementType);
}

impl Element for f32 {
    fn add(totals: &mut [f64], values: &[Self], _: ElementType) {
        add(totals, values);
    }

    fn round(totals: &[f64], sums: &mut [Self], _: ElementType) {
        round(totals, sums);
    }
}

impl Element for u16 {
    fn add(totals: &mut [f64], values: &[Self], element: ElementType) {
        let mut wide = [0.0; PART];
        let wide = &mut wide[..values.len()];
        widen(values, wide, element);
        add(totals, wide);
    }

    fn round(totals: &[f64], sums: &mut [Self], element: ElementType) {
        let mut wide = [0.0; PART];
        let wide = &mut wide[..sums.len()];
        round(totals, wide);
        narrow(wide, sums, element);
    }
}

/// Turns values of 16 bits into wide ones.
fn widen(values: &[u16], wide: &mut [f32], element: ElementType) {
    match element {
        ElementType::F16 => values.reinterpret_cast::<f16>().convert_to_f32_slice(wide),
        ElementType::Bf16 => values.reinterpret_cast::<bf16>().convert_to_f32_slice(wide),
        ElementType::F32 => unreachable!("not a 16-bit type"),
    }
}

/// Rounds wide values to those of 16 bits.
pub(super) fn narrow(wide: &[f32], values: &mut [u16], element: ElementType) {
    match element {
        ElementType::F16 => values.reinterpret_cast_mut::<f16>().convert_from_f32_slice(wide),
        ElementType::Bf16 => values.reinterpret_cast_mut::<bf16>().convert_from_f32_slice(wide),
        ElementType::F32 => unreachable!("not a 16-bit type"),
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
    let most = elements.div_ceil(LINE / size_of::<T>()).div_ceil(ranks) * (LINE / size_of::<T>());
    elements.min(rank * most)..elements.min((rank + 1) * most)
}

/// Where in a buffer a rank's share is, however many elements there are.
fn place<T>(rank: usize, ranks: usize) -> usize {
    rank * (BUFFER / LINE / ranks) * (LINE / size_of::<T>())
}

/// The most elements of which all shares have a place.
pub(super) fn shared_capacity<T>(ranks: usize) -> usize {
    place::<T>(ranks, ranks)
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn add(totals: &mut [f64], values: &[f32]) {
    totals.iter_mut().zip(values).for_each(|(total, value)| *total += f64::from(*value));
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn round(totals: &[f64], sums: &mut [f32]) {
    sums.iter_mut().zip(totals).for_each(|(sum, total)| *sum = *total as f32);
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn scale(totals: &mut [f64], factor: f64) {
    totals.iter_mut().for_each(|total| *total *= factor);
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn divide(totals: &mut [f64], divisor: f64) {
    totals.iter_mut().for_each(|total| *total /= divisor);
}

/// How elements are added.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub(super) element: ElementType,
    /// By how many ranks sums are divided.
    pub(super) divisor: Option<usize>,
}

impl How {
    fn finish(self, totals: &mut [f64]) {
        match self.divisor {
            None => {}
            // A power of two has an exact reciprocal, and a multiplication takes a tenth of the time.
            Some(ranks) if ranks.is_power_of_two() => scale(totals, 1.0 / ranks as f64),
            Some(ranks) => divide(totals, ranks as f64),
        }
    }
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
        // other rank reads or writes this part of it before the next step of its lane.
        let own = unsafe { slice::from_raw_parts_mut(start.add(at).as_ptr(), values.len()) };
        own.copy_from_slice(values);
    }

    /// Writes a rank's own values of 16 bits as wide ones.
    pub(super) fn write_wide(&self, rank: usize, values: &[u16], element: ElementType) {
        let mut wide = [0.0; PART];
        for (at, part) in values.chunks(PART).enumerate() {
            let wide = &mut wide[..part.len()];
            widen(part, wide, element);
            self.write_at(rank, at * PART, wide);
        }
    }

    /// Elements of a rank's buffer, which no one writes.
    pub(super) fn read<T: Copy>(&self, rank: usize, place: Range<usize>) -> &[T] {
        assert!(place.end <= capacity::<T>(), "a part of a buffer");
        let start = self.segment.buffer(rank, self.which).cast::<T>();
        // SAFETY: within the buffer. Between two steps, nobody writes what another rank reads: see `Shared::sum`.
        unsafe { slice::from_raw_parts(start.add(place.start).as_ptr(), place.len()) }
    }

    /// Writes the shares of a rank's own values that other ranks add up, each to its place.
    pub(super) fn write_for_others<T: Copy>(&self, rank: usize, values: &[T]) {
        for other in (0..self.ranks).filter(|other| *other != rank) {
            let share = share::<T>(values.len(), other, self.ranks);
            self.write_at(rank, place::<T>(other, self.ranks), &values[share]);
        }
    }

    /// The sums of all ranks' elements of a place, in the order of the ranks.
    pub(super) fn add_up<T: Element>(&self, place: Range<usize>, how: How, sums: &mut [T]) {
        let mut totals = [0.0; PART];
        for (part, sums) in place.step_by(PART).zip(sums.chunks_mut(PART)) {
            let totals = &mut totals[..sums.len()];
            // Added to any value, -0.0 included, it changes nothing.
            totals.fill(-0.0);
            for rank in 0..self.ranks {
                T::add(totals, self.read(rank, part..part + sums.len()), how.element);
            }
            how.finish(totals);
            T::round(totals, sums, how.element);
        }
    }

    /// Replaces a rank's own share of its values by the sums of all ranks, and writes these to its place.
    pub(super) fn add_up_own<T: Element>(&self, rank: usize, how: How, values: &mut [T]) {
        let own = share::<T>(values.len(), rank, self.ranks);
        let mut totals = [0.0; PART];
        let mut at = place::<T>(rank, self.ranks);
        for values in values[own].chunks_mut(PART) {
            let totals = &mut totals[..values.len()];
            totals.fill(-0.0);
            for other in 0..self.ranks {
                match other == rank {
                    true => T::add(totals, values, how.element),
                    false => T::add(totals, self.read(other, at..at + values.len()), how.element),
                }
            }
            how.finish(totals);
            T::round(totals, values, how.element);
            self.write_at(rank, at, values);
            at += values.len();
        }
    }

    /// Reads the sums of the other ranks' shares from their places.
    pub(super) fn gather_others<T: Copy>(&self, rank: usize, sums: &mut [T]) {
        for other in (0..self.ranks).filter(|other| *other != rank) {
            let share = share::<T>(sums.len(), other, self.ranks);
            let at = place::<T>(other, self.ranks);
            sums[share.clone()].copy_from_slice(self.read(other, at..at + share.len()));
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
    pub(super) fn add_up_share<T: Element>(&self, rank: usize, elements: usize, how: How) {
        let own = share::<T>(elements, rank, self.ranks);
        let mut sums = [T::default(); PART];
        for start in own.clone().step_by(PART) {
            let place = start..own.end.min(start + PART);
            let sums = &mut sums[..place.len()];
            self.add_up(place, how, sums);
            self.write_at(rank, start, sums);
        }
    }

    /// Reads the sums of all ranks' shares.
    pub(super) fn gather<T: Copy>(&self, sums: &mut [T]) {
        for rank in 0..self.ranks {
            let place = share::<T>(sums.len(), rank, self.ranks);
            sums[place.clone()].copy_from_slice(self.read(rank, place));
        }
    }
}
