//! Outstanding fragments in the order of their last transmissions (RFC 8985 §5.2).

use crate::prefetch;

/// No slot.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
}

/// A doubly linked list of slots. All operations except traversal take constant time. A
/// transmission moves its slot to the end, so times along the list never decrease.
#[derive(Clone, Debug)]
pub(super) struct SendOrder {
    /// The neighbours of each slot. The last element holds the two ends of the list.
    links: Box<[Link]>,
    len: u32,
}

impl SendOrder {
    pub(super) fn new(slots: u32) -> Self {
        let mut links = vec![Link { before: NONE, after: NONE }; slots as usize + 1];
        links[slots as usize] = Link { before: slots, after: slots };
        Self { links: links.into(), len: 0 }
    }

    fn ends(&self) -> u32 {
        self.links.len() as u32 - 1
    }

    /// Moves a slot to the end of the list, or inserts it there.
    pub(super) fn push(&mut self, slot: usize) {
        self.remove(slot);
        let ends = self.ends();
        let last = self.links[ends as usize].before;
        self.links[slot] = Link { before: last, after: ends };
        self.links[last as usize].after = slot as u32;
        self.links[ends as usize].before = slot as u32;
        self.len += 1;
    }

    /// Removes a slot if it is in the list.
    pub(super) fn remove(&mut self, slot: usize) {
        let Link { before, after } = self.links[slot];
        if before == NONE {
            return;
        }
        self.links[before as usize].after = after;
        self.links[after as usize].before = before;
        self.links[slot] = Link { before: NONE, after: NONE };
        self.len -= 1;
    }

    /// Prefetches what is known of a slot.
    pub(super) fn prefetch(&self, slot: usize) {
        prefetch::to_read(&self.links[slot]);
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// The slot with the earliest transmission.
    pub(super) fn first(&self) -> Option<usize> {
        self.after(self.ends() as usize)
    }

    /// The slot with the latest transmission.
    pub(super) fn last(&self) -> Option<usize> {
        let last = self.links[self.ends() as usize].before;
        (last != self.ends()).then_some(last as usize)
    }

    /// The slot with the next transmission after that of `slot`.
    pub(super) fn after(&self, slot: usize) -> Option<usize> {
        let after = self.links[slot].after;
        (after != self.ends()).then_some(after as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_like_a_list(steps in prop::collection::vec((0usize..8, any::<bool>()), 0..60)) {
            let mut order = SendOrder::new(8);
            let mut expected: Vec<usize> = Vec::new();
            for (slot, push) in steps {
                expected.retain(|&other| other != slot);
                if push {
                    order.push(slot);
                    expected.push(slot);
                } else {
                    order.remove(slot);
                }
                let walk = std::iter::successors(order.first(), |&slot| order.after(slot));
                prop_assert_eq!(order.len() as usize, expected.len());
                prop_assert_eq!(order.last(), expected.last().copied());
                prop_assert_eq!(walk.collect::<Vec<_>>(), expected.clone());
            }
        }
    }
}
