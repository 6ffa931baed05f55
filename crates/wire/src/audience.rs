//! Who needs the values of a result.

use crate::POSITIONS_MAX;

/// The bit of audiences that leave one worker out.
const ALL_BUT: u8 = 0x80;

/// The workers that need the values of a fragment's result. Switches send it to the others without.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Audience(u8);

impl Audience {
    /// All workers.
    pub const ALL: Self = Self(0);

    /// The worker at this position, which is less than [`POSITIONS_MAX`].
    pub const fn only(position: u8) -> Self {
        debug_assert!(position < POSITIONS_MAX, "a position");
        Self(1 + position)
    }

    /// All workers but the one at this position, which is less than [`POSITIONS_MAX`].
    pub const fn all_but(position: u8) -> Self {
        debug_assert!(position < POSITIONS_MAX, "a position");
        Self(ALL_BUT | (1 + position))
    }

    /// Decodes the header's byte.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        let named = byte & !ALL_BUT;
        if byte == 0 || named > 0 && named <= POSITIONS_MAX { Some(Self(byte)) } else { None }
    }

    /// The header's byte.
    pub const fn byte(self) -> u8 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audiences_make_the_round_trip() {
        let all = (0..=u8::MAX).filter_map(Audience::from_byte);
        assert_eq!(all.clone().count(), 1 + 2 * usize::from(POSITIONS_MAX));
        assert!(all.clone().all(|audience| Audience::from_byte(audience.byte()) == Some(audience)));
        for position in 0..POSITIONS_MAX {
            for audience in [Audience::only(position), Audience::all_but(position)] {
                assert!(all.clone().any(|known| known == audience));
            }
        }
    }
}
