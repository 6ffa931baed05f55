//! Hash algorithms of TNA's `Hash`.
//!
//! The concatenated values of a list are one long number, padded with zeros in front to whole
//! bytes. The program determines the number of bits of a result.

use crate::bits::mask;
use crate::externs::random::mix;

/// An algorithm of `HashAlgorithm_t`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum TnaHash {
    /// The number's lowest bits.
    Identity,
    /// Exclusive or of groups of this many bytes.
    Xor(usize),
    /// Each set bit of the number flips a fixed random set of bits.
    Random,
    Crc(Box<Crc>),
}

/// A cyclic redundancy check of 8 to 64 bits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Crc {
    width: u32,
    reversed: bool,
    start: u64,
    end: u64,
    /// Whether a narrower result has the highest bits instead of the lowest.
    msb: bool,
    /// Whether a wider result repeats the check, instead of being padded with zeros in front.
    extended: bool,
    table: [u64; 256],
}

/// The parameters of a check, as in `CRCPolynomial`: without the highest coefficient, and never
/// reversed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Polynomial {
    pub(crate) width: u32,
    pub(crate) coefficient: u64,
    pub(crate) reversed: bool,
    pub(crate) msb: bool,
    pub(crate) extended: bool,
    pub(crate) initial: u64,
    pub(crate) last: u64,
}

impl Polynomial {
    const fn plain(width: u32, coefficient: u64) -> Self {
        Self {
            width,
            coefficient,
            reversed: false,
            msb: false,
            extended: false,
            initial: 0,
            last: 0,
        }
    }
}

const CRC8: Polynomial = Polynomial::plain(8, 0x07);
const CRC16: Polynomial = Polynomial { reversed: true, ..Polynomial::plain(16, 0x8005) };
const CRC32: Polynomial = Polynomial {
    reversed: true,
    initial: 0xffff_ffff,
    last: 0xffff_ffff,
    ..Polynomial::plain(32, 0x04c1_1db7)
};
const CRC64: Polynomial = Polynomial::plain(64, 0x42f0_e1eb_a9ea_3693);

impl TnaHash {
    /// The algorithm with this name in `HashAlgorithm_t`, except for `CUSTOM`, which needs a
    /// polynomial.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "IDENTITY" => Self::Identity,
            "RANDOM" => Self::Random,
            "XOR8" => Self::Xor(1),
            "XOR16" => Self::Xor(2),
            "XOR32" => Self::Xor(4),
            "CRC8" => Self::crc(CRC8)?,
            "CRC16" => Self::crc(CRC16)?,
            "CRC32" => Self::crc(CRC32)?,
            "CRC64" => Self::crc(CRC64)?,
            _ => return None,
        })
    }

    /// A check; `None` if it has fewer than 8 or more than 64 bits, or values that do not fit.
    pub(crate) fn crc(polynomial: Polynomial) -> Option<Self> {
        let Polynomial { width, coefficient, reversed, msb, extended, initial, last } = polynomial;
        let fits = |value: u64| value <= mask(width);
        if !(8..=64).contains(&width) || !fits(coefficient) || !fits(initial) || !fits(last) {
            return None;
        }
        let turned =
            |value: u64| if reversed { value.reverse_bits() >> (64 - width) } else { value };
        let mut table = [0; 256];
        for (byte, entry) in (0u64..).zip(&mut table) {
            *entry = if reversed {
                let step = |r: u64| if r & 1 == 1 { r >> 1 ^ turned(coefficient) } else { r >> 1 };
                (0..8).fold(byte, |r, _| step(r))
            } else {
                let top = |r: u64| r >> (width - 1) & 1 == 1;
                let step =
                    |r: u64| (if top(r) { r << 1 ^ coefficient } else { r << 1 }) & mask(width);
                (0..8).fold(byte << (width - 8), |r, _| step(r))
            };
        }
        let (start, end) = (turned(initial), turned(last));
        Some(Self::Crc(Box::new(Crc { width, reversed, start, end, msb, extended, table })))
    }

    /// The digest of a number of whole bytes, in `width` bits (at most 64).
    pub(crate) fn digest(&self, data: &[u8], width: u32) -> u64 {
        let whole = match self {
            Self::Identity => number(&data[data.len().saturating_sub(8)..]),
            Self::Xor(bytes) => data.rchunks(*bytes).fold(0, |xor, word| xor ^ number(word)),
            Self::Random => {
                let bits = data.iter().rev().zip(0u64..).flat_map(|(&byte, at)| {
                    (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| at * 8 + bit)
                });
                bits.fold(0, |hash, bit| hash ^ mix(bit + 1))
            }
            Self::Crc(crc) => crc.digest(data, width),
        };
        whole & mask(width)
    }
}

