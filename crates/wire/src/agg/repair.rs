//! ESA: packets between workers and the PS that no aggregator takes part in.

/// What a packet with [`Flags::REPAIR`](crate::Flags::REPAIR) is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Repair {
    /// What it brings, or asks for.
    pub what: Repaired,
    /// Whether its values are `f32` bit patterns, or are to be.
    pub float: bool,
}

/// See [`Repair`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Repaired {
    /// Gradient: the worker's own values once more. It lacks the result.
    Contribution = 1,
    /// Gradient: the result, which the worker has.
    Result = 2,
    /// Parameter: the workers in the bitmap are to send the one or the other. The values are zeros.
    Question = 3,
}

impl Repair {
    /// The header's byte for priority. It is never zero, as a gradient has to have a priority.
    pub const fn code(self) -> u8 {
        (self.what as u8) << 1 | self.float as u8
    }

    /// From the header's byte.
    pub const fn from_code(code: u8) -> Option<Self> {
        let what = match code >> 1 {
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
        assert_eq!(read.len(), 6);
        assert!(read.iter().all(|(code, repair)| *code > 0 && repair.code() == *code));
    }
}
