//! The frames under way on a line with faults.

use std::collections::VecDeque;

use super::{FaultInjector, Statistics};

/// A line with faults: frames go in at one time and come out at another, or not at all.
///
/// Time is a number of nanoseconds that never decreases from call to call; where it comes from is
/// the caller's business. Frames come out in the order they went in, except those that the
/// injector holds back.
#[derive(Debug)]
pub struct Line {
    injector: FaultInjector,
    admitted: u64,
    /// On their way; times never decrease from front to back.
    under_way: VecDeque<UnderWay>,
    /// Waiting for others to pass.
    held_back: Vec<HeldBack>,
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct UnderWay {
    due: u64,
    frame: Vec<u8>,
}

#[derive(Debug)]
struct HeldBack {
    /// The frame that must have passed.
    after: u64,
    due: u64,
    /// When it goes even if that frame never comes.
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

    /// What went wrong so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.injector.statistics()
    }

    /// Copies of frames that are on the line.
    #[must_use]
    pub fn len(&self) -> usize {
        self.under_way.len() + self.held_back.len()
    }

    /// Whether no frame is on the line.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a frame on the line.
    pub fn admit(&mut self, now: u64, frame: &[u8]) {
        let number = self.admitted;
        self.admitted += 1;
        self.release_impatient(now);
        let decision = self.injector.decide(now, number);
        for copy in decision.copies() {
            let mut buffer = self.spare.pop().unwrap_or_default();
            buffer.extend_from_slice(frame);
            // A shorter delay does not let it pass those before it.
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
    }

    /// The frame that comes out next, if it is due at `now`. It stays until
    /// [`advance`](Self::advance) is called.
    pub fn front(&mut self, now: u64) -> Option<&[u8]> {
        self.release_impatient(now);
        let next = self.under_way.front()?;
        (next.due <= now).then_some(&next.frame[..])
    }

    /// Removes the frame that [`front`](Self::front) showed.
    pub fn advance(&mut self) {
        if let Some(UnderWay { mut frame, .. }) = self.under_way.pop_front() {
            frame.clear();
            self.spare.push(frame);
        }
    }

    /// When [`front`](Self::front) will have something, if nothing more goes in.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        let patience = self.held_back.iter().map(|held| held.patience_ends).min();
        let front = self.under_way.front().map(|next| next.due);
        patience.into_iter().chain(front).min()
    }

    /// Frames go whose overtakers are through, `passed` being the last.
    fn release_overtaken(&mut self, now: u64, passed: u64) {
        while let Some(index) = self.held_back.iter().position(|held| held.after <= passed) {
            let held = self.held_back.remove(index);
            let before = self.under_way.back().map_or(now, |last| last.due);
            let due = held.due.max(now).max(before);
            self.under_way.push_back(UnderWay { due, frame: held.frame });
        }
    }

    /// Frames go that were held back long enough, those first that have waited longest.
    fn release_impatient(&mut self, now: u64) {
        loop {
            let next = self.held_back.iter().enumerate().min_by_key(|(_, held)| held.patience_ends);
            match next {
                Some((index, held)) if held.patience_ends <= now => {
                    let held = self.held_back.remove(index);
                    // Before those that are under way for longer.
                    let due = held.patience_ends;
                    let place = self.under_way.partition_point(|other| other.due <= due);
                    self.under_way.insert(place, UnderWay { due, frame: held.frame });
                }
                _ => return,
            }
        }
    }
}
