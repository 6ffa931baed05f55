//! Who needs the values of a result.

use crate::{Bitmap, POSITIONS_MAX};

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
        Self(1 + position)
    }

    /// All workers but the one at this position, which is less than [`POSITIONS_MAX`].
    pub const fn all_but(position: u8) -> Self {
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

    /// Those of some workers that are in the audience.
    pub const fn of(self, workers: Bitmap) -> Bitmap {
        if self.0 == 0 {
            return workers;
        }
        let named = Bitmap::of((self.0 & !ALL_BUT) - 1);
        if self.0 & ALL_BUT == 0 { Bitmap(workers.0 & named.0) } else { workers.without(named) }
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
        let everyone = Bitmap::first(POSITIONS_MAX);
        for position in 0..POSITIONS_MAX {
            let one = Bitmap::of(position);
            assert_eq!(Audience::only(position).of(everyone), one);
            assert_eq!(Audience::all_but(position).of(everyone), everyone.without(one));
        }
        assert_eq!(Audience::ALL.of(Bitmap(5)), Bitmap(5));
    }
}
