//! The bytes in front of a frame: intrinsic metadata as parsers extract it.

use crate::bits::mask;

/// A time in the form for programs, in 48 bits.
pub(super) const fn nanoseconds(time_us: u64) -> u64 {
    time_us.wrapping_mul(1000) & mask(48)
}

/// `ingress_intrinsic_metadata_t`.
pub(super) fn ingress_intrinsic(port: u16, resubmitted: bool, time_us: u64) -> [u8; 8] {
    let mut bits = Bits::<8>::default();
    bits.put(1, u64::from(resubmitted));
    bits.put(1 + 2 + 3, 0); // padding, packet version, padding
    bits.put(9, u64::from(port));
    bits.put(48, nanoseconds(time_us));
    bits.bytes
}

/// The traffic manager's data about a packet for egress.
#[derive(Clone, Copy, Debug)]
pub(super) struct EgressIntrinsic {
    pub(super) port: u16,
    pub(super) enq_qdepth: u32,
    pub(super) enq_time_us: u64,
    pub(super) deq_qdepth: u32,
    pub(super) deq_timedelta_us: u32,
    pub(super) rid: u16,
    pub(super) rid_first: bool,
    pub(super) deflected: bool,
    pub(super) length: u32,
}

impl EgressIntrinsic {
    /// `egress_intrinsic_metadata_t`. Depths and length saturate at the maximum of their fields;
    /// times wrap. There is one queue per port, without congestion state.
    pub(super) fn bytes(self) -> [u8; 27] {
        let most = |value: u32, width| u64::from(value).min(mask(width));
        let mut bits = Bits::<27>::default();
        bits.put(7, 0);
        bits.put(9, u64::from(self.port));
        bits.put(5, 0);
        bits.put(19, most(self.enq_qdepth, 19));
        bits.put(6 + 2, 0); // padding, enq_congest_stat
        bits.put(14, 0);
        bits.put(18, self.enq_time_us.wrapping_mul(1000) & mask(18));
        bits.put(5, 0);
        bits.put(19, most(self.deq_qdepth, 19));
        bits.put(6 + 2 + 8, 0); // padding, deq_congest_stat, app_pool_congest_stat
        bits.put(14, 0);
        bits.put(18, u64::from(self.deq_timedelta_us).wrapping_mul(1000) & mask(18));
        bits.put(16, u64::from(self.rid));
        bits.put(7, 0);
        bits.put(1, u64::from(self.rid_first));
        bits.put(3 + 5, 0); // padding, egress_qid
        bits.put(5 + 3, 0); // padding, egress_cos
        bits.put(7, 0);
        bits.put(1, u64::from(self.deflected));
        bits.put(16, most(self.length, 16));
        bits.bytes
    }
}

/// Concatenated fields, most significant first.
struct Bits<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Default for Bits<N> {
    fn default() -> Self {
        Self { bytes: [0; N], at: 0 }
    }
}

impl<const N: usize> Bits<N> {
    fn put(&mut self, width: usize, value: u64) {
        crate::bits::put_bits(&mut self.bytes, self.at, width, &[value]);
        self.at += width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ingress_metadata_has_the_architectures_layout() {
        assert_eq!(ingress_intrinsic(0x155, false, 0), [0x01, 0x55, 0, 0, 0, 0, 0, 0]);
        assert_eq!(ingress_intrinsic(3, true, 1), [0x80, 0x03, 0, 0, 0, 0, 0x03, 0xe8]);
    }

    #[test]
    fn egress_metadata_has_the_architectures_layout() {
        let all = EgressIntrinsic {
            port: 0x1ff,
            enq_qdepth: u32::MAX,
            enq_time_us: 1,
            deq_qdepth: 2,
            deq_timedelta_us: 300,
            rid: 0xabcd,
            rid_first: true,
            deflected: true,
            length: 100_000,
        };
        #[rustfmt::skip]
        let expected = [
            0x01, 0xff,
            0x07, 0xff, 0xff, 0,
            0, 0, 0x03, 0xe8,
            0, 0, 2, 0,
            0,
            // 300 µs are 300 000 ns, of which 18 bits hold the remainder modulo 262 144.
            0, 0, 0x93, 0xe0,
            0xab, 0xcd,
            0x01, 0, 0, 0x01,
            0xff, 0xff,
        ];
        assert_eq!(all.bytes(), expected);
    }
}
