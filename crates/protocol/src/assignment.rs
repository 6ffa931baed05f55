//! How switches serve a job of P4INC or SwitchML.

use std::num::NonZeroU32;

use tributary_wire::{Protocol, Segment, Service};

use crate::ConfigError;

/// Where the gradients of a job are summed up (P4INC-AOI §VI.A).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// In the one switch that has all workers below it. There is no PS.
    Local,
    /// In the switches of several units, each the part of its own workers, and at last in the PS.
    Partial,
    /// In the PS; switches only forward.
    Forwarded,
}

/// What the job scheduler has assigned to a job. All endpoints of the job have the same one, and
/// change it only [between iterations](crate::Worker::reassign).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Assignment {
    /// The number that tells this assignment from the ones before; zero exactly if switches forward.
    pub service: Service,
    /// The job's aggregators, in every switch that serves it; empty if switches forward.
    pub segment: Segment,
    /// Where sums are made.
    pub mode: Mode,
}

impl Assignment {
    /// No switch serves the job by assignment: that of ATP and ESA, whose jobs share one pool, and of
    /// jobs that are only forwarded.
    pub const NONE: Self =
        Self { service: Service::FORWARDED, segment: Segment::EMPTY, mode: Mode::Forwarded };

    /// Checks it for a job of that protocol and window, in a pool of that many aggregators.
    pub(crate) fn validate(
        &self,
        protocol: Protocol,
        slots: u32,
        pool: NonZeroU32,
    ) -> Result<(), ConfigError> {
        let suits = match protocol {
            Protocol::Atp | Protocol::Esa => *self == Self::NONE,
            Protocol::P4inc => {
                *self == Self::NONE || self.mode != Mode::Forwarded && self.service.is_aggregated()
            }
            Protocol::SwitchMl => self.mode == Mode::Local && self.service.is_aggregated(),
        };
        if !suits {
            let Self { service, mode, .. } = *self;
            return Err(ConfigError::Assignment { protocol, service, mode });
        }
        if *self == Self::NONE {
            return Ok(());
        }
        let segment = self.segment;
        let inside = segment.end().is_some_and(|end| end.0 <= pool.get());
        if segment.size == 0 || !inside {
            return Err(ConfigError::Segment { segment, pool });
        }
        // Otherwise a cell could be needed for a round while a worker still lacks the result of the
        // last but one, which nobody has any more.
        let needed = match (protocol, self.mode) {
            (Protocol::SwitchMl, _) => 2 * slots,
            (_, Mode::Local) => slots,
            _ => 1,
        };
        if segment.size < needed {
            return Err(ConfigError::Window { slots, needed, size: segment.size });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tributary_wire::AggregatorIndex;

    use super::*;

    const POOL: NonZeroU32 = NonZeroU32::new(1024).unwrap();

    fn check(protocol: Protocol, service: u8, size: u32, mode: Mode) -> Result<(), ConfigError> {
        let segment = Segment { offset: AggregatorIndex(512), size };
        Assignment { service: Service::new(service), segment, mode }.validate(protocol, 64, POOL)
    }

    #[test]
    fn a_window_larger_than_the_copies_can_repair_is_refused() {
        use Mode::{Local, Partial};
        assert_eq!(check(Protocol::P4inc, 1, 64, Local), Ok(()));
        let error = ConfigError::Window { slots: 64, needed: 64, size: 63 };
        assert_eq!(check(Protocol::P4inc, 1, 63, Local), Err(error));
        assert_eq!(check(Protocol::SwitchMl, 1, 128, Local), Ok(()));
        let error = ConfigError::Window { slots: 64, needed: 128, size: 127 };
        assert_eq!(check(Protocol::SwitchMl, 1, 127, Local), Err(error));
        // The PS keeps what the switch does not.
        assert_eq!(check(Protocol::P4inc, 1, 1, Partial), Ok(()));
    }

    #[test]
    fn segments_lie_in_the_pool() {
        assert_eq!(check(Protocol::P4inc, 1, 512, Mode::Local), Ok(()));
        for size in [0, 513, u32::MAX] {
            let error = check(Protocol::P4inc, 1, size, Mode::Partial).unwrap_err();
            assert!(matches!(error, ConfigError::Segment { pool: POOL, .. }), "{error}");
        }
    }

    #[test]
    fn service_and_mode_must_suit_the_protocol() {
        use Mode::{Forwarded, Local, Partial};
        for (protocol, service, mode) in [
            (Protocol::Atp, 1, Local),
            (Protocol::Esa, 0, Forwarded),
            (Protocol::P4inc, 0, Local),
            (Protocol::P4inc, 0, Partial),
            (Protocol::P4inc, 3, Forwarded),
            (Protocol::SwitchMl, 0, Local),
            (Protocol::SwitchMl, 3, Partial),
        ] {
            let error = check(protocol, service, 512, mode).unwrap_err();
            assert!(matches!(error, ConfigError::Assignment { .. }), "{error}");
        }
        let none = |protocol| Assignment::NONE.validate(protocol, 64, POOL);
        for protocol in [Protocol::Atp, Protocol::Esa, Protocol::P4inc] {
            assert_eq!(none(protocol), Ok(()));
        }
        assert!(none(Protocol::SwitchMl).is_err());
    }
}
