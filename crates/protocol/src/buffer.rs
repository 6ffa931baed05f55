//! Memory of numbers that can be split, joined and lent without a copy.

#![allow(unsafe_code)]

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

/// What keeps a region of memory in place: the allocation itself, or any object that owns it.
pub type Keeper = Arc<dyn Any + Send + Sync>;

/// Numbers in memory of which this is the only user.
///
/// The memory is a `Vec`'s, or that of another runtime, such as Python's. Parts that were
/// [split off](Self::split_off) share the allocation, not the numbers.
pub struct Buffer<T> {
    start: NonNull<T>,
    len: usize,
    keeper: Keeper,
    numbers: PhantomData<T>,
}

// SAFETY: a buffer is the only user of its numbers, as a `Vec` is, and its keeper can be sent and shared.
unsafe impl<T: Send> Send for Buffer<T> {}
// SAFETY: a shared buffer only gives out shared slices.
unsafe impl<T: Sync> Sync for Buffer<T> {}

/// The memory of a `Vec` whose numbers buffers use.
struct Allocation<T> {
    start: NonNull<T>,
    capacity: usize,
}

// SAFETY: it only frees the memory.
unsafe impl<T: Send> Send for Allocation<T> {}
// SAFETY: it gives no access to the memory.
unsafe impl<T: Send> Sync for Allocation<T> {}

impl<T> Drop for Allocation<T> {
    fn drop(&mut self) {
        // SAFETY: the memory of a `Vec` of this capacity. Numbers, which are `Copy`, need no drop.
        drop(unsafe { Vec::from_raw_parts(self.start.as_ptr(), 0, self.capacity) });
    }
}

impl<T: Copy + Send + Sync + 'static> Buffer<T> {
    /// Numbers in memory that `keeper` keeps in place.
    ///
    /// # Safety
    /// Until the buffer and all its parts are dropped, the memory must hold `len` initialised numbers, be
    /// aligned, and have no other user, who would read sums half written.
    pub unsafe fn lent(start: NonNull<T>, len: usize, keeper: Keeper) -> Self {
        Self { start, len, keeper, numbers: PhantomData }
    }

    /// Splits off the numbers from `at` on.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        assert!(at <= self.len, "split at {at} of {} numbers", self.len);
        // SAFETY: within the region, or at its end.
        let start = unsafe { self.start.add(at) };
        let len = self.len - at;
        self.len = at;
        Self { start, len, keeper: Arc::clone(&self.keeper), numbers: PhantomData }
    }

    /// Appends numbers: without a copy if they were split off at the end of this buffer.
    pub fn join(&mut self, next: Self) {
        // SAFETY: the end of the region.
        let end = unsafe { self.start.add(self.len) };
        if Arc::ptr_eq(&self.keeper, &next.keeper) && end == next.start {
            self.len += next.len;
        } else {
            *self = self.iter().chain(next.iter()).copied().collect();
        }
    }
}

impl<T> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: initialised, aligned, and no one else writes: see `lent` and `From`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as `deref`, and no one else reads.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Copy + Send + Sync + 'static> From<Vec<T>> for Buffer<T> {
    fn from(numbers: Vec<T>) -> Self {
        let mut numbers = ManuallyDrop::new(numbers);
        let (len, capacity) = (numbers.len(), numbers.capacity());
        let start = NonNull::new(numbers.as_mut_ptr()).expect("never null");
        Self { start, len, keeper: Arc::new(Allocation { start, capacity }), numbers: PhantomData }
    }
}

impl<T: Copy + Send + Sync + 'static> From<Buffer<T>> for Vec<T> {
    /// Without a copy if the buffer is the whole of a `Vec`.
    fn from(buffer: Buffer<T>) -> Self {
        let Buffer { start, len, keeper, .. } = buffer;
        match keeper.downcast::<Allocation<T>>().map(Arc::try_unwrap) {
            Ok(Ok(allocation)) if allocation.start == start => {
                let allocation = ManuallyDrop::new(allocation);
                // SAFETY: the memory of a `Vec` whose first `len` numbers are initialised. The allocation
                // had no other user and is forgotten.
                unsafe { Vec::from_raw_parts(start.as_ptr(), len, allocation.capacity) }
            }
            // SAFETY: as `deref`; what keeps the memory is in the pattern.
            _kept => unsafe { slice::from_raw_parts(start.as_ptr(), len) }.to_vec(),
        }
    }
}

impl<T: Copy + Send + Sync + 'static> FromIterator<T> for Buffer<T> {
    fn from_iter<I: IntoIterator<Item = T>>(numbers: I) -> Self {
        Vec::from_iter(numbers).into()
    }
}

impl<'a, T> IntoIterator for &'a Buffer<T> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: Copy + Send + Sync + 'static> Clone for Buffer<T> {
    /// Copies the numbers into memory of their own.
    fn clone(&self) -> Self {
        self.to_vec().into()
    }
}

impl<T: PartialEq> PartialEq for Buffer<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: fmt::Debug> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_are_joined_in_place(numbers in prop::collection::vec(any::<f32>(), 0..200), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
            let bits = |numbers: &[f32]| numbers.iter().map(|n| n.to_bits()).collect::<Vec<_>>();
            let mut whole = Buffer::from(numbers.clone());
            let start = whole.as_ptr();
            let mut parts = Vec::new();
            for cut in &cuts {
                let part = whole.split_off(cut.index(whole.len() + 1));
                parts.push(part);
            }
            for part in parts.into_iter().rev() {
                // Joined as they lie in memory.
                whole.join(part);
            }
            prop_assert_eq!(whole.as_ptr(), start);
            prop_assert_eq!(bits(&whole), bits(&numbers));
            let back = Vec::from(whole);
            prop_assert_eq!(back.as_ptr(), start);
            prop_assert_eq!(bits(&back), bits(&numbers));
        }
    }

    #[test]
    fn strangers_are_copied_and_parts_do_not_alias() {
        let mut first = Buffer::from(vec![1, 2, 3, 4]);
        let mut last = first.split_off(2);
        last[0] = 7;
        first[1] = 9;
        assert_eq!((&*first, &*last), (&[1, 9][..], &[7, 4][..]));
        // In the wrong order, so not in place.
        let kept = last.clone();
        last.join(first);
        assert_eq!(&*last, &[7, 4, 1, 9]);
        assert_eq!(&*kept, &[7, 4]);
        let mut part = Buffer::from(vec![5, 6]);
        drop(part.split_off(1));
        assert_eq!(Vec::from(part), [5]);
        let mut tail = Buffer::from(vec![5, 6]);
        assert_eq!(Vec::from(tail.split_off(1)), [6]);
    }

    #[test]
    fn lent_memory_is_returned_when_the_last_part_is_dropped() {
        let mut memory = vec![1.0_f32, 2.0, 3.0];
        let keeper: Keeper = Arc::new("the owner");
        let start = NonNull::new(memory.as_mut_ptr()).unwrap();
        // SAFETY: `memory` is not used until the buffer and its part are dropped.
        let mut buffer = unsafe { Buffer::lent(start, 3, Arc::clone(&keeper)) };
        let mut part = buffer.split_off(1);
        part.iter_mut().for_each(|number| *number *= 10.0);
        drop(buffer);
        assert_eq!(Arc::strong_count(&keeper), 2);
        drop(part);
        assert_eq!(Arc::strong_count(&keeper), 1);
        assert_eq!(memory, [1.0, 20.0, 30.0]);
    }
}
