//! The controller's assignments to jobs of P4INC and SwitchML.

use std::fmt;

use crate::AggregatorIndex;

/// A service ID: the assignment of the job to which a packet belongs (P4INC-AOI §VI.B).
///
/// The controller assigns a new ID whenever it changes the job's assignment, so that late
/// packets of the old assignment are recognised.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Service(u8);

impl Service {
    /// No switch aggregates: packets of the job are forwarded as ordinary traffic.
    pub const FORWARDED: Self = Self(0);

    /// The service with this number.
    pub const fn new(number: u8) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Whether switches aggregate.
    pub const fn is_aggregated(self) -> bool {
        self.0 != 0
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A job's segment of the aggregators of a switch: the paper's ⟨MemID, Size⟩.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, Default, serde::Serialize, serde::Deserialize,
)]
pub struct Segment {
    /// The first aggregator.
    pub offset: AggregatorIndex,
    /// Number of aggregators.
    pub size: u32,
}

impl Segment {
    /// No aggregators.
    pub const EMPTY: Self = Self { offset: AggregatorIndex(0), size: 0 };

    /// Whether the segment contains the aggregator. A switch decides this in the same way, by one
    /// subtraction modulo 2³².
    pub const fn contains(self, index: AggregatorIndex) -> bool {
        index.0.wrapping_sub(self.offset.0) < self.size
    }

    /// The first aggregator after the segment; `None` if it exceeds the range of indices.
    pub const fn end(self) -> Option<AggregatorIndex> {
        match self.offset.0.checked_add(self.size) {
            Some(end) => Some(AggregatorIndex(end)),
            None => None,
        }
    }
}

impl fmt::Display for Segment {
    /// Writes the first index and the index after the last: `512..768`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = u64::from(self.offset.0);
        write!(f, "{offset}..{}", offset + u64::from(self.size))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn contains_indices_from_offset_to_end(offset: u32, size: u32, near in 0u32..4, at: u32) {
            let segment = Segment { offset: AggregatorIndex(offset), size };
            if let Some(end) = segment.end() {
                let edges = [offset.wrapping_sub(near), offset.saturating_add(near), end.0.saturating_sub(near), at];
                for index in edges.map(AggregatorIndex) {
                    let within = segment.offset <= index && index < end;
                    prop_assert_eq!(segment.contains(index), within, "{} in {}", index, segment);
                }
            }
        }
    }

    #[test]
    fn the_empty_segment_contains_nothing() {
        assert!([0, 1, u32::MAX].iter().all(|i| !Segment::EMPTY.contains(AggregatorIndex(*i))));
        assert_eq!(Segment { offset: AggregatorIndex(u32::MAX), size: 2 }.end(), None);
    }

    #[test]
    fn service_zero_is_forwarding() {
        assert!(!Service::FORWARDED.is_aggregated());
        assert!((1..=u8::MAX).all(|number| Service::new(number).is_aggregated()));
    }
}
