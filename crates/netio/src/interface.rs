//! The kernel's data on a network interface of the calling thread's network namespace.

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
    /// Maximum number of bytes after the Ethernet header.
    pub mtu: usize,
    /// Whether it is administratively up.
    pub up: bool,
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
    /// Looks up an interface by its name.
    ///
    /// # Errors
    ///
    /// If it does not exist, or a query fails.
    pub fn find(name: &str) -> Result<Self, InterfaceError> {
        let unknown = |_| InterfaceError::Unknown { name: name.to_owned(), available: names() };
        let query =
            |what| move |source| InterfaceError::Query { name: name.to_owned(), what, source };
        let requests = sys::InterfaceRequests::new().map_err(query("address"))?;
        let index = requests.index(name).map_err(unknown)?;
        let up = requests.is_up(name).map_err(query("state"))?;
        Ok(Self {
            name: name.to_owned(),
            index,
            mac: requests.mac(name).map_err(query("address"))?,
            mtu: requests.mtu(name).map_err(query("MTU"))?,
            up,
        })
    }
}

/// The names of all interfaces of the calling thread's network namespace.
#[must_use]
pub fn names() -> Vec<String> {
    // Not /sys, which shows the network namespace of the process that mounted it.
    let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let lines = table.lines().skip(2);
    lines.filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_to_every_namespace() {
        let loopback = Interface::find("lo").expect("every namespace has it");
        assert_eq!(loopback.mac, [0; 6]);
        assert!(loopback.index >= 1);
        assert!(loopback.mtu >= 1_500, "{loopback:?}");
        assert!(names().contains(&"lo".to_owned()));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        for name in ["trib-none", "", "a-name-that-no-interface-can-have"] {
            let error = Interface::find(name).expect_err("must not exist").to_string();
            assert!(error.contains(&format!("`{name}`")), "{error}");
            assert!(error.contains("lo"), "{error}");
        }
    }
}
