//! ESA: packets between workers and the PS that bypass the aggregators.

/// The purpose of a packet with [`Flags::REPAIR`](crate::Flags::REPAIR).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Repair {
    /// What the packet carries or asks for.
    pub what: Repaired,
    /// Whether the values are, or should be, `f32` bit patterns.
    pub float: bool,
}

/// See [`Repair`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Repaired {
    /// Gradient: a worker has all results of the job and submits nothing more. Parameter: this holds for all workers.
    /// The values are zeros.
    Farewell = 0,
    /// Gradient: the worker's own values, repeated. The worker lacks the result.
    Contribution = 1,
    /// Gradient: the result, from a worker's cache.
    Result = 2,
    /// Parameter: asks the workers in the bitmap for their contribution or the result. The values
    /// are zeros.
    Question = 3,
}

impl Repair {
    /// The largest code. Switches that lower priorities lower none below it, as a code would become another.
    pub const LARGEST_CODE: u8 = Self { what: Repaired::Question, float: true }.code();

    /// A [farewell](Repaired::Farewell).
    pub const FAREWELL: Self = Self { what: Repaired::Farewell, float: true };

    /// Encodes the priority byte. It is never zero, because the priority of a gradient is never
    /// zero.
    pub const fn code(self) -> u8 {
        match self.what {
            Repaired::Farewell => 1,
            what => (what as u8) << 1 | self.float as u8,
        }
    }

    /// Decodes the priority byte.
    pub const fn from_code(code: u8) -> Option<Self> {
        let what = match code >> 1 {
            0 if code == 1 => Repaired::Farewell,
            1 => Repaired::Contribution,
            2 => Repaired::Result,
            3 => Repaired::Question,
            _ => return None,
        };
        Some(Self { what, float: code & 1 == 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_back() {
        let read: Vec<_> =
            (0..=u8::MAX).filter_map(|code| Some((code, Repair::from_code(code)?))).collect();
        assert_eq!(read.len(), 7);
        assert_eq!(read.iter().map(|(code, _)| *code).max(), Some(Repair::LARGEST_CODE));
        assert!(read.iter().all(|(code, repair)| *code > 0 && repair.code() == *code));
    }
}
