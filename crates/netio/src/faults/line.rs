//! The frames in flight on a line with faults.

use std::collections::VecDeque;

use super::{FaultInjector, Statistics};
use crate::prefetch;

/// A line with faults: each frame enters at one time and leaves at another, or is lost.
///
/// Time is a number of nanoseconds that never decreases from call to call; the caller chooses the
/// clock. Frames leave in the order in which they entered, except those that the injector holds
/// back.
#[derive(Debug)]
pub struct Line {
    injector: FaultInjector,
    admitted: u64,
    /// Frames in flight; times never decrease from front to back.
    under_way: VecDeque<UnderWay>,
    /// Frames held back until others have passed.
    held_back: Vec<HeldBack>,
    spare: Vec<Vec<u8>>,
}

/// What happened by chance to a frame that was put on a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Admission {
    /// It was lost. A frame that an outage cut off does not count.
    pub lost: bool,
    /// It was lost, duplicated or reordered.
    pub disturbed: bool,
}

#[derive(Debug)]
struct UnderWay {
    due: u64,
    frame: Vec<u8>,
}

#[derive(Debug)]
struct HeldBack {
    /// The frame that must pass first.
    after: u64,
    due: u64,
    /// When it continues even if that frame has not passed.
    patience_ends: u64,
    frame: Vec<u8>,
}

impl Line {
    /// An empty line.
    #[must_use]
    pub fn new(injector: FaultInjector) -> Self {
        Self {
            injector,
            admitted: 0,
            under_way: VecDeque::new(),
            held_back: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Faults injected so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.injector.statistics()
    }

    /// Number of copies of frames on the line.
    #[must_use]
    pub fn len(&self) -> usize {
        self.under_way.len() + self.held_back.len()
    }

    /// Whether no frame is on the line.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all frames from the line. Returns how many copies there were.
    pub fn clear(&mut self) -> usize {
        let copies = self.len();
        self.under_way.clear();
        self.held_back.clear();
        copies
    }

    /// Puts a frame on the line.
    pub fn admit(&mut self, now: u64, frame: &[u8]) -> Admission {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.extend_from_slice(frame);
        let admission = self.admit_owned(now, &mut buffer);
        buffer.clear();
        self.spare.push(buffer);
        admission
    }

    /// Like [`admit`](Self::admit), but may leave another buffer in `frame`: nothing is copied
    /// unless the frame is duplicated.
    pub fn admit_owned(&mut self, now: u64, frame: &mut Vec<u8>) -> Admission {
        let number = self.admitted;
        self.admitted += 1;
        self.release_impatient(now);
        let Statistics { lost, duplicated, reordered, .. } = self.injector.statistics();
        let decision = self.injector.decide(now, number);
        let copies = decision.copies();
        for (at, copy) in copies.iter().enumerate() {
            let mut buffer = self.spare.pop().unwrap_or_default();
            if at + 1 == copies.len() {
                std::mem::swap(&mut buffer, frame);
            } else {
                buffer.extend_from_slice(frame);
            }
            // A shorter delay does not let it overtake earlier frames.
            let before = self.under_way.back().map_or(0, |last| last.due);
            let due = now.saturating_add(copy.delay).max(before);
            if copy.overtaken_by == 0 {
                self.under_way.push_back(UnderWay { due, frame: buffer });
            } else {
                let patience = super::nanos(self.injector.faults().reorder.patience);
                self.held_back.push(HeldBack {
                    after: number.saturating_add(u64::from(copy.overtaken_by)),
                    due,
                    patience_ends: due.saturating_add(patience),
                    frame: buffer,
                });
            }
        }
        self.release_overtaken(now, number);
        let after = self.injector.statistics();
        let lost = after.lost > lost;
        let changed = after.duplicated > duplicated || after.reordered > reordered;
        Admission { lost, disturbed: lost || changed }
    }

    /// The next frame to leave, if it is due at `now`. It stays until [`advance`](Self::advance) is
    /// called.
    pub fn front(&mut self, now: u64) -> Option<&[u8]> {
        self.release_impatient(now);
        let next = self.under_way.front()?;
        (next.due <= now).then_some(&next.frame[..])
    }

    /// Moves the next frame into `frame`, if it is due at `now`.
    pub fn take(&mut self, now: u64, frame: &mut Vec<u8>) -> bool {
        let due = self.front(now).is_some();
        if due && let Some(next) = self.under_way.front_mut() {
            std::mem::swap(&mut next.frame, frame);
            self.advance();
        }
        due
    }

    /// Removes the frame that [`front`](Self::front) returned.
    pub fn advance(&mut self) {
        if let Some(UnderWay { mut frame, .. }) = self.under_way.pop_front() {
            frame.clear();
            self.spare.push(frame);
            self.prefetch();
        }
    }

    /// Prefetches the next frame, and the place of a later one: in a simulation, they were last used when the
    /// frame entered, and all other lines have been used since.
    fn prefetch(&self) {
        if let Some(next) = self.under_way.front() {
            prefetch::to_read(&next.frame);
        }
        if let Some(later) = self.under_way.get(4) {
            prefetch::value(later);
        }
    }

    /// When [`front`](Self::front) will return a frame, if no more frames enter.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        let front = self.under_way.front().map(|next| next.due);
        if self.held_back.is_empty() {
            return front;
        }
        let patience = self.held_back.iter().map(|held| held.patience_ends).min();
        patience.into_iter().chain(front).min()
    }

    /// Releases the frames whose overtakers have passed; `passed` is the last of these.
    fn release_overtaken(&mut self, now: u64, passed: u64) {
        while let Some(index) = self.held_back.iter().position(|held| held.after <= passed) {
            let held = self.held_back.remove(index);
            let before = self.under_way.back().map_or(now, |last| last.due);
            let due = held.due.max(now).max(before);
            self.under_way.push_back(UnderWay { due, frame: held.frame });
        }
    }

    /// Releases the frames that were held back long enough, longest first.
    fn release_impatient(&mut self, now: u64) {
        while !self.held_back.is_empty() {
            let next = self.held_back.iter().enumerate().min_by_key(|(_, held)| held.patience_ends);
            match next {
                Some((index, held)) if held.patience_ends <= now => {
                    let held = self.held_back.remove(index);
                    // Insert it before frames that are due later.
                    let due = held.patience_ends;
                    let place = self.under_way.partition_point(|other| other.due <= due);
                    self.under_way.insert(place, UnderWay { due, frame: held.frame });
                }
                _ => return,
            }
        }
    }
}