impl Crc {
    fn digest(&self, data: &[u8], width: u32) -> u64 {
        let place = |value: u64| usize::from(value as u8);
        let check = data.iter().fold(self.start, |r, &byte| {
            if self.reversed {
                r >> 8 ^ self.table[place(r ^ u64::from(byte))]
            } else {
                let entry = self.table[place(r >> (self.width - 8) ^ u64::from(byte))];
                (r << 8 ^ entry) & mask(self.width)
            }
        });
        let check = check ^ self.end;
        if width < self.width {
            if self.msb { check >> (self.width - width) } else { check }
        } else if self.extended {
            (0..width).step_by(self.width as usize).fold(0, |all, at| all | check << at)
        } else {
            check
        }
    }
}

/// At most eight bytes as a number.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DATA: &[u8] = b"123456789";

    fn named(name: &str) -> TnaHash {
        TnaHash::from_name(name).unwrap()
    }

    #[test]
    fn check_values_of_the_published_checks() {
        assert_eq!(named("CRC8").digest(DATA, 8), 0xf4);
        assert_eq!(named("CRC16").digest(DATA, 16), 0xbb3d);
        assert_eq!(named("CRC32").digest(DATA, 32), 0xcbf4_3926);
        assert_eq!(named("CRC64").digest(DATA, 64), 0x6c40_df5f_0b49_7347);
        let custom = |polynomial| TnaHash::crc(polynomial).unwrap();
        // CRC-16/XMODEM, CRC-16/GENIBUS, CRC-32C, CRC-32/BZIP2, and CRC-16/RIELLO, whose initial
        // value is not symmetric.
        let xmodem = Polynomial::plain(16, 0x1021);
        assert_eq!(custom(xmodem).digest(DATA, 16), 0x31c3);
        let genibus = Polynomial { initial: 0xffff, last: 0xffff, ..xmodem };
        assert_eq!(custom(genibus).digest(DATA, 16), 0xd64e);
        assert_eq!(
            custom(Polynomial { coefficient: 0x1edc_6f41, ..CRC32 }).digest(DATA, 32),
            0xe306_9283
        );
        assert_eq!(custom(Polynomial { reversed: false, ..CRC32 }).digest(DATA, 32), 0xfc89_1918);
        let riello = Polynomial { reversed: true, initial: 0xb2aa, ..xmodem };
        assert_eq!(custom(riello).digest(DATA, 16), 0x63d0);
    }

    #[test]
    fn results_of_other_widths() {
        let crc16 = |msb, extended| TnaHash::crc(Polynomial { msb, extended, ..CRC16 }).unwrap();
        assert_eq!(crc16(false, false).digest(DATA, 12), 0xb3d);
        assert_eq!(crc16(true, false).digest(DATA, 12), 0xbb3);
        assert_eq!(crc16(false, false).digest(DATA, 40), 0xbb3d);
        assert_eq!(crc16(false, true).digest(DATA, 40), 0x3d_bb3d_bb3d);
        assert_eq!(named("IDENTITY").digest(DATA, 12), 0x839);
        assert_eq!(named("IDENTITY").digest(&[1, 2], 64), 0x102);
        assert_eq!(named("XOR16").digest(&[0xf0, 1, 2, 4, 8], 16), 0xf0 ^ 0x0102 ^ 0x0408);
    }

    #[test]
    fn invalid_checks_are_refused() {
        assert_eq!(TnaHash::crc(Polynomial::plain(7, 3)), None);
        assert_eq!(TnaHash::crc(Polynomial::plain(8, 0x107)), None);
        assert_eq!(TnaHash::from_name("CUSTOM"), None);
    }

    proptest! {
        #[test]
        fn the_random_hash_is_linear_and_hardly_ever_collides(a: [u8; 12], b: [u8; 12]) {
            let hash = |data: &[u8]| named("RANDOM").digest(data, 64);
            let both: Vec<u8> = a.iter().zip(&b).map(|(a, b)| a ^ b).collect();
            prop_assert_eq!(hash(&a) ^ hash(&b), hash(&both));
            prop_assert_eq!(hash(&a) == hash(&b), a == b);
        }
    }
}
