//! Settings of the driver of a network interface in the calling thread's network namespace.

use std::io;

use crate::sys;

// From linux/ethtool.h.
const SET_RX_CHECKSUM: u32 = 0x15;
const GET_TX_CHECKSUM: u32 = 0x16;
const SET_TX_CHECKSUM: u32 = 0x17;
const SET_SCATTER_GATHER: u32 = 0x19;
const SET_TSO: u32 = 0x1f;
const SET_GSO: u32 = 0x24;
const GET_FLAGS: u32 = 0x25;
const GET_GRO: u32 = 0x2b;
const SET_GRO: u32 = 0x2c;
const GET_CHANNELS: u32 = 0x3c;
const FLAG_LRO: u32 = 1 << 15;
const GET_STRINGS: u32 = 0x1b;
const GET_SET_SIZES: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
/// The set of strings with the names of features.
const FEATURES: u32 = 4;

/// The kernel keeps features in words of 64 bits; it has one so far.
const MOST_FEATURES: usize = 128;
/// Words of a name.
const NAME: usize = 8;

/// Offloads that change frames. `None`: the driver does not report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Frames leave the kernel without their checksums.
    pub tx_checksum: Option<bool>,
    /// The kernel merges segments of a TCP stream before they are delivered.
    pub gro: Option<bool>,
    /// The network card does so.
    pub lro: Option<bool>,
    /// The interface takes UDP super-frames, and cuts them or passes them on. Otherwise the kernel cuts
    /// them before.
    pub udp_segmentation: Option<bool>,
}

impl Offloads {
    /// Asks the driver.
    #[must_use]
    pub fn of(interface: &str) -> Self {
        let get = |command| Some(sys::ethtool(interface, [command, 0]).ok()?[1]);
        Self {
            tx_checksum: get(GET_TX_CHECKSUM).map(|value| value != 0),
            gro: get(GET_GRO).map(|value| value != 0),
            lro: get(GET_FLAGS).map(|flags| flags & FLAG_LRO != 0),
            udp_segmentation: feature(interface, "tx-udp-segmentation"),
        }
    }

    /// Makes the kernel send frames in their final form: with checksums, and neither merged nor to
    /// be segmented.
    ///
    /// # Errors
    ///
    /// If there is no such interface, or without the privilege to change it.
    pub fn disable(interface: &str) -> io::Result<()> {
        // The kernel requires this order.
        for command in
            [SET_GRO, SET_TSO, SET_GSO, SET_TX_CHECKSUM, SET_SCATTER_GATHER, SET_RX_CHECKSUM]
        {
            match sys::ethtool(interface, [command, 0]) {
                // Unsupported features need not be turned off.
                Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
                other => drop(other?),
            }
        }
        Ok(())
    }
}

/// Whether a feature is on.
fn feature(interface: &str, name: &str) -> Option<bool> {
    // The kernel writes all names, whatever room there is.
    let [_, _, _, _, count] = sys::ethtool(interface, set_sizes(FEATURES)).ok()?;
    if count as usize > MOST_FEATURES {
        return None;
    }
    let mut strings = [0; 3 + MOST_FEATURES * NAME];
    strings[..2].copy_from_slice(&[GET_STRINGS, FEATURES]);
    let [_, _, count, names @ ..] = sys::ethtool(interface, strings).ok()?;
    let names = names.chunks_exact(NAME).take(count as usize);
    let number = names.into_iter().position(|words| {
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
        bytes.take_while(|byte| *byte != 0).eq(name.bytes())
    })?;
    // A block for 32 features: which are available, requested, active, and never changed.
    let mut features = [0; 2 + 4 * MOST_FEATURES / 32];
    features[..2].copy_from_slice(&[GET_FEATURES, MOST_FEATURES as u32 / 32]);
    let [_, _, blocks @ ..] = sys::ethtool(interface, features).ok()?;
    let [_, _, active, _] = blocks.as_chunks().0[number / 32];
    Some(active & 1 << (number % 32) != 0)
}

/// A request for the size of a set of strings: two words, a mask of sets with 64 bits, and the answer.
fn set_sizes(set: u32) -> [u32; 5] {
    let mask = (1_u64 << set).to_ne_bytes();
    let (words, _) = mask.as_chunks();
    let word = |at: usize| u32::from_ne_bytes(words[at]);
    [GET_SET_SIZES, 0, word(0), word(1), 0]
}

/// Number of receive queues.
pub(crate) fn receive_queues(interface: &str) -> io::Result<u32> {
    // A command, four limits, and the numbers of these.
    match sys::ethtool(interface, [GET_CHANNELS, 0, 0, 0, 0, 0, 0, 0, 0]) {
        // A driver without this command has one queue.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(1),
        Err(error) => Err(error),
        Ok([.., receive, _transmit, _other, combined]) => Ok((receive + combined).max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_reported_and_missing_interfaces_are_not() {
        let lo = Offloads::of("lo");
        assert!(lo.gro.is_some() && lo.udp_segmentation.is_some(), "{lo:?}");
        assert_eq!(feature("lo", "loopback"), Some(true));
        assert_eq!(feature("lo", "loopbac"), None);
        for missing in ["", "no-such-if", "a-name-that-is-far-too-long"] {
            assert_eq!(Offloads::of(missing), Offloads::default());
            assert!(Offloads::disable(missing).is_err());
            assert!(receive_queues(missing).is_err());
        }
    }
}
