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

/// Offloads that change frames. `None`: the driver does not report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Frames leave the kernel without their checksums.
    pub tx_checksum: Option<bool>,
    /// The kernel merges segments of a TCP stream before they are delivered.
    pub gro: Option<bool>,
    /// The network card does so.
    pub lro: Option<bool>,
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
        let all = [SET_GRO, SET_TSO, SET_GSO, SET_TX_CHECKSUM, SET_SCATTER_GATHER, SET_RX_CHECKSUM];
        turn_off(interface, &all)
    }

    /// Turns off merging and later segmentation for TCP only. UDP datagrams may leave the kernel as
    /// super-frames, and frames without their checksums.
    ///
    /// # Errors
    ///
    /// If there is no such interface, or without the privilege to change it.
    pub fn disable_tcp(interface: &str) -> io::Result<()> {
        turn_off(interface, &[SET_GRO, SET_TSO])
    }
}

fn turn_off(interface: &str, features: &[u32]) -> io::Result<()> {
    for command in features {
        match sys::ethtool(interface, [*command, 0]) {
            // Unsupported features need not be turned off.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
            other => drop(other?),
        }
    }
    Ok(())
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
        assert!(Offloads::of("lo").gro.is_some());
        for missing in ["", "no-such-if", "a-name-that-is-far-too-long"] {
            assert_eq!(Offloads::of(missing), Offloads::default());
            assert!(Offloads::disable(missing).is_err());
            assert!(receive_queues(missing).is_err());
        }
    }
}
