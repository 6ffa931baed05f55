//! The kernel's data on a network interface of the calling thread's network namespace.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::{fs, io};

use crate::sys;

/// A network interface, as it was at the time of the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, as given.
    pub name: String,
    /// Its index in the kernel.
    pub index: u32,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Link type of the kernel: 1 for Ethernet, 772 for the loopback.
    pub kind: u16,
    /// Maximum number of bytes after the Ethernet header.
    pub mtu: usize,
    /// Whether it is administratively up.
    pub up: bool,
    /// Whether it is up, and there is a carrier.
    pub running: bool,
}

/// Why an interface is unusable.
#[derive(Debug, thiserror::Error)]
pub enum InterfaceError {
    /// It does not exist in this network namespace.
    #[error("there is no network interface `{name}` here; there are: {}", available.join(", "))]
    Unknown {
        /// The requested name.
        name: String,
        /// The existing names.
        available: Vec<String>,
    },
    /// A query to the kernel failed.
    #[error("cannot ask for the {what} of network interface `{name}`: {source}")]
    Query {
        /// The interface.
        name: String,
        /// The query.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl Interface {
    /// An error that names the interface.
    pub(crate) fn named(&self, error: &io::Error) -> io::Error {
        let text = format!("network interface `{}`: {error}", self.name);
        io::Error::new(error.kind(), text)
    }

    /// Looks up an interface by its name.
    ///
    /// # Errors
    ///
    /// If it does not exist, or a query fails.
    pub fn find(name: &str) -> Result<Self, InterfaceError> {
        let unknown = || InterfaceError::Unknown { name: name.to_owned(), available: names() };
        let query =
            |what| move |source| InterfaceError::Query { name: name.to_owned(), what, source };
        let index = sys::interface_index(name).map_err(|_| unknown())?;
        let mut all = pnet_datalink::interfaces().into_iter();
        let found = all.find(|found| found.index == index).ok_or_else(unknown)?;
        Ok(Self {
            name: name.to_owned(),
            index,
            mac: found.mac.unwrap_or_default().octets(),
            kind: sys::interface_kind(name).map_err(query("link type"))?,
            mtu: sys::interface_mtu(name).map_err(query("MTU"))?,
            up: found.is_up(),
            running: found.is_up() && found.is_running(),
        })
    }
}

/// The IPv4 addresses of all interfaces of the calling thread's network namespace, with their names.
#[must_use]
pub fn addresses() -> Vec<(String, Ipv4Addr)> {
    let of = |interface: pnet_datalink::NetworkInterface| {
        // Labels such as `eth0:1` are not names of interfaces.
        let name = interface.name.split(':').next().unwrap_or_default().to_owned();
        let own = interface.ips.into_iter().filter_map(|network| match network.ip() {
            IpAddr::V4(ip) => Some(ip),
            IpAddr::V6(_) => None,
        });
        own.map(|ip| (name.clone(), ip)).collect::<Vec<_>>()
    };
    pnet_datalink::interfaces().into_iter().flat_map(of).collect()
}

/// Whether the kernel delivers packets that come back to an interface from its own address
/// (`accept_local`), by the files below `root`, which is `/` except in tests; `None` if it does not say.
#[must_use]
pub fn accepts_own(root: &Path, name: &str) -> Option<bool> {
    let settings = root.join("proc/sys/net/ipv4/conf");
    let of = |which: &str| {
        Some(fs::read_to_string(settings.join(which).join("accept_local")).ok()?.trim() == "1")
    };
    Some(of("all")? || of(name)?)
}

/// The names of all interfaces of the calling thread's network namespace.
#[must_use]
pub fn names() -> Vec<String> {
    let names = pnet_datalink::interfaces().into_iter().map(|interface| interface.name);
    // Labels of addresses, such as `eth0:1`, are listed, too.
    names.filter(|name| !name.contains(':')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_to_every_namespace() {
        let loopback = Interface::find("lo").expect("every namespace has it");
        assert_eq!(loopback.mac, [0; 6]);
        assert_eq!(loopback.kind, 772);
        assert!(loopback.index >= 1);
        assert!(loopback.mtu >= 1_500, "{loopback:?}");
        assert!(names().contains(&"lo".to_owned()));
    }

    #[test]
    fn loopback_has_its_address() {
        assert!(addresses().contains(&("lo".to_owned(), Ipv4Addr::LOCALHOST)));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        for name in ["trib-none", "", "../net/lo", "a-name-that-no-interface-can-have"] {
            let error = Interface::find(name).expect_err("must not exist").to_string();
            assert!(error.contains(&format!("`{name}`")), "{error}");
            assert!(error.contains("lo"), "{error}");
        }
    }
}
