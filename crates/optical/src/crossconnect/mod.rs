//! Optical cross-connects: which of their ports are joined, and how to change that.
//!
//! A cross-connect joins ports with [`Circuits`](tributary_model::circuits::Circuits). Light passes it in both directions of a circuit, and
//! is lost at all other ports. Controllers use the trait [`CrossConnect`], and [`connect`] to make one
//! from an address. Implementations:
//!
//! - [`emulated`]: a process that forwards frames between network interfaces;
//! - [`openflow`]: a switch that is controlled by OpenFlow 1.3;
//! - [`double`]: memory, with faults, for tests.
//!
//! A driver for another control protocol, such as NETCONF, is a module next to these that implements
//! the trait, and a prefix of addresses in [`connect`].
//!
//! Start reading at [`CrossConnect`]. `docs/operate/cross-connects.md` is the documentation for
//! operators.

#![deny(unsafe_code)]

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tributary_access::ClientKeys;

mod cross_connect;
pub mod double;
pub mod emulated;
pub mod openflow;

pub use cross_connect::{CrossConnect, Error};

/// Why a cross-connect cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The text does not name a cross-connect.
    #[error(
        "`{0}` names no cross-connect: write emulated:AT or openflow:AT, where AT is HOST:PORT or \
         unix:PATH, or openflow:listen:ADDRESS:PORT"
    )]
    Address(String),
    /// This host cannot listen at the address.
    #[error("cannot listen for the cross-connect {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// The cross-connect with this address:
///
/// - `emulated:HOST:PORT` or `emulated:unix:PATH`: the process `tributary crossconnect`;
/// - `openflow:HOST:PORT` or `openflow:unix:PATH`: a device that listens there;
/// - `openflow:listen:ADDRESS:PORT`: a device that connects to this host.
///
/// With `keys`, the connection to an emulated one is encrypted. Call it within a Tokio runtime. Nothing is sent before the cross-connect is used. `limit` is the time
/// limit for each answer; it must be longer than the device's outage.
///
/// # Errors
/// If the address is malformed, or this host cannot listen there.
pub fn connect(
    address: &str,
    limit: Duration,
    keys: Option<Arc<ClientKeys>>,
) -> Result<Box<dyn CrossConnect>, ConnectError> {
    let bad = || ConnectError::Address(address.to_owned());
    let (kind, at) = address.split_once(':').ok_or_else(bad)?;
    match kind {
        "emulated" => Ok(Box::new(emulated::Client::new(at, limit, keys).map_err(|_| bad())?)),
        "openflow" => {
            if let Some(at) = at.strip_prefix("listen:") {
                let at = at.parse().map_err(|_| bad())?;
                let listening = openflow::OpenFlow::listen(at, limit);
                let failed = |source| ConnectError::Listen { address: address.to_owned(), source };
                return Ok(Box::new(listening.map_err(failed)?));
            }
            if let Some(path) = at.strip_prefix("unix:").filter(|path| !path.is_empty()) {
                return Ok(Box::new(openflow::OpenFlow::unix(path, limit)));
            }
            let (host, port) = at.rsplit_once(':').ok_or_else(bad)?;
            if host.is_empty() || port.parse::<u16>().is_err() {
                return Err(bad());
            }
            Ok(Box::new(openflow::OpenFlow::tcp(at, limit)))
        }
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_begin_with_their_kind() {
        let limit = Duration::from_secs(1);
        for address in [
            "emulated:host:9642",
            "emulated:unix:/run/oxc",
            "openflow:10.0.0.1:6653",
            "openflow:unix:/run/oxc",
        ] {
            assert_eq!(connect(address, limit, None).unwrap().name(), address);
        }
        let listening = connect("openflow:listen:127.0.0.1:0", limit, None).unwrap();
        let name = listening.name().to_owned();
        assert!(name.starts_with("openflow:listen:127.0.0.1:") && !name.ends_with(":0"), "{name}");
        let taken = connect(&name, limit, None).unwrap_err().to_string();
        assert!(
            taken.starts_with(&format!("cannot listen for the cross-connect {name}: ")),
            "{taken}"
        );
        for address in [
            "",
            "emulated",
            "emulated:",
            "emulated:host",
            "emulated::1",
            "emulated:host:0",
            "emulated:host:99999",
            "emulated:unix:",
            "openflow:unix:",
            "openflow:host",
            "openflow:listen:1",
            "netconf:host:830",
        ] {
            let error = connect(address, limit, None).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{address}` names no cross-connect")), "{error}");
        }
    }
}
