//! Optical cross-connects: which of their ports are joined, and how to change that.
//!
//! A cross-connect joins ports with [`Circuits`]. Light passes it in both directions of a circuit, and
//! is lost at all other ports. Controllers use the trait [`CrossConnect`], and [`connect`] to make one
//! from an address. Implementations:
//!
//! - [`emulated`]: a process that forwards frames between network interfaces;
//! - [`double`]: memory, with faults, for tests.
//!
//! A driver for another control protocol, such as NETCONF, is a module next to these that implements
//! the trait, and a prefix of addresses in [`connect`].
//!
//! Start reading at [`CrossConnect`]. `docs/cross-connects.md` is the documentation for operators.

#![deny(unsafe_code)]

use std::time::Duration;

mod circuits;
mod cross_connect;
pub mod double;
pub mod emulated;

pub use circuits::{Circuits, Invalid, Port};
pub use cross_connect::{CrossConnect, Error};

/// The text does not name a cross-connect.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` names no cross-connect: write emulated:HOST:PORT or emulated:unix:PATH")]
pub struct BadAddress(String);

/// The cross-connect with this address, which begins with its kind: `emulated:HOST:PORT` or
/// `emulated:unix:PATH`. Nothing is sent before it is used, within a Tokio runtime. `limit` is the time
/// limit for each answer; it must be longer than the device's outage.
///
/// # Errors
/// If the address is malformed.
pub fn connect(address: &str, limit: Duration) -> Result<Box<dyn CrossConnect>, BadAddress> {
    let bad = || BadAddress(address.to_owned());
    match address.split_once(':') {
        Some(("emulated", at)) => {
            Ok(Box::new(emulated::Client::new(at, limit).map_err(|_| bad())?))
        }
        _ => Err(bad()),
    }
}
