//! Hash and checksum algorithms over bytes.

use crate::externs::random::mix;

/// An algorithm of v1model's `HashAlgorithm`, and of `PSA_HashAlgorithm_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Algorithm {
    /// CRC-16/ARC. Also used for `crc16_custom`, whose parameters the control plane cannot change
    /// here.
    Crc16,
    /// CRC-32 as in Ethernet; also `crc32_custom`.
    Crc32,
    /// The Internet checksum.
    Csum16,
    /// Exclusive or of 16-bit words.
    Xor16,
    /// The first eight bytes as a number.
    Identity,
    /// A 64-bit hash without visible structure. simple_switch has no such algorithm, and refuses
    /// programs that name it.
    Random,
}

impl Algorithm {
    /// The supported algorithm with this name in `HashAlgorithm` or `PSA_HashAlgorithm_t`.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "crc16" | "crc16_custom" | "CRC16" | "CRC16_CUSTOM" => Self::Crc16,
            "crc32" | "crc32_custom" | "CRC32" | "CRC32_CUSTOM" | "TARGET_DEFAULT" => Self::Crc32,
            "csum16" | "ONES_COMPLEMENT16" => Self::Csum16,
            "xor16" => Self::Xor16,
            "identity" | "IDENTITY" => Self::Identity,
            "random" => Self::Random,
            _ => return None,
        })
    }

    /// The digest of more data after some whose digest is known; that of no data is zero. `None` if
    /// it does not follow from the digest.
    pub(crate) fn resume(self, digest: u64, more: &[u8]) -> Option<u64> {
        let bytes = more.iter().copied();
        Some(match self {
            Self::Crc16 => u64::from(bytes.fold(digest as u16, crc16)),
            Self::Crc32 => u64::from(!bytes.fold(!(digest as u32), crc32)),
            Self::Identity => bytes.fold(digest, |number, byte| number << 8 | u64::from(byte)),
            Self::Csum16 | Self::Xor16 | Self::Random => return None,
        })
    }

    /// The digest of two concatenated pieces of data.
    pub(crate) fn digest(self, head: &[u8], tail: &[u8]) -> u64 {
        let bytes = || head.iter().chain(tail).copied();
        match self {
            Self::Crc16 => u64::from(bytes().fold(0, crc16)),
            Self::Crc32 => u64::from(!bytes().fold(!0, crc32)),
            Self::Csum16 => u64::from(!fold(sum_words(head, tail))),
            Self::Xor16 => {
                let mut odd = false;
                u64::from(bytes().fold(0u16, |xor, byte| {
                    odd = !odd;
                    xor ^ u16::from(byte) << if odd { 8 } else { 0 }
                }))
            }
            Self::Identity => bytes().take(8).fold(0, |number, byte| number << 8 | u64::from(byte)),
            Self::Random => {
                bytes().fold(0, |hash, byte| mix(hash.wrapping_add(u64::from(byte) + 1)))
            }
        }
    }
}

fn crc16(crc: u16, byte: u8) -> u16 {
    CRC16[usize::from((crc ^ u16::from(byte)) & 0xff)] ^ crc >> 8
}

fn crc32(crc: u32, byte: u8) -> u32 {
    CRC32[((crc ^ u32::from(byte)) & 0xff) as usize] ^ crc >> 8
}

/// Sum of big-endian 16-bit words, an odd byte at the end padded with zero.
pub(crate) fn sum_words(head: &[u8], tail: &[u8]) -> u64 {
    let (pairs, odd) = head.as_chunks::<2>();
    let mut sum: u64 = pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum();
    let mut tail = tail;
    if let [last] = odd {
        let (next, rest) = tail.split_first().map_or((0, tail), |(&next, rest)| (next, rest));
        sum += u64::from(u16::from_be_bytes([*last, next]));
        tail = rest;
    }
    let (pairs, odd) = tail.as_chunks::<2>();
    sum += pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum::<u64>();
    sum + odd.first().map_or(0, |&byte| u64::from(byte) << 8)
}

/// One's complement sum in 16 bits.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u16;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xa001 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

const CRC32: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn check_values_of_the_published_algorithms() {
        let data = b"123456789";
        assert_eq!(Algorithm::Crc16.digest(data, &[]), 0xbb3d);
        assert_eq!(Algorithm::Crc32.digest(data, &[]), 0xcbf4_3926);
        assert_eq!(Algorithm::Identity.digest(data, &[]), 0x3132_3334_3536_3738);
        assert_eq!(Algorithm::Xor16.digest(&[1, 2, 4, 8, 16], &[]), 0x150a);
        // RFC 1071, section 3.
        let words = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Algorithm::Csum16.digest(&words, &[]), 0x220d);
    }

    proptest! {
        #[test]
        fn a_digest_does_not_depend_on_where_the_data_is_cut(
            data in proptest::collection::vec(any::<u8>(), 0..64), at in 0usize..64,
        ) {
            let (head, tail) = data.split_at(at.min(data.len()));
            for algorithm in [
                Algorithm::Crc16, Algorithm::Crc32, Algorithm::Csum16, Algorithm::Xor16,
                Algorithm::Identity, Algorithm::Random,
            ] {
                prop_assert_eq!(algorithm.digest(&data, &[]), algorithm.digest(head, tail));
            }
        }
    }
}
